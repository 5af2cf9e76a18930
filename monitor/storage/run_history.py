"""Earlier runs of a comparison, as later runs learn from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, and_, select

from monitor.model import CONDITION, MemoryRequest, PastRun, RunStatus, State
from monitor.storage import run_results
from monitor.storage.tables import runs, transitions

Watch = tuple[str, str]
"""Alert and segment."""


def read(connection: Connection, request: MemoryRequest) -> tuple[PastRun, ...]:
    """The newest ok runs of the comparison and configuration before the slot, as many as requested, oldest first.

    Summaries only of those that lack a lesson of any of the requested series.
    """
    newest = newest_ok(
        connection, request.comparison, config_hash=request.config_hash, before=request.before, limit=request.runs
    )
    ids, slots = [run_id for run_id, _ in newest], [slot for _, slot in newest]
    learned = run_results.lessons_of(connection, ids)
    past = [
        PastRun(slot=slot, states=states, lessons=learned.get(run_id, {}))
        for run_id, slot, states in zip(ids, slots, states_after(connection, request.comparison, slots), strict=True)
    ]
    untaught = [
        run_id
        for run_id, run in zip(ids, past, strict=True)
        if not all(run.teaches(alert, series) for alert, series in request.series.items())
    ]
    measured = run_results.summaries_of(connection, untaught) if untaught else {}
    return tuple(replace(run, summaries=measured.get(run_id, ())) for run_id, run in zip(ids, past, strict=True))


def newest_ok(
    connection: Connection, comparison: str, *, config_hash: str, before: datetime, limit: int
) -> list[tuple[int, datetime]]:
    """Number and slot of the newest ``limit`` ok runs of the comparison and configuration before the slot, oldest first."""
    is_past = and_(
        runs.c.comparison == comparison,
        runs.c.status == RunStatus.OK,
        runs.c.config_hash == config_hash,
        runs.c.scheduled_for < before,
    )
    query = select(runs.c.id, runs.c.scheduled_for).where(is_past).order_by(runs.c.scheduled_for.desc()).limit(limit)
    return [(row.id, row.scheduled_for) for row in connection.execute(query).all()[::-1]]


def states_after(connection: Connection, comparison: str, slots: Sequence[datetime]) -> list[dict[Watch, State]]:
    """The alerts on drift that were not quiet after each of the slots, which ascend; conditions cast no doubt on a run."""
    query = select(transitions.c.alert, transitions.c.segment, transitions.c.scheduled_for, transitions.c.to_state).where(
        transitions.c.comparison == comparison, transitions.c.metric != CONDITION
    )
    changes = connection.execute(query.order_by(transitions.c.scheduled_for, transitions.c.id)).all()
    states: dict[Watch, State] = {}
    found, done = [], 0
    for slot in slots:
        while done < len(changes) and changes[done].scheduled_for <= slot:
            states[changes[done].alert, changes[done].segment] = State(changes[done].to_state)
            done += 1
        found.append(_not_quiet(states, {State.PENDING, State.FIRING}))
    return found


def _not_quiet(states: dict[Watch, State], wanted: Collection[State]) -> dict[Watch, State]:
    return {watch: state for watch, state in states.items() if state in wanted}
