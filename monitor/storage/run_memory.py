"""Reads what a run needs from earlier runs."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, and_, bindparam, func, select

from monitor.model.alerts import AlertState, State, is_halfway
from monitor.model.errors import DatabaseError
from monitor.model.explanation import Explanation, Split
from monitor.model.immutable import immutable
from monitor.model.memory import LessonTopic, Memory, MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, RuleKind
from monitor.model.runs import KeptLists, Run, RunStatus, Summary
from monitor.model.unpaired import UnpairedResults
from monitor.storage import run_results
from monitor.storage.alert_states import read_accepted_levels, read_states
from monitor.storage.list_pieces import (
    RunWithLists,
    last_run_with_lists,
    load_lists,
    onset_of,
)
from monitor.storage.rows import RUN_IDS, read_first
from monitor.storage.run_results import RUN_ROWS
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import expectations, runs, summaries
from monitor.storage.transactions import Database

_IS_EARLIER = and_(runs.c.comparison == bindparam("comparison"), runs.c.slot < bindparam("before"))
"""Whether a run of the comparison has an earlier slot than the requesting run."""
_IS_EARLIER_OK = and_(_IS_EARLIER, runs.c.status == RunStatus.OK)
_IS_EARLIER_OF_CONFIG = and_(_IS_EARLIER, runs.c.config_hash == bindparam("config_hash"))
_IS_IN_IDS = runs.c.id.in_(RUN_IDS)

# Each run executes these statements, and building a statement takes longer than executing it.
_LAST_OK = RUN_ROWS.where(_IS_EARLIER_OK).order_by(runs.c.slot.desc()).limit(1)
_LAST_OF_OTHER_CONFIG = _LAST_OK.where(runs.c.config_hash != bindparam("config_hash"))
_LAST_OK_OF_CONFIG = (
    select(runs.c.id, runs.c.slot)
    .where(_IS_EARLIER_OF_CONFIG, runs.c.status == RunStatus.OK)
    .order_by(runs.c.slot.desc())
    .limit(bindparam("limit"))
)
_DRIFT_CHANGES = (
    select(transitions.c.alert, transitions.c.segment, transitions.c.slot, transitions.c.to_state)
    .where(
        transitions.c.comparison == bindparam("comparison"),
        # Alerts on conditions, such as coverage, do not make a run unhealthy.
        transitions.c.kind != RuleKind.CONDITION,
    )
    .order_by(transitions.c.slot, transitions.c.id)
)
_MODELS_AND_STANDSTILLS = select(runs.c.id, runs.c.models, runs.c.standstills).where(_IS_IN_IDS)
_SPLITS = select(runs.c.id, runs.c.split).where(_IS_IN_IDS)
_FLOOR_OVERLAPS = select(summaries.c.mean).where(
    summaries.c.run_id.in_(RUN_IDS),
    summaries.c.segment == ALL,
    summaries.c.metric == "floor(overlap)",
    summaries.c.n > 0,
)
_TREND_STATISTICS = select(
    expectations.c.run_id, expectations.c.evidence, expectations.c.evidence_limit
).where(
    expectations.c.run_id.in_(RUN_IDS),
    # With many segments, at least one of them nearly always looks like a trend. So only the
    # expectations for all users can make a run suspicious.
    expectations.c.segment == ALL,
    expectations.c.evidence.is_not(None),
    expectations.c.evidence_limit.is_not(None),
)

_RUNS_SEARCHED_FOR_CAUSE = 7
"""How many of the newest ok runs are searched for the cause of an alert."""
_RUNS_SEARCHED_FOR_HEALTHY = 64
"""How many of the newest runs with status ok are searched for healthy runs."""
_RUNS_SEARCHED_AFTER_LONG_ALERTS = 2000
"""How many runs are searched if too few of the `_RUNS_SEARCHED_FOR_HEALTHY` are healthy."""


def read_memory(database: Database, request: MemoryRequest) -> Memory:
    """Return what a run needs from earlier runs.

    Lists are read only if the request wants them. ``last_lists`` are those of the newest ok run
    with lists. ``former_lists`` are those of the newest such run from before the current alerts. If
    lists are damaged, ``unreadable`` has a sentence instead.
    """
    comparison = request.comparison
    with database.read() as connection:
        last_ok_runs = _last_ok_runs(connection, request)
        past = _past_runs(connection, request, _last(last_ok_runs, request.runs))
        memory = Memory(
            states=read_states(connection, comparison),
            past=past,
            accepted=read_accepted_levels(connection, comparison),
            learning_since=_learning_since(connection, request, past),
            last_ok=read_first(Run, connection, _LAST_OK, _parameters(request)),
        )
        if request.wants_last_unpaired:
            memory = replace(memory, last_unpaired=_last_unpaired(connection, request))
        # Only a run requests splits. Commands that read earlier runs need none of these fields.
        if request.splits:
            memory = replace(
                memory,
                floor_overlaps=_floor_overlaps(connection, _last(last_ok_runs, request.splits)),
                splits=_healthy_splits(connection, request, last_ok_runs),
                earlier_explanations=_last_explained(
                    connection, _last(last_ok_runs, _RUNS_SEARCHED_FOR_CAUSE)
                ),
            )
        if not request.wants_last_lists:
            return memory
        last, former = _runs_with_lists(connection, request, memory.states)
    unreadable: list[str] = []
    last_lists = _read_lists(database, last, "lists of the last run", unreadable)
    former_lists = last_lists
    if former != last:
        former_lists = _read_lists(database, former, "lists from before the alerts", unreadable)
    return replace(
        memory,
        last_lists=last_lists,
        former_lists=former_lists,
        former_slot=None if former is None else former.slot,
        unreadable=tuple(unreadable),
    )


def _read_lists(
    database: Database, run: RunWithLists | None, name: str, unreadable: list[str]
) -> KeptLists | None:
    """Return the run's lists, or None if there is no run.

    If the lists are damaged, add a sentence to ``unreadable`` and return None. Raises DatabaseError
    if the database cannot be read now.
    """
    if run is None:
        return None
    try:
        return load_lists(database, run.id)
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
    """Return the last ``count`` runs."""
    # ``ok_runs[-count:]`` would return all runs if ``count`` is 0.
    return ok_runs[max(0, len(ok_runs) - count) :]


def _past_runs(
    connection: Connection, request: MemoryRequest, last_ok_runs: Sequence[_OkRun]
) -> tuple[PastRun, ...]:
    """Return what the judgement of a later run needs from these runs, in the same order.

    The lessons of a run are numbers that its rules stored. Summaries are included if they are
    requested, or if the run has no lesson about a requested series.
    """
    ids = [run.id for run in last_ok_runs]
    rows = {row.id: row for row in connection.execute(_MODELS_AND_STANDSTILLS, {"ids": ids})}
    lessons = run_results.lessons_by_run(connection, ids)
    past_runs = {}
    ids_with_summaries = []
    topics: tuple[LessonTopic, ...] | None = None
    has_all_lessons = False
    for run in last_ok_runs:
        past_run = PastRun(
            slot=run.slot,
            states=run.states,
            lessons=lessons.get(run.id),
            standstills={standstill.alert: standstill for standstill in rows[run.id].standstills},
            models=rows[run.id].models,
        )
        past_runs[run.id] = past_run
        # `run_results` returns the same tuple of topics for nearly all runs. The comparison is
        # slow, so it is repeated only for another tuple.
        if past_run.topics is not topics:
            topics = past_run.topics
            series_by_alert = {topic.alert: topic.series for topic in topics}
            has_all_lessons = request.series.items() <= series_by_alert.items()
        if request.wants_summaries or not has_all_lessons:
            ids_with_summaries.append(run.id)
    summaries_by_run = run_results.results_by_run(connection, Summary, ids_with_summaries)
    for run_id, run_summaries in summaries_by_run.items():
        past_runs[run_id] = replace(past_runs[run_id], summaries=run_summaries)
    return tuple(past_runs.values())


def _learning_since(
    connection: Connection,
    request: MemoryRequest,
    past: Sequence[PastRun],
) -> datetime | None:
    """Return the first slot with this configuration, from which the rules have to learn again.

    Returns None if the configuration never changed, or if there are enough ``past`` runs with this
    configuration.
    """
    if not request.runs or len(past) >= MIN_HEALTHY_RUNS:
        return None
    parameters = _parameters(request)
    last_before_change = connection.execute(_LAST_OF_OTHER_CONFIG, parameters).first()
    if last_before_change is None:
        return None
    # The first run with this configuration may have any status, for example failed.
    first = select(func.min(runs.c.slot)).where(
        _IS_EARLIER_OF_CONFIG, runs.c.slot > last_before_change.slot
    )
    # If there is no such run, the requesting run is the first one.
    return connection.scalar(first, parameters) or request.before


def _last_unpaired(connection: Connection, request: MemoryRequest) -> UnpairedResults | None:
    """Return the results of the last unpaired run.

    In an unpaired run, the arms serve different users, as in an A/B test. Only runs of the same
    configuration are searched, with any status. Returns None if there is no such run.
    """
    query = (
        select(runs.c.unpaired)
        .where(_IS_EARLIER_OF_CONFIG, runs.c.unpaired.is_not(None))
        .order_by(runs.c.slot.desc())
        .limit(1)
    )
    unpaired: UnpairedResults | None = connection.scalar(query, _parameters(request))
    return unpaired


def _floor_overlaps(connection: Connection, last_ok_runs: Sequence[_OkRun]) -> tuple[float, ...]:
    """Return the noise floor's mean overlap in each of these runs, in any order.

    The noise floor compares two lists of the baseline for the same user. Runs without a noise floor
    are left out.
    """
    ids = [run.id for run in last_ok_runs]
    return tuple(connection.scalars(_FLOOR_OVERLAPS, {"ids": ids}))


def _healthy_splits(
    connection: Connection, request: MemoryRequest, last_ok_runs: Sequence[_OkRun]
) -> tuple[Split, ...]:
    """Return the splits of the newest healthy ok runs, oldest first.

    A split divides a run's mean distance into parts. A run is healthy if both conditions are met:

    - All drift alerts were quiet after the run.
    - No rule on a trend was halfway to an alert.

    The newest ``request.splits`` runs with quiet alerts are searched. Runs without a split are left
    out.
    """
    quiet = [run.id for run in last_ok_runs if not run.states]
    if len(quiet) < request.splits and len(last_ok_runs) >= _RUNS_SEARCHED_FOR_HEALTHY:
        # Alerts have lasted for many runs, so runs from before the alerts are searched too.
        further = _last_ok_runs(connection, request, _RUNS_SEARCHED_AFTER_LONG_ALERTS)
        quiet = [run.id for run in further if not run.states]
    chosen = quiet[-request.splits :]
    if not chosen:
        return ()
    ids = {"ids": chosen}
    suspicious = set()
    # A rule on a trend alerts when its statistic reaches the limit.
    for run_id, statistic, limit in connection.execute(_TREND_STATISTICS, ids):
        if is_halfway(statistic, limit):
            suspicious.add(run_id)
    splits = {row.id: row.split for row in connection.execute(_SPLITS, ids)}
    healthy = []
    for run_id in chosen:
        split = splits[run_id]
        if split is None or run_id in suspicious:
            continue
        # Without users, the means are undefined.
        if split.means.n:
            healthy.append(split)
    return tuple(healthy)


def _last_explained(
    connection: Connection, last_ok_runs: Sequence[_OkRun]
) -> tuple[tuple[datetime, Explanation], ...]:
    """Return slot and explanation of the runs that may have the current fault, newest first.

    These are the runs since the last run in which all alerts ended. Some of them may have no alert,
    because a fault may begin before its alerts. Runs without a finding are left out.
    """
    with_fault: list[_OkRun] = []
    had_alerts = False
    for run in last_ok_runs:
        # ``states`` contains the alerts that were not quiet after the run.
        has_alerts = bool(run.states)
        if had_alerts and not has_alerts:
            # All alerts ended, so the runs before this run had another fault.
            with_fault.clear()
        with_fault.append(run)
        had_alerts = has_alerts
    ids = [run.id for run in with_fault]
    explanations = run_results.explanations_by_run(connection, ids, with_finding=True)
    explained = []
    for run in reversed(with_fault):
        if run.id in explanations:
            explained.append((run.slot, explanations[run.id]))
    return tuple(explained)


def _runs_with_lists(
    connection: Connection, request: MemoryRequest, states: Sequence[AlertState]
) -> tuple[RunWithLists | None, RunWithLists | None]:
    """Return the newest earlier ok run with lists, and the newest from before the current alerts.

    Only runs with at least the request's k are used. A run is None if there is no such run.
    ``states`` are the states of the comparison's alerts.
    """
    find = partial(last_run_with_lists, connection, request.comparison, least_k=request.k)
    last = find(request.before)
    onset = None
    if any(state.state is not State.QUIET for state in states):
        onset = onset_of(connection, request.comparison)
    if onset is None or onset >= request.before:
        return last, last
    return last, find(onset)


def _parameters(request: MemoryRequest) -> dict[str, object]:
    """Return the parameters of the statements that select earlier runs."""
    return {
        "comparison": request.comparison,
        "config_hash": request.config_hash,
        "before": request.before,
    }


def _last_ok_runs(
    connection: Connection, request: MemoryRequest, limit: int | None = None
) -> list[_OkRun]:
    """Return the newest earlier runs of the configuration with status ok, oldest first.

    If ``limit`` is None, enough runs for all uses are returned.
    """
    if not request.runs and not request.splits:
        return []
    parameters = _parameters(request)
    max_runs = limit or max(request.runs, _RUNS_SEARCHED_FOR_HEALTHY, _RUNS_SEARCHED_FOR_CAUSE)
    newest = connection.execute(_LAST_OK_OF_CONFIG, {**parameters, "limit": max_runs}).all()
    changes = deque(connection.execute(_DRIFT_CHANGES, parameters))
    states = {}
    last_ok_runs = []
    for run in reversed(newest):
        # After all changes until this run are applied, ``states`` are the states after the run.
        while changes and changes[0].slot <= run.slot:
            change = changes.popleft()
            states[change.alert, change.segment] = change.to_state
        not_quiet = {alert: state for alert, state in states.items() if state is not State.QUIET}
        last_ok_runs.append(_OkRun(id=run.id, slot=run.slot, states=not_quiet))
    return last_ok_runs
