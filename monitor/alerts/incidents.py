"""Incidents: which firings are one fault, how many users they concern, how often they page.

README.md explains the rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from itertools import chain, groupby
from operator import attrgetter

from monitor.alerts.machine import stable_key
from monitor.immutable import immutable
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.rankings import ALL
from monitor.model.rules import (
    Condition,
    ConditionRule,
    CoverageRule,
    JudgingPlan,
    Rule,
    RuleKind,
    Severity,
)
from monitor.model.statistics import Lack

GROUP_FOR = timedelta(days=1)
"""The default of `group_for`: a seventh of the time in which alerts join an incident."""
MOST_PERIODS = 7
"""Alerts join an incident until this many times `group_for` after its beginning."""

_CARRIED = 0.2
"""A segment explains a change if the others changed by at most this share of it, per user."""
_GROWN = 2.0
_OF_ORDER = (Lack.REVERSED, Lack.FIRST_DIFFERS)
_NO_LIST = (Lack.MISSING, Lack.EMPTY, Lack.FAILED, Lack.UNPAIRED)
_LOUDEST = tuple(Severity)


class FaultGroup(StrEnum):
    """What a fault does to users. Alerts of two groups are two faults."""

    NO_LIST = "users get no list"
    OTHER_LIST = "users get another list"


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Sequence[AlertState],
    judging: JudgingPlan,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states and transitions of one run with their incidents.

    ``before`` are the comparison's states as stored.

    Starts join the newest open incident. It is open if its first lasting firing began at most
    `MOST_PERIODS` times ``group_for`` before. Otherwise they begin a new incident together. Lasting
    firings stay in their incident.

    An outage (no run succeeds) joins only incidents of conditions, of alerts that began since, and
    of users without a list. Drift does not join an outage, but alerts on users without a list do.
    Conditions of all users concern as many users as have no list.
    """
    kinds = {rule.alert: _kind_of(rule) for rule in judging.rules}
    transitions = _count_users_of_conditions(transitions, states, before, kinds)
    lasting = {state.dedup_key: state for state in before if state.state is State.FIRING}
    incidents = {key: state.incident for key, state in lasting.items()}
    members: dict[str | None, list[AlertState]] = defaultdict(list)
    for state in lasting.values():
        members[state.incident].append(state)
    for group in ((_Kind.DRIFT, _Kind.CONDITION), (_Kind.WITHOUT_LIST,), (_Kind.OUTAGE,)):
        starts = [
            change for change in transitions if change.is_start and kinds[change.alert] in group
        ]
        if not starts:
            continue
        firing: list[AlertState] = []
        for incident in members.values():
            if _may_join(starts, incident, kinds):
                firing += incident
        slot = starts[0].slot
        name = _find_open(firing, slot, judging.group_for)
        name = name or stable_key(slot, str(starts[0].dedup_key))
        keys = {start.dedup_key for start in starts}
        incidents |= dict.fromkeys(keys, name)
        # Later groups of this run can join too.
        members[name] += [
            replace(state, incident=name) for state in states if state.dedup_key in keys
        ]
    acknowledged_by = {key: state.acknowledged_by for key, state in lasting.items()}
    states = [
        replace(
            state,
            incident=incidents.get(state.dedup_key),
            acknowledged_by=acknowledged_by.get(state.dedup_key),
        )
        for state in states
    ]
    transitions = [
        replace(change, incident=incidents.get(change.dedup_key)) for change in transitions
    ]
    return tuple(states), tuple(transitions)


class _Kind(Enum):
    """What an alert reports."""

    DRIFT = "drift"
    CONDITION = "condition"
    OUTAGE = "no run succeeds"
    WITHOUT_LIST = "users without a list"


def _kind_of(rule: Rule) -> _Kind:
    if isinstance(rule, ConditionRule):
        is_outage = rule.condition in (Condition.ERROR, Condition.STALE)
        return _Kind.OUTAGE if is_outage else _Kind.CONDITION
    if isinstance(rule, CoverageRule) and rule.share.lack in _NO_LIST:
        return _Kind.WITHOUT_LIST
    return _Kind.DRIFT


def _may_join(
    starts: Sequence[Transition],
    incident: Sequence[AlertState],
    kinds: Mapping[str, _Kind],
) -> bool:
    """Whether these starts of one group may join an incident with these firings."""
    kind = kinds[starts[0].alert]
    # The rule of a firing may have been removed.
    incident_kinds = {kinds.get(state.alert) for state in incident}
    if kind is not _Kind.OUTAGE:
        return kind is _Kind.WITHOUT_LIST or _Kind.OUTAGE not in incident_kinds
    since = min(start.since for start in starts)
    return _Kind.WITHOUT_LIST in incident_kinds or all(
        kinds.get(state.alert) in (_Kind.CONDITION, _Kind.OUTAGE) or state.since >= since
        for state in incident
    )


def _count_users_of_conditions(
    transitions: Sequence[Transition],
    states: Sequence[AlertState],
    before: Sequence[AlertState],
    kinds: Mapping[str, _Kind],
) -> tuple[Transition, ...]:
    """The transitions. Conditions of all users start with the number of users without a list.

    If it is unknown, they concern all users.
    """
    newest = {state.alert: state for state in (*before, *states) if state.segment == ALL}
    lost = []
    for state in states:
        is_count = state.segment == ALL and kinds.get(state.alert) is _Kind.WITHOUT_LIST
        if is_count and state.value is not None:
            lost.append(round(state.value * state.users))
    if not lost:
        lost = [state.users for state in newest.values()]
    users = max(lost, default=0)
    counted = []
    for change in transitions:
        if _is_blind(change) and change.segment == ALL and change.is_start:
            change = replace(change, users=users)  # noqa: PLW2901
        counted.append(change)
    return tuple(counted)


def _is_blind(change: Transition) -> bool:
    """Whether drift cannot be judged without lists."""
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.TOO_FEW


def _find_open(firing: Collection[AlertState], slot: datetime, group_for: timedelta) -> str | None:
    """The incident of these firings that starts in the slot join, if one is open."""
    beginnings: dict[str, list[datetime]] = defaultdict(list)
    for state in firing:
        if state.incident:
            beginnings[state.incident].append(state.since)
    # Several may be open: a firing can last longer than others may join it.
    newest = max(
        (
            (max(began), name)
            for name, began in beginnings.items()
            if slot - min(began) <= MOST_PERIODS * group_for
        ),
        default=None,
    )
    return None if newest is None else newest[1]


def find_leads(changes: Iterable[Transition]) -> tuple[Transition, ...]:
    """The changes that represent all of these, in their order.

    An alert is represented by its change on all users, else by the changes of all its segments. If
    one segment explains the change of all users, it represents them. Starts, acknowledgements and
    ends are separate.
    """
    by_alert: dict[tuple[object, ...], list[Transition]] = defaultdict(list)
    for change in changes:
        was = State.QUIET if change.is_start else change.from_state
        by_alert[change.alert, was, change.to_state, change.is_new_normal].append(change)
    return tuple(chain.from_iterable(map(_leads_of, by_alert.values())))


def _leads_of(changes: Sequence[Transition]) -> Sequence[Transition]:
    of_all_users = [change for change in changes if change.segment == ALL]
    if not of_all_users:
        return changes
    # The alert may have ended and begun again: the newest start counts.
    everybody = of_all_users[-1]
    segments = [change for change in changes if _explains(change, everybody)]
    return [min(segments, key=attrgetter("users"), default=everybody)]


def _explains(segment: Transition, everybody: Transition) -> bool:
    """Whether the value of all users changed because of this segment alone."""
    if segment.value is None or segment.normal is None:
        return False
    if everybody.value is None or everybody.normal is None:
        return False
    others = everybody.users - segment.users
    if others <= 0 or not (segment.statistic == "mean" or _is_share(segment)):
        return False
    gap = segment.value - segment.normal
    gap_of_all = everybody.value - everybody.normal
    change_of_others = abs(gap_of_all * everybody.users - gap * segment.users)
    return gap != 0 and change_of_others <= _CARRIED * abs(gap) * others


def _is_share(change: Transition) -> bool:
    return change.kind is RuleKind.COVERAGE or change.statistic.startswith("share_")


def count_concerned(starts: Iterable[Transition]) -> float:
    """Users concerned by these firings: the largest count of an alert on a share of users.

    Segments of one dimension are added. If no alert counts users, all users of the alerts count.
    Then a later count or another order of items is no growth.
    """
    starts = tuple(starts)
    counts: list[tuple[Transition, float]] = []
    for start in starts:
        users = _count_users(start)
        if users is not None:
            counts.append((start, users))
    if not counts:
        counts = [(start, float(start.users)) for start in find_leads(starts)]
    # A segment that fired after all users is counted, although they represent it in messages.
    concerned: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for start, users in counts:
        segments = concerned[start.alert, start.segment.partition("=")[0]]
        segments[start.segment] = max(segments.get(start.segment, 0.0), users)
    return max((sum(segments.values()) for segments in concerned.values()), default=0.0)


def _count_users(start: Transition) -> float | None:
    """Number of users that the alert counts, None if it does not count."""
    if _is_blind(start):
        return float(start.users)
    if not _is_share(start) or start.value is None or start.statistic.startswith(_OF_ORDER):
        return None
    return start.users * abs(start.value - (start.normal or 0.0))


def group_fault(start: Transition) -> FaultGroup | None:
    """What the alert reports. None for conditions, which follow from other faults."""
    if start.kind is RuleKind.CONDITION:
        return None
    if start.kind is RuleKind.COVERAGE and start.statistic.startswith(_NO_LIST):
        return FaultGroup.NO_LIST
    return FaultGroup.OTHER_LIST


@immutable
class Paging:
    """How often one incident pages, and why it did the last time. See `count_pages`."""

    pages: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0
    groups: frozenset[FaultGroup] = frozenset()
    worse: str | None = None


def count_pages(starts: Sequence[Transition]) -> Paging:
    """How often these starts of one incident page, in the order in which they were sent.

    The incident pages when it begins, when its severity rises, when a fault of another group joins,
    and when the number of concerned users has doubled since the last page.
    """
    paging = Paging()
    seen: list[Transition] = []
    for _, of_slot in groupby(starts, key=attrgetter("slot")):
        seen += of_slot
        now = Paging(
            pages=paging.pages + 1,
            severity=min((start.severity for start in seen), key=_LOUDEST.index),
            users=count_concerned(seen),
            groups=frozenset(filter(None, map(group_fault, seen))),
        )
        worse = _why_worse(paging, now)
        if not paging.pages:
            paging = now
        elif worse is not None:
            paging = replace(now, worse=worse)
    return paging


def _why_worse(before: Paging, now: Paging) -> str | None:
    """Why the incident is worse than at its last page, None if it is not."""
    if now.severity is not before.severity:
        return f"its severity rose from {before.severity} to {now.severity}"
    if now.users >= max(_GROWN * before.users, 1.0):
        return (
            f"it concerns about {now.users:,.0f} users, and about {before.users:,.0f} at the "
            "last page"
        )
    joined = now.groups - before.groups
    if before.groups and joined:
        return f"another fault joined: {', '.join(joined)}"
    return None
