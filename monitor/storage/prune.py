"""Pruning: what is older than the retention is deleted, little by little, after the daily roll-up, which outlives the runs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Double,
    Select,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    true,
    update,
)

from monitor.model.alerts import State
from monitor.model.rankings import ALL
from monitor.model.retention import Cutoffs, Pruned
from monitor.model.runs import KEPT_MARK, RunStatus
from monitor.storage.alert_states import WAITING
from monitor.storage.list_pieces import runs_with_unneeded_lists
from monitor.storage.partitions import (
    day_of_slot,
    drop_past,
    ensure_partitions,
    is_settled_before,
    of_run,
    runs_in_default,
)
from monitor.storage.rows import day_of, insert
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.alert_tables import (
    alert_states,
    deliveries,
    notifications,
    silences,
    transitions,
)
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
_SERIES = (summaries.c.segment, summaries.c.metric)
_SHARE = "share_below("

SETTLING = timedelta(hours=1)
"""A run may be stored so long after it ended: days that changed more recently are rolled up once more."""
FINAL = datetime(9999, 1, 1, tzinfo=UTC)
"""When a day was built of which sums are no longer made anew, as some of its summaries may be pruned."""
_INSTANT = timedelta(microseconds=1)
TRANSITIONS_AT_ONCE = 500
_DAYS_AHEAD = 2
"""For so many days partitions are made ahead, so that the first run of a day need not make one."""
DETAILS: tuple[Table, ...] = (
    coverage_reasons,
    coverage,
    statistics,
    summaries,
    arm_scores,
    expectations,
)
"""Tables with rows for each segment, in an order in which these can be deleted: those of ``all`` stay as long as the run."""


def prune(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """Roll up days that are over.

    Delete what is too old, silences with their runs, and lists that nothing needs any more.
    """
    roll_up(
        database, since=cutoffs.daily, complete_from=max(cutoffs.summaries, cutoffs.runs), now=now
    )
    ensure_partitions(
        database, [day_of_slot(now + timedelta(days=days)) for days in range(_DAYS_AHEAD + 1)]
    )
    before = max(cutoffs.scores, cutoffs.runs)
    # On PostgreSQL partition by partition, and run by run only what lies in the default partition.
    dropped, obstacles = (0, ()) if database.is_sqlite else drop_past(database, before)
    counts = Counter(scores=dropped)
    scored = _settled_with(scores, before) if database.is_sqlite else runs_in_default(before)
    old = select(runs.c.id).where(is_settled_before(cutoffs.runs))
    for tables, found in [
        ((scores,), scored),
        *_gone_early(cutoffs, now),
        ((*RUN_TABLES, runs), old),
    ]:
        counts += _delete_of_each(database, tables, found)
    while deleted := _delete_some_transitions(database, cutoffs.runs):
        counts += deleted
    with database.write() as connection:
        counts += _execute(connection, delete(silences).where(silences.c.ends_at < cutoffs.runs))
        counts += _execute(connection, delete(daily).where(daily.c.day < cutoffs.daily))
    return Pruned(rows=dict(+counts), put_off=obstacles)


def _gone_early(
    cutoffs: Cutoffs, now: datetime
) -> list[tuple[Sequence[Table], Select[tuple[int]]]]:
    """Tables with rows that go before their run does, and the runs whose rows go now."""
    before = max(cutoffs.evidence, cutoffs.runs)
    return [
        ((evidence,), _settled_with(evidence, before)),
        ((explanations,), _settled_with(explanations, before)),
        ((kept_lists,), runs_with_unneeded_lists(max(cutoffs.lists, cutoffs.runs), now)),
        (DETAILS, _with_details(min(max(cutoffs.summaries, cutoffs.runs), midnight(now)))),
    ]


def _delete_of_each(
    database: Database, tables: Sequence[Table], found: Select[tuple[int]]
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (run_id,) in database.rows(found.order_by(runs.c.scheduled_for)):
        with database.write() as connection:
            for table in tables if _is_found(connection, found, run_id) else ():
                is_gone = table.c.segment != ALL if tables is DETAILS else true()
                counts += _execute(
                    connection, delete(table).where(of_run(connection, run_id, table), is_gone)
                )
    return counts


def _is_found(connection: Connection, found: Select[tuple[int]], run_id: int) -> bool:
    """Whether the query still finds the run, which nobody can claim or label then before this transaction ends."""
    # Runs are listed long before their rows are deleted, and a slot that was run again meanwhile
    # has new ones. A run that is locked at this moment is left for the next time.
    again = (
        found.where(runs.c.id == run_id)
        .order_by(None)
        .with_for_update(of=runs, key_share=True, skip_locked=True)
    )
    return connection.scalar(again) is not None


def _settled_with(table: Table, before: datetime) -> Select[tuple[int]]:
    has_rows = exists(select(table.c.run_id).where(table.c.run_id == runs.c.id))
    return select(runs.c.id).where(is_settled_before(before), has_rows)


def _with_details(before: datetime) -> Select[tuple[int]]:
    """Settled runs of older slots that hold summaries of segments other than ``all``."""
    has_details = exists(
        select(summaries.c.run_id).where(
            summaries.c.run_id == runs.c.id, summaries.c.segment != ALL
        )
    )
    is_covered = exists(
        select(coverage.c.run_id).where(coverage.c.run_id == runs.c.id, coverage.c.segment != ALL)
    )
    return select(runs.c.id).where(is_settled_before(before), or_(has_details, is_covered))


def _delete_some_transitions(database: Database, before: datetime) -> Counter[str]:
    with database.write() as connection:
        ids = list(connection.scalars(_prunable_transitions(before).limit(TRANSITIONS_AT_ONCE)))
        of_these = select(deliveries.c.id).where(deliveries.c.transition_id.in_(ids))
        counts = _execute(
            connection, delete(notifications).where(notifications.c.delivery_id.in_(of_these))
        )
        counts += _execute(
            connection, delete(deliveries).where(deliveries.c.transition_id.in_(ids))
        )
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
        *(
            alert_states.c[name] == transitions.c[name]
            for name in ("comparison", "alert", "segment")
        ),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    return select(transitions.c.id).where(
        transitions.c.scheduled_for < before, ~or_(is_waiting, lasts)
    )


def _execute(connection: Connection, statement: Delete) -> Counter[str]:
    # Without what is zero, so that nothing deleted is an empty counter.
    return +Counter({str(statement.table): connection.execute(statement).rowcount})


def midnight(instant: datetime) -> datetime:
    """When the instant's UTC day began."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def roll_up(database: Database, *, since: datetime, complete_from: datetime, now: datetime) -> None:
    """Roll up the days wholly after ``since`` that are over and have no sums yet, or of which a run was added or changed.

    A day before ``complete_from`` is rolled up once and then stays, also where more is kept later on.
    """
    with database.write() as connection:
        # Of these days some summaries may be pruned: sums of what is left would be smaller.
        connection.execute(
            update(daily)
            .where(daily.c.day < complete_from, daily.c.built_at < FINAL)
            .values(built_at=FINAL)
        )
    with database.read() as connection:
        due = list(_due(connection, since, now))
    for comparison, day, changed_at in due:
        with database.read() as connection:
            sums = sums_of(connection, comparison, day)
        built_at = FINAL if day < complete_from else min(changed_at, now - SETTLING)
        with database.write() as connection:
            _store(connection, comparison, day, [{**each, "built_at": built_at} for each in sums])


def _due(
    connection: Connection, since: datetime, now: datetime
) -> Iterator[tuple[str, datetime, datetime]]:
    """Comparison and midnight of each day to roll up, oldest first, and when the newest of its runs changed."""
    first = midnight(since - _INSTANT) + _DAY
    stored = select(daily.c.comparison, daily.c.day, func.max(daily.c.built_at)).where(
        daily.c.day >= first
    )
    grouped = connection.execute(stored.group_by(daily.c.comparison, daily.c.day))
    built = {(comparison, day): at for comparison, day, at in grouped}
    day = day_of(connection, runs.c.scheduled_for).label("day")
    is_ok = func.count().filter(runs.c.status == RunStatus.OK) > 0
    newest = (func.max(runs.c.finished_at), func.max(runs.c.labelled_at))
    is_past = and_(
        runs.c.scheduled_for >= first,
        runs.c.scheduled_for < midnight(now),
        ~runs.c.comparison.contains(KEPT_MARK),
    )
    query = (
        select(runs.c.comparison, day, is_ok, *newest)
        .where(is_past)
        .group_by(runs.c.comparison, day)
        .order_by(day)
    )
    for comparison, begins_at, has_ok, *changed in connection.execute(query):
        at = max((each for each in changed if each is not None), default=None)
        known = built.get((comparison, begins_at))
        if at is not None and (has_ok if known is None else known not in (FINAL, at)):
            yield comparison, begins_at, at


def _store(
    connection: Connection, comparison: str, day: datetime, sums: Iterable[Mapping[str, Any]]
) -> None:
    rows = [{"comparison": comparison, "day": day, **each} for each in sums]
    connection.execute(delete(daily).where(daily.c.comparison == comparison, daily.c.day == day))
    if rows:
        given = insert(connection, daily)
        new = {
            column.name: given.excluded[column.name] for column in daily.c if not column.primary_key
        }
        connection.execute(
            given.on_conflict_do_update(index_elements=list(daily.primary_key), set_=new), rows
        )


def sums_of(connection: Connection, comparison: str, day: datetime) -> list[dict[str, Any]]:
    """What the ok runs of slots of this day add up to, by segment and metric, as rows of ``daily`` that lack only the day."""
    is_of_day = and_(
        runs.c.scheduled_for >= day,
        runs.c.scheduled_for < day + _DAY,
        runs.c.status == RunStatus.OK,
    )
    ids = list(
        connection.scalars(select(runs.c.id).where(runs.c.comparison == comparison, is_of_day))
    )
    n, mean, error = summaries.c.n, summaries.c.mean, summaries.c.standard_error
    has_errors = func.count(error) == func.count(mean)
    query = select(
        *_SERIES,
        func.count().label("runs"),
        func.sum(n).label("n"),
        func.sum(summaries.c.n_undefined).label("n_undefined"),
        _over_users(mean).label("mean"),
        case((has_errors, _over_users(error))).label("standard_error"),
        func.min(mean).label("lowest"),
        func.max(mean).label("highest"),
    )
    # In the order of their key: others may store the same day.
    found = (
        connection.execute(
            query.where(summaries.c.run_id.in_(ids)).group_by(*_SERIES).order_by(*_SERIES)
        )
        .mappings()
        .all()
    )
    shares, histograms = _shares(connection, ids), _histograms(connection, ids)
    return [
        {
            **row,
            "shares_below": shares[row["segment"], row["metric"]],
            **histograms[row["segment"], row["metric"]],
        }
        for row in found
    ]


def _over_users(value: ColumnElement[float]) -> ColumnElement[float]:
    """The mean over the users of all summaries; NULL where there is not one."""
    return func.sum(value * summaries.c.n, type_=Double()) / func.nullif(func.sum(summaries.c.n), 0)


def _shares(connection: Connection, ids: Sequence[int]) -> dict[tuple[str, str], dict[str, float]]:
    is_same = and_(*(statistics.c[each.name] == each for each in (summaries.c.run_id, *_SERIES)))
    is_share = and_(
        summaries.c.run_id.in_(ids), statistics.c.statistic.startswith(_SHARE, autoescape=True)
    )
    query = (
        select(*_SERIES, statistics.c.statistic, _over_users(statistics.c.value))
        .join(statistics, is_same)
        .where(is_share)
    )
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for segment, metric, name, share in connection.execute(
        query.group_by(*_SERIES, statistics.c.statistic)
    ):
        found[segment, metric][name.removeprefix(_SHARE).removesuffix(")")] = share
    return found


def _histograms(
    connection: Connection, ids: Sequence[int]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Histograms added up, by segment and metric, as columns of ``daily``: empty where the bins are not always the same."""
    columns = ("histogram_low", "histogram_high", "histogram_counts")
    query = select(*_SERIES, *(summaries.c[name] for name in columns))
    found: dict[tuple[str, str], list[Any]] = {}
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        of_some = summaries.c.run_id.in_(ids[start : start + _RUNS_AT_ONCE])
        for segment, metric, low, high, counts in connection.execute(query.where(of_some)):
            known = found.setdefault((segment, metric), [low, high, [0] * len(counts)])
            is_same = known[:2] == [low, high] and len(known[2]) == len(counts)
            known[:] = (
                [low, high, list(map(add, known[2], counts))] if is_same else [None, None, []]
            )
    return {
        series: dict(zip(columns, (*bins, counts or None), strict=True))
        for series, (*bins, counts) in found.items()
    }
