"""Incidents: which firings are notified as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.alerts.machine import stable_key
from monitor.model import AlertState, State, Transition

GROUP_FOR = timedelta(days=1)
"""How long after the last one firings join an incident, unless configured otherwise."""
MOST_PERIODS = 7
"""An incident accepts no firing later than so many times `GROUP_FOR` after its beginning."""


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Iterable[AlertState],
    *,
    group_for: timedelta = GROUP_FOR,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states and transitions of one run with their incidents; ``before`` are the comparison's states as stored.

    What begins to fire joins the newest incident of the same severity if the last of its firings that last began at most
    ``group_for`` before, and the first at most `LONGEST` times that; else what begins makes a new one together. A firing that
    lasts stays in its incident, with its acknowledgement.
    """
    stored = {(state.alert, state.segment): state for state in before}
    open_ones = [state for state in stored.values() if state.state is State.FIRING and state.incident]
    named = {(start.alert, start.segment): _join(start, open_ones, group_for) for start in transitions if start.is_start}
    new_states = tuple(_carry(state, stored.get((state.alert, state.segment)), named) for state in states)
    return new_states, tuple(_part_of(change, stored.get((change.alert, change.segment)), named) for change in transitions)


def _join(start: Transition, open_ones: Iterable[AlertState], group_for: timedelta) -> str:
    beginnings: dict[str, list[datetime]] = {}
    for state in open_ones:
        if state.severity is start.severity and state.incident is not None:
            beginnings.setdefault(state.incident, []).append(state.since)
    recent = [
        (max(began), name)
        for name, began in beginnings.items()
        if start.slot - max(began) <= group_for and start.slot - min(began) <= MOST_PERIODS * group_for
    ]
    # Several may be open, since a firing can outlast the time in which others join it: the newest is joined.
    return max(recent)[1] if recent else stable_key(start.slot, start.comparison, start.severity.value)


def _carry(state: AlertState, before: AlertState | None, named: dict[tuple[str, str], str]) -> AlertState:
    if state.state is not State.FIRING:
        return state
    # The same firing as before this run, so the acknowledgement still holds.
    if before is not None and before.dedup_key == state.dedup_key:
        return replace(state, incident=before.incident, acknowledged_by=before.acknowledged_by)
    return replace(state, incident=named.get((state.alert, state.segment)))


def _part_of(change: Transition, before: AlertState | None, named: dict[tuple[str, str], str]) -> Transition:
    if change.is_start:
        return replace(change, incident=named[change.alert, change.segment])
    return replace(change, incident=before.incident) if change.is_end and before is not None else change
