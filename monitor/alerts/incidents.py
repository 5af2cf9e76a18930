"""Incidents: which firings are one fault, how many users they concern, and how often they page.

The rule in words stands in `monitor/alerts/README.md`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TypeVar

from monitor.alerts.machine import stable_key
from monitor.model import ALL, AlertState, Condition, JudgingPlan, RuleKind, Severity, State, Transition, kind_of_label

GROUP_FOR = timedelta(days=1)
"""How long an incident that became worse once pages for nothing but severity, unless configured otherwise."""
MOST_PERIODS = 7
"""An incident accepts no firing later than so many times `GROUP_FOR` after its beginning."""


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Iterable[AlertState],
    judging: JudgingPlan,
    *,
    installation: str = "",
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states and transitions of one run with their incidents; ``before`` are the comparison's states as stored.

    That no run succeeds is a kind of its own. What begins to fire joins the newest open incident of its kind, if the first of
    its firings that last began at most `MOST_PERIODS` times ``group_for`` before; else what begins of one kind makes a new one
    together. A firing that lasts stays in its incident, with its acknowledgement.

    Keys of what begins, firings and incidents, are made of the label `INSTALLATION` too, without one of ``installation`` if it
    is not empty: no other installation has them, whatever its comparisons are called. What lasts keeps the keys that receivers
    know it by, whatever the name is now.
    """
    stored = {(state.alert, state.segment): state for state in before}
    open_ones = [state for state in stored.values() if state.state is State.FIRING and state.incident]
    outages = {rule.alert for rule in judging.rules if _is_outage(*rule.subject)}
    named = {
        (start.alert, start.segment): _join(start, open_ones, outages, judging.group_for)
        for start in transitions
        if start.is_start
    }
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


def _join(start: Transition, open_ones: Iterable[AlertState], outages: Collection[str], group_for: timedelta) -> str:
    is_outage = _is_outage(start.metric, start.statistic)
    beginnings: dict[str, list[datetime]] = defaultdict(list)
    for state in open_ones:
        if (state.alert in outages) == is_outage:
            beginnings[str(state.incident)].append(state.since)
    # Several may be open, since a firing can outlast the time in which others join it: the newest is joined.
    joined = ((max(began), name) for name, began in beginnings.items() if start.slot - min(began) <= MOST_PERIODS * group_for)
    return max(joined, default=(None, stable_key(start.slot, start.comparison, "outage" * is_outage)))[1]


def _is_outage(metric: str, statistic: str) -> bool:
    """Whether an alert is about runs that do not succeed; other conditions are about users of a run, as drift is."""
    return kind_of_label(metric) is RuleKind.CONDITION and statistic in (Condition.ERROR, Condition.STALE)


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


def find_leads(changes: Iterable[Transition]) -> tuple[Transition, ...]:
    """The changes that stand for all of these, in their order: of one alert that on all users, else all of its segments.

    Where one segment alone carries what was found for all users, it stands for them instead. Starts, acknowledgements and ends
    stand for themselves.
    """
    by_alert: dict[tuple[object, ...], list[Transition]] = defaultdict(list)
    for change in changes:
        was = State.QUIET if change.is_start else change.from_state
        by_alert[change.alert, was, change.to_state, change.is_new_normal].append(change)
    return tuple(lead for of_alert in by_alert.values() for lead in _leads_of(of_alert))


_CARRIED = 0.2
"""A segment carries a change alone if that of the other users is at most this share of its own, per user."""


def _leads_of(changes: Sequence[Transition]) -> Sequence[Transition]:
    whole = next((change for change in changes if change.segment == ALL), None)
    if whole is None:
        return changes
    return [min((each for each in changes if _carries(each, whole)), key=lambda each: each.users, default=whole)]


def _carries(part: Transition, whole: Transition) -> bool:
    others, is_average = whole.users - part.users, part.statistic == "mean" or _is_share(part)
    if others <= 0 or not is_average or None in (part.value, part.normal, whole.value, whole.normal):
        return False
    gap, gap_of_all = ((each.value or 0.0) - (each.normal or 0.0) for each in (part, whole))
    return gap != 0 and abs(gap_of_all * whole.users - gap * part.users) <= _CARRIED * abs(gap) * others


def _is_share(change: Transition) -> bool:
    return change.kind is RuleKind.COVERAGE or change.statistic.startswith("share_")


_GROWN, _FEW = 2.0, 0.05
_LOUDEST = tuple(Severity)


def count_concerned(starts: Iterable[Transition]) -> float:
    """Users concerned by these firings: as many as alerts on a share of users say, of several the one that says most.

    Segments of one dimension are added. Where no alert counts users, they are taken to be a twentieth of those watched.
    """
    users: dict[tuple[bool, str, str], dict[str, float]] = defaultdict(dict)
    for start in find_leads(starts):
        share = abs(start.value - (start.normal or 0.0)) if _is_share(start) and start.value is not None else None
        of_it = users[share is not None, start.alert, start.segment.partition("=")[0]]
        of_it[start.segment] = max(of_it.get(start.segment, 0.0), start.users * (_FEW if share is None else share))
    return max(((counts, sum(of_it.values())) for (counts, *_), of_it in users.items()), default=(False, 0.0))[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How often the alerts of one incident page who is sent them, and why the last time; see `count_pages`."""

    pages: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0
    worse: str | None = None


def count_pages(starts: Sequence[Transition], group_for: timedelta) -> Paging:
    """How often these starts of one incident page: as it begins, whenever its severity rises, and once as its users double.

    They come in the order in which they were sent, what began in one slot at once. Users have doubled where twice as many are
    concerned as when it paged last. Once is enough for what grows day by day; what doubles when nothing has joined for longer
    than ``group_for`` pages again.
    """
    paging, last, seen = Paging(), None, list[Transition]()
    for slot, begun in groupby(starts, key=lambda start: start.slot):
        seen += begun
        paging, last = _page(paging, seen, is_late=last is not None and slot - last > group_for), slot
    return paging


def _page(before: Paging, starts: Sequence[Transition], *, is_late: bool) -> Paging:
    severity, users = min((start.severity for start in starts), key=_LOUDEST.index), count_concerned(starts)
    now = Paging(pages=before.pages + 1, severity=severity, users=users)
    if not before.pages:
        return now
    if severity is not before.severity:
        return replace(now, worse=f"its severity rose from {before.severity} to {severity}")
    if users < max(_GROWN * before.users, 1.0) or (before.pages > 1 and not is_late):
        return before
    return replace(now, worse=f"it concerns about {users:,.0f} users, and about {before.users:,.0f} at the last page")
