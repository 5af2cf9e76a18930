"""SqlHistory: what earlier runs left, for later runs and for people."""

# ruff: noqa: D102 - the port's docstrings are the contract

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, column, func, select, values

from monitor.errors import DatabaseError
from monitor.model.alerts import Expectation, State
from monitor.model.explanation import Explanation, Split
from monitor.model.memory import Memory, MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import METRIC_LABELS, MIN_HEALTHY_RUNS, RuleKind
from monitor.model.runs import (
    RUN_MARK,
    Evidence,
    KeptLists,
    LatestRun,
    Run,
    RunRecord,
    RunStatus,
    Scores,
    Watermark,
)
from monitor.storage import run_results
from monitor.storage.alert_states import IS_END, read_accepted, read_states, transition_of_row
from monitor.storage.list_pieces import HAS_LISTS, last_run_with_lists, onset_of, read_lists
from monitor.storage.rows import from_row
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import coverage, runs, summaries
from monitor.storage.transactions import Database
from monitor.storage.user_scores import scores_of

RUN_ROWS: Select[Any] = select(runs, coverage.c.asked, coverage.c.paired).outerjoin(
    coverage, and_(coverage.c.run_id == runs.c.id, coverage.c.segment == ALL)
)
"""Rows that hold a `Run`."""

WAITS_FOR_RELEVANCE = and_(
    runs.c.status == RunStatus.OK,
    runs.c.labels_until.is_not(None),
    runs.c.labelled_at.is_(None),
    HAS_LISTS,
)
"""Whether the measures of relevance of a run are missing and can still be added."""

RECENT_RUNS = 40
"""Runs whose means go with the newest one, so that a list of comparisons needs no further query."""

_EXPLAINED = 7
"""Newest ok runs among which the one is looked for in which a fault came that fires late."""
_HEALTHY_AMONG = (64, 2000)
"""Newest ok runs among which healthy ones are searched, the further ones where the first are too few: an alert that has fired
for longer leaves none."""


class SqlHistory:
    """Port History over SQLAlchemy Core."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def memory_of(self, request: MemoryRequest) -> Memory:
        unreadable: list[str] = []

        def read_kept(run_id: int | None, what: str) -> KeptLists | None:
            try:
                return None if run_id is None else self.kept_lists(run_id)
            except DatabaseError as error:
                if not error.permanent:
                    raise
                unreadable.append(f"{what}: {error}")
                return None

        with self._database.read() as connection:
            past = _past_runs(connection, request)
            memory = Memory(
                states=read_states(connection, request.comparison),
                past=past,
                accepted=read_accepted(connection, request.comparison),
                anew_since=_anew_since(connection, request, past),
                last_ok=_newest(connection, request.comparison, *_is_earlier_ok(request)),
                floor_overlaps=_floor_overlaps(connection, request),
                splits=_healthy_splits(connection, request),
                explained=_last_explained(connection, request),
            )
            last, former = (
                _runs_with_lists(connection, request) if request.wants_last_lists else (None, None)
            )
            slot = connection.scalar(select(runs.c.scheduled_for).where(runs.c.id == former))
        last_lists = read_kept(last, "lists of the last run")
        former_lists = (
            last_lists if former == last else read_kept(former, "lists from before the alerts")
        )
        return replace(
            memory,
            last_lists=last_lists,
            former_lists=former_lists,
            former_slot=slot,
            unreadable=tuple(unreadable),
        )

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        with self._database.read() as connection:
            is_meant = [
                runs.c.status != RunStatus.RUNNING,
                *([runs.c.scheduled_for <= until] if until else []),
            ]
            newest = [_newest(connection, name, *is_meant) for name in dict.fromkeys(comparisons)]
            records = _records(connection, [run for run in newest if run is not None])
            expected = run_results.expectations_of(
                connection, [record.run.id for record in records]
            )
            return tuple(
                _latest(connection, record, expected.get(record.run.id, ())) for record in records
            )

    def changes(
        self, comparisons: Sequence[str], seen: Watermark, *, until: datetime
    ) -> tuple[frozenset[str], Watermark]:
        with self._database.read() as connection:
            newest = _marks(connection, comparisons, until) if comparisons else {}
            last: int = connection.scalar(select(func.max(transitions.c.id))) or 0
            is_later = (
                select(transitions.c.comparison)
                .where(transitions.c.id > seen.transition)
                .distinct()
            )
            moved = set(connection.scalars(is_later)) if last > seen.transition else set()
        # Numbers that run backwards are those of another database, such as a backup.
        changed = {
            name
            for name in comparisons
            if newest.get(name) != seen.runs.get(name) or last < seen.transition
        }
        return frozenset(changed | moved & {*comparisons}), Watermark(runs=newest, transition=last)

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        query = RUN_ROWS.order_by(runs.c.scheduled_for.desc(), runs.c.comparison).limit(limit)
        if comparison is not None:
            query = query.where(runs.c.comparison == comparison)
        if since is not None:
            query = query.where(runs.c.scheduled_for >= since)
        if until is not None:
            query = query.where(runs.c.scheduled_for <= until)
        return tuple(from_row(Run, row) for row in self._database.rows(query))

    def run_records(
        self, comparison: str, *, after: datetime | None, limit: int
    ) -> tuple[RunRecord, ...]:
        query = RUN_ROWS.where(runs.c.comparison == comparison, runs.c.status != RunStatus.RUNNING)
        if after is not None:
            query = query.where(runs.c.scheduled_for > after)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(runs.c.scheduled_for).limit(limit))
            return _records(connection, [from_row(Run, row) for row in found])

    def record(self, run_id: int) -> RunRecord | None:
        with self._database.read() as connection:
            found = connection.execute(RUN_ROWS.where(runs.c.id == run_id)).all()
            return next(iter(_records(connection, [from_row(Run, row) for row in found])), None)

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        with self._database.read() as connection:
            return run_results.evidence_of(connection, run_id)

    def kept_lists(self, run_id: int) -> KeptLists | None:
        return read_lists(self._database, run_id)

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        with self._database.read() as connection:
            return scores_of(connection, run_id, metrics)


def _past_runs(connection: Connection, request: MemoryRequest) -> tuple[PastRun, ...]:
    if not request.runs:
        return ()
    newest = _newest_ok(connection, request, request.runs)
    ids, slots = [run_id for run_id, _ in newest], [slot for _, slot in newest]
    lessons = run_results.lessons_of(connection, ids)
    standstills = run_results.standstills_of(
        connection, ids[-1:]
    )  # each run counts on from the one before
    past = [
        PastRun(
            slot=slot,
            states=states,
            lessons=lessons.get(run_id, {}),
            standstills=standstills.get(run_id, {}),
        )
        for run_id, slot, states in zip(
            ids, slots, _states_after(connection, request.comparison, slots), strict=True
        )
    ]
    wanted = request.series.items()
    lacking = [
        run_id
        for run_id, run in zip(ids, past, strict=True)
        if not all(run.teaches(*each) for each in wanted)
    ]
    measured = run_results.summaries_of(connection, lacking) if lacking else {}
    models = connection.execute(select(runs.c.id, runs.c.models).where(runs.c.id.in_(ids)))
    told = {row.id: {"models": row.models, "summaries": measured.get(row.id, ())} for row in models}
    return tuple(replace(run, **told[run_id]) for run_id, run in zip(ids, past, strict=True))


def _anew_since(
    connection: Connection, request: MemoryRequest, past: Sequence[PastRun]
) -> datetime | None:
    if not request.runs or len(past) >= MIN_HEALTHY_RUNS:
        return None
    is_other = runs.c.config_hash != request.config_hash
    other = _newest(connection, request.comparison, is_other, *_is_earlier_ok(request))
    if other is None:
        return None
    is_it = and_(runs.c.comparison == request.comparison, runs.c.config_hash == request.config_hash)
    is_later = and_(runs.c.scheduled_for > other.slot, runs.c.scheduled_for < request.before)
    # Its first runs may have failed, perhaps because of it.
    return (
        connection.scalar(select(func.min(runs.c.scheduled_for)).where(is_it, is_later))
        or request.before
    )


def _floor_overlaps(connection: Connection, request: MemoryRequest) -> tuple[float, ...]:
    newest = [run_id for run_id, _ in _newest_ok(connection, request, request.splits)]
    is_floor = and_(
        summaries.c.segment == ALL, summaries.c.metric == "floor(overlap)", summaries.c.n > 0
    )
    return tuple(
        connection.scalars(select(summaries.c.mean).where(summaries.c.run_id.in_(newest), is_floor))
    )


def _healthy_splits(connection: Connection, request: MemoryRequest) -> tuple[Split, ...]:
    """The splits of the newest healthy runs of this configuration and of earlier slots, oldest first.

    Healthy is an ok run after which no alert on drift of the comparison was pending or firing, and in which no expectation
    was suspicious. One without a split is passed over.
    """
    for among in _HEALTHY_AMONG:
        newest = _newest_ok(connection, request, among)
        states = _states_after(connection, request.comparison, [slot for _, slot in newest])
        quiet = [run_id for (run_id, _), alarms in zip(newest, states, strict=True) if not alarms]
        if len(quiet) >= request.splits or len(newest) < among:
            break
    chosen = quiet[-request.splits :] if request.splits else []
    # One of many segments is always half the way to some trend: only all users together put a run
    # under suspicion.
    of_all = run_results.expectations_of(connection, chosen, segment=ALL)
    healthy = [
        run_id
        for run_id in chosen
        if not any(each.is_suspicious for each in of_all.get(run_id, ()))
    ]
    found = run_results.splits_of(connection, healthy)
    return tuple(found[run_id] for run_id in healthy if run_id in found)


def _last_explained(
    connection: Connection, request: MemoryRequest
) -> tuple[tuple[datetime, Explanation], ...]:
    newest = _newest_ok(connection, request, _EXPLAINED) if request.splits else []
    alarms = _states_after(connection, request.comparison, [slot for _, slot in newest])
    # What ended before is another fault.
    ended = max(
        (place for place, (then, now) in enumerate(pairwise(alarms), 1) if then and not now),
        default=0,
    )
    found = run_results.explanations_of(connection, [run_id for run_id, _ in newest[ended:]])
    return tuple(
        (slot, found[run_id]) for run_id, slot in reversed(newest[ended:]) if run_id in found
    )


def _runs_with_lists(
    connection: Connection, request: MemoryRequest
) -> tuple[int | None, int | None]:
    """The newest ok run of an earlier slot that kept its lists, and the newest one from before the alerts that last."""
    last = last_run_with_lists(connection, request.comparison, request.before)
    onset = onset_of(connection, request.comparison)
    if onset is None or onset >= request.before:
        return last, last
    return last, last_run_with_lists(connection, request.comparison, onset)


def _is_earlier_ok(request: MemoryRequest) -> tuple[ColumnElement[bool], ...]:
    return runs.c.status == RunStatus.OK, runs.c.scheduled_for < request.before


def _newest_ok(
    connection: Connection, request: MemoryRequest, limit: int
) -> list[tuple[int, datetime]]:
    """Number and slot of the newest ``limit`` ok runs of the configuration before the slot, oldest first."""
    is_past = (runs.c.config_hash == request.config_hash, runs.c.scheduled_for < request.before)
    query = run_results.newest_ok(request.comparison, *is_past).limit(limit)
    return [(row.id, row.scheduled_for) for row in connection.execute(query).all()[::-1]]


def _states_after(
    connection: Connection, comparison: str, slots: Sequence[datetime]
) -> list[dict[tuple[str, str], State]]:
    """Alerts on drift, by name and segment, that were not quiet after each of the slots, which ascend."""
    # Alerts on conditions, such as coverage, say nothing against a run.
    query = select(
        transitions.c.alert,
        transitions.c.segment,
        transitions.c.scheduled_for,
        transitions.c.to_state,
    ).where(
        transitions.c.comparison == comparison,
        transitions.c.metric != METRIC_LABELS[RuleKind.CONDITION],
    )
    changes = connection.execute(
        query.order_by(transitions.c.scheduled_for, transitions.c.id)
    ).all()
    states: dict[tuple[str, str], State] = {}
    found: list[dict[tuple[str, str], State]] = []
    done = 0
    for slot in slots:
        while done < len(changes) and changes[done].scheduled_for <= slot:
            states[changes[done].alert, changes[done].segment] = changes[done].to_state
            done += 1
        found.append({watch: state for watch, state in states.items() if state is not State.QUIET})
    return found


def _records(connection: Connection, found: Sequence[Run]) -> tuple[RunRecord, ...]:
    ids = [run.id for run in found]
    covered, measured = (
        run_results.coverage_of(connection, ids),
        run_results.summaries_of(connection, ids),
    )
    of_arms, explained = (
        run_results.arm_scores_of(connection, ids),
        run_results.explanations_of(connection, ids),
    )
    return tuple(
        RunRecord(
            run=run,
            coverage=covered.get(run.id),
            summaries=measured.get(run.id, ()),
            arm_scores=of_arms.get(run.id, ()),
            explanation=explained.get(run.id),
        )
        for run in found
    )


def _marks(
    connection: Connection, comparisons: Sequence[str], until: datetime
) -> dict[str, tuple[object, ...]]:
    """The mark of each comparison's newest finished run."""
    given = values(column("name", runs.c.comparison.type), name="given").data(
        [(name,) for name in dict.fromkeys(comparisons)]
    )
    wanted = given.cte("wanted")
    is_finished = and_(
        runs.c.comparison == wanted.c.name,
        runs.c.status != RunStatus.RUNNING,
        runs.c.scheduled_for <= until,
    )
    # One look at the index for each name: a grouped query would walk through all runs.
    newest = (
        select(runs.c.id)
        .where(is_finished)
        .order_by(runs.c.scheduled_for.desc())
        .limit(1)
        .correlate(wanted)
    )
    marked = runs.alias()
    query = select(marked.c.comparison, *(marked.c[name] for name in RUN_MARK))
    found = connection.execute(
        query.join_from(wanted, marked, marked.c.id == newest.scalar_subquery())
    )
    return {name: tuple(mark) for name, *mark in found}


def _newest(
    connection: Connection, comparison: str, *conditions: ColumnElement[bool]
) -> Run | None:
    """The newest run of the comparison that meets these conditions."""
    is_it = and_(runs.c.comparison == comparison, *conditions)
    row = connection.execute(
        RUN_ROWS.where(is_it).order_by(runs.c.scheduled_for.desc()).limit(1)
    ).first()
    return None if row is None else from_row(Run, row)


def _latest(
    connection: Connection, record: RunRecord, expected: tuple[Expectation, ...]
) -> LatestRun:
    is_of_it = runs.c.comparison == record.run.comparison
    ok = run_results.newest_ok(record.run.comparison).with_only_columns(
        runs.c.scheduled_for, runs.c.finished_at
    )
    ok_slot, ok_at = connection.execute(ok.limit(1)).first() or (None, None)
    waiting = select(func.count()).select_from(runs).where(WAITS_FOR_RELEVANCE, is_of_it)
    is_late = and_(
        IS_END,
        transitions.c.scheduled_for.between(record.run.slot - timedelta(days=7), record.run.slot),
    )
    ends = select(transitions).where(transitions.c.comparison == record.run.comparison, is_late)
    ended = connection.execute(ends.order_by(transitions.c.id.desc()).limit(1)).first()
    return LatestRun(
        **{each.name: getattr(record, each.name) for each in fields(record)},
        states=read_states(connection, record.run.comparison),
        last_ok_slot=ok_slot,
        last_ok_at=ok_at,
        expectations=expected,
        unlabelled=connection.scalar(waiting) or 0,
        first_slot=connection.scalar(select(func.min(runs.c.scheduled_for)).where(is_of_it)),
        recent=_recent(connection, record),
        ended=None if ended is None else transition_of_row(ended),
    )


def _recent(connection: Connection, record: RunRecord) -> tuple[tuple[datetime, float | None], ...]:
    metric = record.leading_metric
    if metric is None:
        return ()
    of_all = and_(
        summaries.c.run_id == runs.c.id, summaries.c.segment == ALL, summaries.c.metric == metric
    )
    newest = run_results.newest_ok(
        record.run.comparison, runs.c.scheduled_for <= record.run.slot
    ).limit(RECENT_RUNS)
    means = newest.with_only_columns(runs.c.scheduled_for, summaries.c.mean).outerjoin(
        summaries, of_all
    )
    return tuple((slot, mean) for slot, mean in reversed(connection.execute(means).all()))
