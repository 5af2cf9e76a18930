"""Incidents: which firings are notified as one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

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
    installation: str = "",
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states and transitions of one run with their incidents; ``before`` are the comparison's states as stored.

    What begins to fire joins the newest incident of the same severity if the last of its firings that last began at most
    ``group_for`` before, and the first at most `LONGEST` times that; else what begins makes a new one together. A firing that
    lasts stays in its incident, with its acknowledgement.

    Keys of what begins, firings and incidents, are made of the label `INSTALLATION` too, without one of ``installation`` if it
    is not empty: no other installation has them, whatever its comparisons are called. What lasts keeps the keys that receivers
    know it by, whatever the name is now.
    """
    stored = {(state.alert, state.segment): state for state in before}
    open_ones = [state for state in stored.values() if state.state is State.FIRING and state.incident]
    named = {(start.alert, start.segment): _join(start, open_ones, group_for) for start in transitions if start.is_start}
    new_states = tuple(_carry(state, stored.get((state.alert, state.segment)), named) for state in states)
    changes = tuple(_part_of(change, stored.get((change.alert, change.segment)), named) for change in transitions)
    return _keep_apart(new_states, changes, {state.incident for state in open_ones}, installation)


INSTALLATION = "installation"
"""The label of alerts by which installations are told apart where they are named."""


def _keep_apart(
    states: Sequence[AlertState], transitions: Sequence[Transition], joined: Collection[str | None], installation: str
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The same with the keys of what begins made of the installation too, but for those of incidents that were joined."""
    starts = [change for change in transitions if change.is_start]
    names = {change.dedup_key: change.labels.get(INSTALLATION, installation) for change in starts}
    begun = {change.incident: names[change.dedup_key] for change in starts if change.incident not in joined}
    own = {key: _own_key(name, key) for key, name in (names | begun).items()}
    return tuple(_renamed(state, own) for state in states), tuple(_renamed(change, own) for change in transitions)


_Keyed = TypeVar("_Keyed", AlertState, Transition)


def _renamed(item: _Keyed, own: Mapping[str | None, str]) -> _Keyed:
    return replace(item, dedup_key=own.get(item.dedup_key, item.dedup_key), incident=own.get(item.incident, item.incident))


def _own_key(installation: str, key: str | None) -> str:
    return hashlib.sha256(f"{installation} {key}".encode()).hexdigest()[:32] if installation else str(key)


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
