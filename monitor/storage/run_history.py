"""SqlHistory: the results of earlier runs, for later runs and for people."""

# ruff: noqa: D102 - the port has the docstrings of its methods

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, column, func, select, values

from monitor.model.alerts import Expectation, State, Transition
from monitor.model.errors import DatabaseError
from monitor.model.explanation import Explanation, Split
from monitor.model.immutable import extend, immutable
from monitor.model.memory import Memory, MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import METRIC_LABELS, MIN_HEALTHY_RUNS, RuleKind
from monitor.model.runs import (
    RUN_MARK,
    ArmScore,
    Evidence,
    KeptLists,
    LatestRun,
    Run,
    RunRecord,
    RunStatus,
    Scores,
    Summary,
    Watermark,
)
from monitor.storage import run_results
from monitor.storage.alert_states import IS_END, read_accepted, read_states
from monitor.storage.list_pieces import HAS_LISTS, last_run_with_lists, onset_of, read_lists
from monitor.storage.rows import from_row, from_rows
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import coverage, runs, summaries
from monitor.storage.transactions import Database
from monitor.storage.user_scores import scores_of

_FIELDS = {field.name for field in fields(Run)}
RUN_ROWS: Select[Any] = select(
    *(column for column in runs.c if column.name in _FIELDS),
    coverage.c.asked,
    coverage.c.paired,
).outerjoin(coverage, and_(coverage.c.run_id == runs.c.id, coverage.c.segment == ALL))
"""Selects the columns of `Run`."""

WAITS_FOR_RELEVANCE = and_(
    runs.c.status == RunStatus.OK,
    runs.c.labels_until.is_not(None),
    runs.c.labelled_at.is_(None),
    HAS_LISTS,
)
"""Whether a run has no metrics of relevance yet and can still get them."""

RECENT_RUNS = 40
"""How many runs' means are returned with the newest run, for pages with many comparisons."""

_EXPLAINED = 7
"""How many of the newest runs are searched for the cause of an alert."""
_SEARCHED = 64
_SEARCHED_AFTER_LONG_ALERTS = 2000
"""How many of the newest runs with status ok are searched for healthy runs.

The second number is used if the first finds too few.
"""


class SqlHistory:
    """Port History over SQLAlchemy Core, with further methods for the service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def memory_of(self, request: MemoryRequest) -> Memory:
        """What a run needs from earlier runs.

        Lists only if the request wants them: those of the last run, and those from before the
        alerts that fire. Damaged lists are left out, with a sentence in ``unreadable``.
        """
        with self._database.read() as connection:
            newest = _newest_ok(connection, request)
            past = _past_runs(connection, request, _last(newest, request.runs))
            memory = Memory(
                states=read_states(connection, request.comparison),
                past=past,
                accepted=read_accepted(connection, request.comparison),
                anew_since=_anew_since(connection, request, past),
                last_ok=_newest(connection, request.comparison, *_is_earlier_ok(request)),
            )
            if request.splits:
                memory = replace(
                    memory,
                    floor_overlaps=_floor_overlaps(connection, _last(newest, request.splits)),
                    splits=_healthy_splits(connection, request, newest),
                    explained=_last_explained(connection, _last(newest, _EXPLAINED)),
                )
            if not request.wants_last_lists:
                return memory
            last, before_alerts = _runs_with_lists(connection, request)
            slot = connection.scalar(select(runs.c.slot).where(runs.c.id == before_alerts))
        unreadable: list[str] = []
        last_lists = self._read_lists(last, "lists of the last run", unreadable)
        former_lists = last_lists
        if before_alerts != last:
            former_lists = self._read_lists(
                before_alerts, "lists from before the alerts", unreadable
            )
        return replace(
            memory,
            last_lists=last_lists,
            former_lists=former_lists,
            former_slot=slot,
            unreadable=tuple(unreadable),
        )

    def _read_lists(self, run_id: int | None, name: str, unreadable: list[str]) -> KeptLists | None:
        """Return the run's lists. If they are damaged, add a sentence to ``unreadable`` instead."""
        if run_id is None:
            return None
        try:
            return self.kept_lists(run_id)
        except DatabaseError as error:
            if not error.permanent:
                raise
            unreadable.append(f"{name}: {error}")
            return None

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        conditions = [runs.c.status != RunStatus.RUNNING]
        if until is not None:
            conditions.append(runs.c.slot <= until)
        with self._database.read() as connection:
            newest = [_newest(connection, name, *conditions) for name in dict.fromkeys(comparisons)]
            records = _records(connection, list(filter(None, newest)))
            ids = [record.id for record in records]
            expectations = run_results.items_of(connection, Expectation, ids)
            return tuple(
                _latest(connection, record, expectations.get(record.id, ())) for record in records
            )

    def changes(
        self,
        comparisons: Sequence[str],
        seen: Watermark,
        *,
        until: datetime,
    ) -> tuple[frozenset[str], Watermark]:
        """Comparisons for which `latest` may have changed since ``seen``, and the new watermark.

        Detects newer runs and changes of alerts. Does not detect deletions or labels of older runs.
        """
        with self._database.read() as connection:
            marks = _marks(connection, comparisons, until) if comparisons else {}
            last: int = connection.scalar(select(func.max(transitions.c.id))) or 0
            changed: set[str] = set()
            if last > seen.transition:
                later = select(transitions.c.comparison).where(transitions.c.id > seen.transition)
                changed.update(connection.scalars(later.distinct()))
        # If the numbers go backwards, this is another database, such as a restored backup.
        is_other_database = last < seen.transition
        for name in comparisons:
            if is_other_database or marks.get(name) != seen.runs.get(name):
                changed.add(name)
        watermark = Watermark(runs=marks, transition=last)
        return frozenset(changed.intersection(comparisons)), watermark

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        query = RUN_ROWS.order_by(runs.c.slot.desc(), runs.c.comparison).limit(limit)
        if comparison is not None:
            query = query.where(runs.c.comparison == comparison)
        if since is not None:
            query = query.where(runs.c.slot >= since)
        if until is not None:
            query = query.where(runs.c.slot <= until)
        return from_rows(Run, self._database.rows(query))

    def run_records(
        self,
        comparison: str,
        *,
        after: datetime | None,
        limit: int,
    ) -> tuple[RunRecord, ...]:
        """The oldest ``limit`` finished runs of later slots with any status, oldest first."""
        query = (
            RUN_ROWS.where(runs.c.comparison == comparison, runs.c.status != RunStatus.RUNNING)
            .order_by(runs.c.slot)
            .limit(limit)
        )
        if after is not None:
            query = query.where(runs.c.slot > after)
        with self._database.read() as connection:
            rows = connection.execute(query)
            return _records(connection, from_rows(Run, rows))

    def record(self, run_id: int) -> RunRecord | None:
        with self._database.read() as connection:
            rows = connection.execute(RUN_ROWS.where(runs.c.id == run_id))
            records = _records(connection, from_rows(Run, rows))
        return records[0] if records else None

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        with self._database.read() as connection:
            return run_results.items_of(connection, Evidence, [run_id]).get(run_id, ())

    def kept_lists(self, run_id: int) -> KeptLists | None:
        return read_lists(self._database, run_id)

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        with self._database.read() as connection:
            return scores_of(connection, run_id, metrics)


@immutable
class _OkRun:
    """An ok run, with the states of the drift alerts that were not quiet after it.

    The keys of the states are name and segment of the alert.
    """

    id: int
    slot: datetime
    states: Mapping[tuple[str, str], State]


def _last(newest: Sequence[_OkRun], count: int) -> Sequence[_OkRun]:
    return newest[max(0, len(newest) - count) :]


def _past_runs(
    connection: Connection, request: MemoryRequest, newest: Sequence[_OkRun]
) -> tuple[PastRun, ...]:
    ids = [run.id for run in newest]
    columns = select(runs.c.id, runs.c.models, runs.c.standstills)
    rows = {row.id: row for row in connection.execute(columns.where(runs.c.id.in_(ids)))}
    lessons = run_results.lessons_of(connection, ids)
    past = {}
    ids_without_lessons = []
    for each in newest:
        run = PastRun(
            slot=each.slot,
            states=each.states,
            lessons=lessons.get(each.id, {}),
            standstills={still.alert: still for still in rows[each.id].standstills},
            models=rows[each.id].models,
        )
        past[each.id] = run
        if not all(run.teaches(alert, series) for alert, series in request.series.items()):
            ids_without_lessons.append(each.id)
    measured = run_results.items_of(connection, Summary, ids_without_lessons)
    for run_id, run_summaries in measured.items():
        past[run_id] = replace(past[run_id], summaries=run_summaries)
    return tuple(past.values())


def _anew_since(
    connection: Connection,
    request: MemoryRequest,
    past: Sequence[PastRun],
) -> datetime | None:
    """Return the slot from which rules learn again after a change of the configuration.

    None if there are enough runs, or if the configuration never changed.
    """
    if not request.runs or len(past) >= MIN_HEALTHY_RUNS:
        return None
    is_other = runs.c.config_hash != request.config_hash
    other = _newest(connection, request.comparison, is_other, *_is_earlier_ok(request))
    if other is None:
        return None
    # The first runs of the configuration may have failed, perhaps because of it.
    first = select(func.min(runs.c.slot)).where(
        runs.c.comparison == request.comparison,
        runs.c.config_hash == request.config_hash,
        runs.c.slot > other.slot,
        runs.c.slot < request.before,
    )
    return connection.scalar(first) or request.before


def _floor_overlaps(connection: Connection, newest: Sequence[_OkRun]) -> tuple[float, ...]:
    query = select(summaries.c.mean).where(
        summaries.c.run_id.in_([run.id for run in newest]),
        summaries.c.segment == ALL,
        summaries.c.metric == "floor(overlap)",
        summaries.c.n > 0,
    )
    return tuple(connection.scalars(query))


def _healthy_splits(
    connection: Connection, request: MemoryRequest, newest: Sequence[_OkRun]
) -> tuple[Split, ...]:
    """Return the splits of the newest healthy earlier runs of the configuration, oldest first.

    A run is healthy if its status is ok, no drift alert was pending or firing after it, and no
    expectation was suspicious. Runs without a split are skipped.
    """
    quiet = [run.id for run in newest if not run.states]
    if len(quiet) < request.splits and len(newest) >= _SEARCHED:
        further = _newest_ok(connection, request, _SEARCHED_AFTER_LONG_ALERTS)
        quiet = [run.id for run in further if not run.states]
    chosen = quiet[-request.splits :]
    # With many segments, there is always one close to a trend. So only the expectations for all
    # users can make a run suspicious.
    expectations = run_results.items_of(connection, Expectation, chosen, segment=ALL)
    rows = connection.execute(select(runs.c.id, runs.c.split).where(runs.c.id.in_(chosen)))
    splits = {run_id: split for run_id, split in rows if split and split.means.n}
    healthy = []
    for run_id in chosen:
        is_suspicious = any(item.is_suspicious for item in expectations.get(run_id, ()))
        if run_id in splits and not is_suspicious:
            healthy.append(splits[run_id])
    return tuple(healthy)


def _last_explained(
    connection: Connection, newest: Sequence[_OkRun]
) -> tuple[tuple[datetime, Explanation], ...]:
    """Return slot and explanation of these runs, newest first."""
    # If all alerts had ended after some run, the runs before it belong to another fault.
    start = 0
    for place, (before, after) in enumerate(pairwise(newest), start=1):
        if before.states and not after.states:
            start = place
    of_fault = newest[start:]
    explanations = run_results.explanations_of(connection, [run.id for run in of_fault])
    explained = []
    for run in reversed(of_fault):
        if run.id in explanations:
            explained.append((run.slot, explanations[run.id]))
    return tuple(explained)


def _runs_with_lists(
    connection: Connection, request: MemoryRequest
) -> tuple[int | None, int | None]:
    """Return the newest earlier run with lists, and the newest from before the present alerts.

    Both runs have the status ok.
    """
    last = last_run_with_lists(connection, request.comparison, request.before)
    onset = onset_of(connection, request.comparison)
    if onset is None or onset >= request.before:
        return last, last
    return last, last_run_with_lists(connection, request.comparison, onset)


def _is_earlier_ok(request: MemoryRequest) -> tuple[ColumnElement[bool], ...]:
    return runs.c.status == RunStatus.OK, runs.c.slot < request.before


def _newest_ok(
    connection: Connection, request: MemoryRequest, limit: int | None = None
) -> list[_OkRun]:
    """Return the newest earlier runs of the configuration with status ok, oldest first.

    ``limit`` None returns as many as the request needs.
    """
    if not request.runs and not request.splits:
        return []
    is_past = (runs.c.config_hash == request.config_hash, runs.c.slot < request.before)
    query = run_results.newest_ok(request.comparison, *is_past)
    most = limit or max(request.runs, _SEARCHED, _EXPLAINED)
    newest_first = connection.execute(query.limit(most)).all()
    # Alerts on conditions, such as coverage, do not make a run unhealthy.
    columns = transitions.c
    drift = (
        select(columns.alert, columns.segment, columns.slot, columns.to_state)
        .where(
            columns.comparison == request.comparison,
            columns.metric != METRIC_LABELS[RuleKind.CONDITION],
        )
        .order_by(columns.slot, columns.id)
    )
    changes = deque(connection.execute(drift))
    states = {}
    newest = []
    for row in reversed(newest_first):
        while changes and changes[0].slot <= row.slot:
            change = changes.popleft()
            states[change.alert, change.segment] = change.to_state
        lasting = {watch: state for watch, state in states.items() if state is not State.QUIET}
        newest.append(_OkRun(id=row.id, slot=row.slot, states=lasting))
    return newest


def _records(connection: Connection, finished: Sequence[Run]) -> tuple[RunRecord, ...]:
    ids = [run.id for run in finished]
    coverage_by_run = run_results.coverage_of(connection, ids)
    summaries_by_run = run_results.items_of(connection, Summary, ids)
    arm_scores_by_run = run_results.items_of(connection, ArmScore, ids)
    explanations = run_results.explanations_of(connection, ids)
    records = []
    for run in finished:
        record = extend(
            RunRecord,
            run,
            coverage=coverage_by_run.get(run.id),
            summaries=summaries_by_run.get(run.id, ()),
            arm_scores=arm_scores_by_run.get(run.id, ()),
            explanation=explanations.get(run.id),
        )
        records.append(record)
    return tuple(records)


def _marks(
    connection: Connection,
    comparisons: Sequence[str],
    until: datetime,
) -> dict[str, tuple[object, ...]]:
    """Return the mark of each comparison's newest finished run."""
    names = [(name,) for name in dict.fromkeys(comparisons)]
    wanted = values(column("name", runs.c.comparison.type), name="names").data(names).cte("wanted")
    is_finished = and_(
        runs.c.comparison == wanted.c.name,
        runs.c.status != RunStatus.RUNNING,
        runs.c.slot <= until,
    )
    # One index look-up for each name: a grouped query would read all runs.
    newest = (
        select(runs.c.id).where(is_finished).order_by(runs.c.slot.desc()).limit(1).correlate(wanted)
    )
    marked = runs.alias()
    query = select(marked.c.comparison, *(marked.c[name] for name in RUN_MARK)).join_from(
        wanted, marked, marked.c.id == newest.scalar_subquery()
    )
    return {name: tuple(mark) for name, *mark in connection.execute(query)}


def _newest(
    connection: Connection,
    comparison: str,
    *conditions: ColumnElement[bool],
) -> Run | None:
    """Return the newest run of the comparison that meets these conditions."""
    query = RUN_ROWS.where(runs.c.comparison == comparison, *conditions)
    newest = query.order_by(runs.c.slot.desc()).limit(1)
    row = connection.execute(newest).first()
    return None if row is None else from_row(Run, row)


def _latest(
    connection: Connection,
    record: RunRecord,
    expectations: tuple[Expectation, ...],
) -> LatestRun:
    """Add to a comparison's newest run what pages show of its alerts and of earlier runs."""
    is_of_comparison = runs.c.comparison == record.comparison
    times = run_results.newest_ok(record.comparison).with_only_columns(
        runs.c.slot, runs.c.finished_at
    )
    last_ok = connection.execute(times.limit(1)).first()
    unlabelled = select(func.count()).select_from(runs).where(WAITS_FOR_RELEVANCE, is_of_comparison)
    return extend(
        LatestRun,
        record,
        states=read_states(connection, record.comparison),
        last_ok_slot=last_ok.slot if last_ok else None,
        last_ok_at=last_ok.finished_at if last_ok else None,
        expectations=expectations,
        unlabelled=connection.scalar(unlabelled) or 0,
        first_slot=connection.scalar(select(func.min(runs.c.slot)).where(is_of_comparison)),
        recent=_recent(connection, record),
        last_end=_last_end(connection, record),
    )


def _last_end(connection: Connection, run: Run) -> Transition | None:
    """Return the last end of a firing in the week before the run."""
    ends = select(transitions).where(
        transitions.c.comparison == run.comparison,
        IS_END,
        transitions.c.slot.between(run.slot - timedelta(days=7), run.slot),
    )
    row = connection.execute(ends.order_by(transitions.c.id.desc()).limit(1)).first()
    return None if row is None else from_row(Transition, row)


def _recent(connection: Connection, run: RunRecord) -> tuple[tuple[datetime, float | None], ...]:
    """Return the slot and the mean over all users of the newest ok runs, oldest first."""
    metric = run.leading_metric
    if metric is None:
        return ()
    is_measured = and_(
        summaries.c.run_id == runs.c.id, summaries.c.segment == ALL, summaries.c.metric == metric
    )
    means = (
        run_results.newest_ok(run.comparison, runs.c.slot <= run.slot)
        .limit(RECENT_RUNS)
        .with_only_columns(runs.c.slot, summaries.c.mean)
        .outerjoin(summaries, is_measured)
    )
    newest_first = connection.execute(means).all()
    return tuple((row.slot, row.mean) for row in reversed(newest_first))
