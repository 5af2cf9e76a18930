"""Pruning: what is older than the retention is deleted, little by little, after the daily roll-up, which outlives the runs."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Delete, Select, Table, and_, delete, exists, func, or_, select, true, update

from monitor.errors import ConfigError
from monitor.model.alerts import State
from monitor.model.rankings import ALL
from monitor.model.retention import Cutoffs, Pruned
from monitor.model.runs import KEPT_MARK, RunStatus, Summary
from monitor.model.statistics import Statistic
from monitor.storage import run_results
from monitor.storage.alert_states import WAITING
from monitor.storage.list_pieces import runs_with_unneeded_lists
from monitor.storage.partitions import day_of_slot, drop_past, ensure_partitions, is_settled_before, of_run, runs_in_default
from monitor.storage.rows import day_of, insert, to_row
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, silences, transitions
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    coverage_reasons,
    daily,
    evidence,
    expectations,
    explanations,
    kept_lists,
    runs,
    scores,
    statistics,
    summaries,
)
from monitor.storage.transactions import Database

_DAY = timedelta(days=1)
_RUNS_AT_ONCE = 20


SETTLING = timedelta(hours=1)
"""A run may be stored so long after it ended: days that changed more recently are rolled up once more."""
FINAL = datetime(9999, 1, 1, tzinfo=UTC)
"""When a day was built of which sums are no longer made anew, as some of its summaries may be pruned."""
_INSTANT = timedelta(microseconds=1)
TRANSITIONS_AT_ONCE = 500
_DAYS_AHEAD = 2
"""For so many days partitions are made ahead, so that the first run of a day need not make one."""
DETAILS: tuple[Table, ...] = (coverage_reasons, coverage, statistics, summaries, arm_scores, expectations)
"""Tables with rows for each segment, in an order in which these can be deleted: those of ``all`` stay as long as the run."""


def prune(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """Delete what is too old, after rolling up the days that are over.

    Silences are deleted with the runs of their end. Kept lists are deleted earlier where nothing needs them any more.
    """
    roll_up(database, since=cutoffs.daily, complete_from=max(cutoffs.summaries, cutoffs.runs), now=now)
    ensure_partitions(database, [day_of_slot(now + timedelta(days=days)) for days in range(_DAYS_AHEAD + 1)])
    before = max(cutoffs.scores, cutoffs.runs)
    # On PostgreSQL partition by partition, and run by run only what lies in the default partition.
    dropped, obstacles = (0, ()) if database.is_sqlite else drop_past(database, before)
    counts = Counter(scores=dropped)
    scored = _settled_with(scores, before) if database.is_sqlite else runs_in_default(before)
    old = select(runs.c.id).where(is_settled_before(cutoffs.runs))
    for tables, found in [((scores,), scored), *_gone_early(cutoffs, now), ((*RUN_TABLES, runs), old)]:
        counts += _delete_of_each(database, tables, found)
    while deleted := _delete_some_transitions(database, cutoffs.runs):
        counts += deleted
    with database.write() as connection:
        counts += _execute(connection, delete(silences).where(silences.c.ends_at < cutoffs.runs))
        counts += _execute(connection, delete(daily).where(daily.c.day < cutoffs.daily))
    return Pruned(rows=dict(+counts), put_off=obstacles)


def _gone_early(cutoffs: Cutoffs, now: datetime) -> list[tuple[Sequence[Table], Select[tuple[int]]]]:
    """Tables with rows that go before their run does, and the runs whose rows go now."""
    before = max(cutoffs.evidence, cutoffs.runs)
    return [
        ((evidence,), _settled_with(evidence, before)),
        ((explanations,), _settled_with(explanations, before)),
        ((kept_lists,), runs_with_unneeded_lists(max(cutoffs.lists, cutoffs.runs), now)),
        (DETAILS, _with_details(min(max(cutoffs.summaries, cutoffs.runs), midnight(now)))),
    ]


def _delete_of_each(database: Database, tables: Sequence[Table], found: Select[tuple[int]]) -> Counter[str]:
    """Delete the rows of each of these runs, in a transaction of its own."""
    counts: Counter[str] = Counter()
    for (run_id,) in database.rows(found.order_by(runs.c.scheduled_for)):
        with database.write() as connection:
            for table in tables if _is_found(connection, found, run_id) else ():
                is_gone = table.c.segment != ALL if tables is DETAILS else true()
                counts += _execute(connection, delete(table).where(of_run(connection, run_id, table), is_gone))
    return counts


def _is_found(connection: Connection, found: Select[tuple[int]], run_id: int) -> bool:
    """Whether the query still finds the run, which nobody can claim or label then before this transaction ends."""
    # Runs are listed long before their rows are deleted, and a slot that was run again meanwhile has new ones. A run that is
    # locked at this moment is left for the next time.
    again = found.where(runs.c.id == run_id).order_by(None).with_for_update(of=runs, key_share=True, skip_locked=True)
    return connection.scalar(again) is not None


def _settled_with(table: Table, before: datetime) -> Select[tuple[int]]:
    has_rows = exists(select(table.c.run_id).where(table.c.run_id == runs.c.id))
    return select(runs.c.id).where(is_settled_before(before), has_rows)


def _with_details(before: datetime) -> Select[tuple[int]]:
    """Settled runs of older slots that hold summaries of segments other than ``all``."""
    has_details = exists(select(summaries.c.run_id).where(summaries.c.run_id == runs.c.id, summaries.c.segment != ALL))
    is_covered = exists(select(coverage.c.run_id).where(coverage.c.run_id == runs.c.id, coverage.c.segment != ALL))
    return select(runs.c.id).where(is_settled_before(before), or_(has_details, is_covered))


def _delete_some_transitions(database: Database, before: datetime) -> Counter[str]:
    with database.write() as connection:
        ids = list(connection.scalars(_prunable_transitions(before).limit(TRANSITIONS_AT_ONCE)))
        of_these = select(deliveries.c.id).where(deliveries.c.transition_id.in_(ids))
        counts = _execute(connection, delete(notifications).where(notifications.c.delivery_id.in_(of_these)))
        counts += _execute(connection, delete(deliveries).where(deliveries.c.transition_id.in_(ids)))
        return counts + _execute(connection, delete(transitions).where(transitions.c.id.in_(ids)))


def _prunable_transitions(before: datetime) -> Select[tuple[int]]:
    """Old transitions, but those of a firing that lasts, or of which a delivery still waits."""
    same = transitions.alias("same")
    is_waiting = exists(
        select(deliveries.c.id)
        .join(same, same.c.id == deliveries.c.transition_id)
        .where(
            or_(same.c.id == transitions.c.id, same.c.dedup_key == transitions.c.dedup_key),
            deliveries.c.status.in_(WAITING),
        )
        .correlate(transitions)
    )
    lasts = exists().where(
        alert_states.c.state == State.FIRING,
        *(alert_states.c[name] == transitions.c[name] for name in ("comparison", "alert", "segment")),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    return select(transitions.c.id).where(transitions.c.scheduled_for < before, ~or_(is_waiting, lasts))


def _execute(connection: Connection, statement: Delete) -> Counter[str]:
    # Without what is zero, so that nothing deleted is an empty counter.
    return +Counter({str(statement.table): connection.execute(statement).rowcount})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Day:
    """A day of a comparison that has runs. ``at``: when the newest of them changed; ``begins_at``: midnight."""

    comparison: str
    begins_at: datetime
    at: datetime
    has_ok: bool


def midnight(instant: datetime) -> datetime:
    """When the instant's UTC day began."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def roll_up(database: Database, *, since: datetime, complete_from: datetime, now: datetime) -> None:
    """Roll up the days wholly after ``since`` that are over and have no sums yet, or of which a run was added or changed.

    A day before ``complete_from`` is rolled up once and then stays, also where more is kept later on.
    """
    with database.write() as connection:
        # Of these days some summaries may be pruned: sums of what is left would be smaller.
        connection.execute(update(daily).where(daily.c.day < complete_from, daily.c.built_at < FINAL).values(built_at=FINAL))
    with database.read() as connection:
        due = list(_due(connection, since, now))
    for day in due:
        with database.read() as connection:
            sums = sums_of(connection, day.comparison, day.begins_at)
        with database.write() as connection:
            _store(connection, day, FINAL if day.begins_at < complete_from else min(day.at, now - SETTLING), sums)


def _due(connection: Connection, since: datetime, now: datetime) -> Iterator[_Day]:
    first = midnight(since - _INSTANT) + _DAY
    query = select(daily.c.comparison, daily.c.day, func.max(daily.c.built_at)).where(daily.c.day >= first)
    grouped = connection.execute(query.group_by(daily.c.comparison, daily.c.day))
    built = {(comparison, day): at for comparison, day, at in grouped}
    for day in _days(connection, first, midnight(now)):
        known = built.get((day.comparison, day.begins_at))
        if day.has_ok if known is None else known not in (FINAL, day.at):
            yield day


def _days(connection: Connection, first: datetime, end: datetime) -> Iterator[_Day]:
    """Days of slots from the first one to the end that have runs, oldest first."""
    day = day_of(connection, runs.c.scheduled_for).label("day")
    has_ok = func.count().filter(runs.c.status == RunStatus.OK) > 0
    newest = (func.max(runs.c.finished_at), func.max(runs.c.labelled_at))
    is_wanted = and_(runs.c.scheduled_for >= first, runs.c.scheduled_for < end, ~runs.c.comparison.contains(KEPT_MARK))
    query = select(runs.c.comparison, day, has_ok, *newest).where(is_wanted)
    for comparison, begins_at, is_ok, *changed in connection.execute(query.group_by(runs.c.comparison, day).order_by(day)):
        if at := max((each for each in changed if each is not None), default=None):
            yield _Day(comparison=comparison, begins_at=begins_at, at=at, has_ok=bool(is_ok))


def _store(connection: Connection, day: _Day, built_at: datetime, sums: Sequence["DaySum"]) -> None:
    """Put the sums in place of the day's rows."""
    common = {"comparison": day.comparison, "day": day.begins_at, "built_at": built_at}
    # In the order of their key: others may be at the same.
    rows = [{**common, **each.row()} for each in sorted(sums, key=lambda each: (each.segment, each.metric))]
    connection.execute(delete(daily).where(daily.c.comparison == day.comparison, daily.c.day == day.begins_at))
    if rows:
        given = insert(connection, daily)
        new = {column.name: given.excluded[column.name] for column in daily.c if not column.primary_key}
        connection.execute(given.on_conflict_do_update(index_elements=list(daily.primary_key), set_=new), rows)


@dataclass(slots=True, kw_only=True)
class DaySum:
    """One metric of one segment over the runs of a day."""

    segment: str
    metric: str
    runs: int = 0
    n: int = 0
    n_undefined: int = 0
    means: float = 0.0
    errors: float = 0.0
    has_errors: bool = True
    lowest: float = math.inf
    highest: float = -math.inf
    below: dict[str, tuple[float, int]] = field(default_factory=dict)
    bins: tuple[float, float, int] | None = None
    counts: list[int] | None = None

    def add(self, summary: Summary) -> None:
        """One run more."""
        self._add_histogram(summary)
        self.runs += 1
        self.n += summary.n
        self.n_undefined += summary.n_undefined
        if summary.mean is None:
            return
        self.means += summary.n * summary.mean
        self.has_errors &= summary.standard_error is not None
        self.errors += summary.n * (summary.standard_error or 0.0)
        self.lowest, self.highest = min(self.lowest, summary.mean), max(self.highest, summary.mean)
        for floor, share in _shares(summary):
            users, of = self.below.get(floor, (0.0, 0))
            self.below[floor] = (users + share * summary.n, of + summary.n)

    def _add_histogram(self, summary: Summary) -> None:
        found = summary.histogram
        bins = (found.low, found.high, len(found.counts))
        if self.runs == 0:
            self.bins, self.counts = bins, list(found.counts)
        elif self.counts is not None and bins == self.bins:
            self.counts = [ours + theirs for ours, theirs in zip(self.counts, found.counts, strict=True)]
        else:
            self.bins = self.counts = None

    def row(self) -> dict[str, Any]:
        """As a row of ``daily``."""
        is_measured = self.n > 0 and self.lowest <= self.highest
        low, high, _ = self.bins or (None, None, 0)
        return to_row(
            self,
            daily,
            mean=self.means / self.n if is_measured else None,
            standard_error=self.errors / self.n if is_measured and self.has_errors else None,
            lowest=self.lowest if is_measured else None,
            highest=self.highest if is_measured else None,
            shares_below={floor: users / of for floor, (users, of) in self.below.items() if of},
            histogram_low=low,
            histogram_high=high,
            histogram_counts=self.counts,
        )


def _shares(summary: Summary) -> Iterable[tuple[str, float]]:
    for name, value in summary.statistics.items():
        try:
            floor = Statistic.parse(name).floor
        except ConfigError:
            continue  # stored by a newer version
        if floor is not None:
            yield f"{floor:.15g}", value


def sums_of(connection: Connection, comparison: str, day: datetime) -> list[DaySum]:
    """Sums over the ok runs of slots of this day, by segment and metric; none where these measured nothing."""
    is_of_day = and_(runs.c.scheduled_for >= day, runs.c.scheduled_for < day + _DAY, runs.c.status == RunStatus.OK)
    ids = list(
        connection.scalars(select(runs.c.id).where(runs.c.comparison == comparison, is_of_day).order_by(runs.c.scheduled_for))
    )
    sums: dict[tuple[str, str], DaySum] = {}
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        for found in run_results.summaries_of(connection, ids[start : start + _RUNS_AT_ONCE]).values():
            for summary in found:
                what = (summary.segment, summary.metric)
                sums.setdefault(what, DaySum(segment=what[0], metric=what[1])).add(summary)
    return list(sums.values())
