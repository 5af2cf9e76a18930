"""Reads what a run needs from earlier runs."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import starmap

from sqlalchemy import ColumnElement, Connection, and_, func, select

from monitor.model.alerts import Expectation, State
from monitor.model.errors import DatabaseError
from monitor.model.explanation import Explanation, Split
from monitor.model.immutable import immutable
from monitor.model.memory import Memory, MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, RuleKind
from monitor.model.runs import KeptLists, RunStatus, Summary
from monitor.model.unpaired import UnpairedResults
from monitor.storage import run_results
from monitor.storage.alert_states import read_accepted, read_states
from monitor.storage.list_pieces import last_run_with_lists, load_lists, onset_of
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import runs, summaries
from monitor.storage.transactions import Database

_EXPLAINED = 7
"""How many of the newest runs are searched for the cause of an alert."""
_SEARCHED = 64
_SEARCHED_AFTER_LONG_ALERTS = 2000
"""How many of the newest runs with status ok are searched for healthy runs.

If too few of the first number are healthy, the second number is searched.
"""


def read_memory(database: Database, request: MemoryRequest) -> Memory:
    """Return what a run needs from earlier runs.

    The lists of the last run and the former lists are read only if the request wants them. The
    former lists are from before the current alerts. If lists are damaged, a sentence in
    ``unreadable`` replaces them.
    """
    comparison = request.comparison
    with database.read() as connection:
        last_ok_runs = _last_ok_runs(connection, request)
        past = _past_runs(connection, request, _last(last_ok_runs, request.runs))
        memory = Memory(
            states=read_states(connection, comparison),
            past=past,
            accepted=read_accepted(connection, comparison),
            anew_since=_anew_since(connection, request, past),
            last_ok=run_results.newest_run(connection, comparison, _is_earlier_ok(request)),
        )
        if request.wants_planned_baseline_share:
            planned_baseline_share = _planned_baseline_share(connection, request)
            memory = replace(memory, planned_baseline_share=planned_baseline_share)
        # Only a run requests splits. Commands that read earlier runs need none of these fields.
        if request.splits:
            memory = replace(
                memory,
                floor_overlaps=_floor_overlaps(connection, _last(last_ok_runs, request.splits)),
                splits=_healthy_splits(connection, request, last_ok_runs),
                explained=_last_explained(connection, _last(last_ok_runs, _EXPLAINED)),
            )
        if not request.wants_last_lists:
            return memory
        last_id, former_id = _runs_with_lists(connection, request)
        former_slot = connection.scalar(select(runs.c.slot).where(runs.c.id == former_id))
    unreadable: list[str] = []
    last_lists = _read_lists(database, last_id, "lists of the last run", unreadable)
    former_lists = last_lists
    if former_id != last_id:
        former_lists = _read_lists(database, former_id, "lists from before the alerts", unreadable)
    return replace(
        memory,
        last_lists=last_lists,
        former_lists=former_lists,
        former_slot=former_slot,
        unreadable=tuple(unreadable),
    )


def _read_lists(
    database: Database, run_id: int | None, name: str, unreadable: list[str]
) -> KeptLists | None:
    """Return the run's lists, or None if there is no run.

    If the lists are damaged, add a sentence to ``unreadable`` and return None. Other errors of the
    database are raised.
    """
    if run_id is None:
        return None
    try:
        return load_lists(database, run_id)
    except DatabaseError as error:
        if not error.permanent:
            raise
        unreadable.append(f"{name}: {error}")
        return None


@immutable
class _OkRun:
    """An ok run, with the states of the drift alerts that were not quiet after it.

    The keys of ``states`` are the names and segments of these alerts.
    """

    id: int
    slot: datetime
    states: Mapping[tuple[str, str], State]


def _last(ok_runs: Sequence[_OkRun], count: int) -> Sequence[_OkRun]:
    """Return the last ``count`` runs. ``ok_runs[-count:]`` would return all runs for a count of 0."""
    return ok_runs[max(0, len(ok_runs) - count) :]


def _past_runs(
    connection: Connection, request: MemoryRequest, last_ok_runs: Sequence[_OkRun]
) -> tuple[PastRun, ...]:
    """Return these runs as a judgement needs them, in the same order.

    A run gets its summaries only if they are requested, or if it lacks a lesson about one of the
    requested series.
    """
    ids = [run.id for run in last_ok_runs]
    columns = select(runs.c.id, runs.c.models, runs.c.standstills)
    rows = {row.id: row for row in connection.execute(columns.where(runs.c.id.in_(ids)))}
    lessons = run_results.lessons_by_run(connection, ids)
    past_runs = {}
    ids_without_lessons = []
    for run in last_ok_runs:
        past_run = PastRun(
            slot=run.slot,
            states=run.states,
            lessons=lessons.get(run.id, {}),
            standstills={item.alert: item for item in rows[run.id].standstills},
            models=rows[run.id].models,
        )
        past_runs[run.id] = past_run
        has_lessons = all(starmap(past_run.has_lesson, request.series.items()))
        if request.wants_summaries or not has_lessons:
            ids_without_lessons.append(run.id)
    summaries_by_run = run_results.items_by_run(connection, Summary, ids_without_lessons)
    for run_id, run_summaries in summaries_by_run.items():
        past_runs[run_id] = replace(past_runs[run_id], summaries=run_summaries)
    return tuple(past_runs.values())


def _anew_since(
    connection: Connection,
    request: MemoryRequest,
    past: Sequence[PastRun],
) -> datetime | None:
    """Return the slot from which rules learn again after a change of the configuration.

    Returns None if there are enough runs, or if the configuration never changed.
    """
    if not request.runs or len(past) >= MIN_HEALTHY_RUNS:
        return None
    has_other_config = runs.c.config_hash != request.config_hash
    last_before_change = run_results.newest_run(
        connection, request.comparison, has_other_config, _is_earlier_ok(request)
    )
    if last_before_change is None:
        return None
    # The first runs with this configuration may have failed, so runs with any status are searched.
    first = select(func.min(runs.c.slot)).where(
        _is_earlier_of_config(request), runs.c.slot > last_before_change.slot
    )
    return connection.scalar(first) or request.before


def _planned_baseline_share(connection: Connection, request: MemoryRequest) -> float | None:
    """Return the planned share of users in the baseline arm.

    It is from the newest earlier unpaired run of the configuration, with any status. Returns None
    if there is no such run.
    """
    query = (
        select(runs.c.unpaired)
        .where(_is_earlier_of_config(request), runs.c.unpaired.is_not(None))
        .order_by(runs.c.slot.desc())
        .limit(1)
    )
    unpaired: UnpairedResults | None = connection.scalar(query)
    return None if unpaired is None else unpaired.baseline_share


def _floor_overlaps(connection: Connection, last_ok_runs: Sequence[_OkRun]) -> tuple[float, ...]:
    """Return the mean overlap of the noise floor's lists in each of these runs, in any order.

    Runs without a noise floor are left out.
    """
    query = select(summaries.c.mean).where(
        summaries.c.run_id.in_([run.id for run in last_ok_runs]),
        summaries.c.segment == ALL,
        summaries.c.metric == "floor(overlap)",
        summaries.c.n > 0,
    )
    return tuple(connection.scalars(query))


def _healthy_splits(
    connection: Connection, request: MemoryRequest, last_ok_runs: Sequence[_OkRun]
) -> tuple[Split, ...]:
    """Return the splits of the newest healthy earlier runs of the configuration, oldest first.

    A run is healthy if its status is ok, no drift alert was pending or firing after it, and no
    expectation was suspicious. At most ``request.splits`` runs without alerts are searched. Those
    that are suspicious or have no split are skipped.
    """
    quiet = [run.id for run in last_ok_runs if not run.states]
    if len(quiet) < request.splits and len(last_ok_runs) >= _SEARCHED:
        # Alerts have lasted for many runs, so the runs from before the alerts are searched too.
        further = _last_ok_runs(connection, request, _SEARCHED_AFTER_LONG_ALERTS)
        quiet = [run.id for run in further if not run.states]
    chosen = quiet[-request.splits :]
    # With many segments, at least one of them nearly always looks like a trend. So only the
    # expectations for all users can make a run suspicious.
    expectations = run_results.items_by_run(connection, Expectation, chosen, segment=ALL)
    rows = connection.execute(select(runs.c.id, runs.c.split).where(runs.c.id.in_(chosen)))
    splits = {row.id: row.split for row in rows}
    healthy = []
    for run_id in chosen:
        split = splits[run_id]
        is_suspicious = any(item.is_suspicious for item in expectations.get(run_id, ()))
        if split is not None and split.means.n and not is_suspicious:
            healthy.append(split)
    return tuple(healthy)


def _last_explained(
    connection: Connection, last_ok_runs: Sequence[_OkRun]
) -> tuple[tuple[datetime, Explanation], ...]:
    """Return slot and explanation of the runs that belong to the present fault, newest first."""
    of_fault: list[_OkRun] = []
    for run in last_ok_runs:
        # If all alerts had ended after this run, the runs before it belong to another fault.
        if of_fault and of_fault[-1].states and not run.states:
            of_fault.clear()
        of_fault.append(run)
    explanations = run_results.explanations_by_run(connection, [run.id for run in of_fault])
    explained = []
    for run in reversed(of_fault):
        if run.id in explanations:
            explained.append((run.slot, explanations[run.id]))
    return tuple(explained)


def _runs_with_lists(
    connection: Connection, request: MemoryRequest
) -> tuple[int | None, int | None]:
    """Return the newest earlier run with lists, and the newest one from before the current alerts.

    Both are ids of runs with status ok. An id is None if there is no such run.
    """
    last = last_run_with_lists(connection, request.comparison, request.before)
    onset = onset_of(connection, request.comparison)
    if onset is None or onset >= request.before:
        return last, last
    return last, last_run_with_lists(connection, request.comparison, onset)


def _is_earlier_of_config(request: MemoryRequest) -> ColumnElement[bool]:
    """Return the condition that a run has the configuration and an earlier slot."""
    return and_(
        runs.c.comparison == request.comparison,
        runs.c.config_hash == request.config_hash,
        runs.c.slot < request.before,
    )


def _is_earlier_ok(request: MemoryRequest) -> ColumnElement[bool]:
    """Return the condition that a run is ok and has an earlier slot than the requesting run."""
    return and_(runs.c.status == RunStatus.OK, runs.c.slot < request.before)


def _last_ok_runs(
    connection: Connection, request: MemoryRequest, limit: int | None = None
) -> list[_OkRun]:
    """Return the newest earlier runs of the configuration with status ok, oldest first.

    ``limit`` None returns as many as the request needs.
    """
    if not request.runs and not request.splits:
        return []
    query = run_results.newest_ok(request.comparison, _is_earlier_of_config(request))
    max_runs = limit or max(request.runs, _SEARCHED, _EXPLAINED)
    newest_first = connection.execute(query.limit(max_runs)).all()
    # Alerts on conditions, such as coverage, do not make a run unhealthy.
    columns = transitions.c
    drift_changes = (
        select(columns.alert, columns.segment, columns.slot, columns.to_state)
        .where(
            columns.comparison == request.comparison,
            columns.kind != RuleKind.CONDITION,
        )
        .order_by(columns.slot, columns.id)
    )
    changes = deque(connection.execute(drift_changes))
    states = {}
    last_ok_runs = []
    for run in reversed(newest_first):
        # Apply all changes until this run, so that ``states`` are the alerts' states after it.
        while changes and changes[0].slot <= run.slot:
            change = changes.popleft()
            states[change.alert, change.segment] = change.to_state
        not_quiet = {alert: state for alert, state in states.items() if state is not State.QUIET}
        last_ok_runs.append(_OkRun(id=run.id, slot=run.slot, states=not_quiet))
    return last_ok_runs
