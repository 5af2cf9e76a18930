"""Incidents: which alerts report one fault, how many users they concern, how often they page.

README.md explains the rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, groupby
from operator import attrgetter

from monitor.alerts.machine import stable_key
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.rules import (
    Condition,
    JudgingPlan,
    RuleKind,
    Severity,
)
from monitor.model.statistics import ABOUT_ORDER, Lack
from monitor.model.urgency import URGENT_SHARE
from monitor.texts.deliveries import write_joined, write_more_severe, write_more_users

GROUP_FOR = timedelta(days=1)
"""The default of `group_for`. Alerts join an incident for `MOST_PERIODS` times this long."""
MOST_PERIODS = 7
"""Alerts join an incident until this many times `group_for` have passed since it began."""

_CARRIED = 0.2
"""A segment explains a change if the other users changed by at most this share of its change."""
_GROWN = 2.0
_NO_LIST = (Lack.MISSING, Lack.EMPTY, Lack.FAILED, Lack.UNPAIRED)
_LOUDEST = tuple(Severity)


class Problem(StrEnum):
    """What an alert reports. Alerts of the first two problems report two faults."""

    NO_LIST = "users get no list"
    OTHER_LIST = "users get another list"
    CONDITION = "drift cannot be judged"
    OUTAGE = "no run succeeds"


def find_problem(kind: RuleKind, statistic: str) -> Problem:
    """The problem that a rule or an alert of this kind, on this statistic, reports."""
    if kind is RuleKind.CONDITION:
        is_outage = statistic in (Condition.ERROR, Condition.STALE)
        return Problem.OUTAGE if is_outage else Problem.CONDITION
    if kind is RuleKind.COVERAGE and statistic.startswith(_NO_LIST):
        return Problem.NO_LIST
    return Problem.OTHER_LIST


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Sequence[AlertState],
    judging: JudgingPlan,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Add the incident to each state and transition of one run.

    ``before`` are the comparison's stored states.

    Alerts that start join the newest open incident. An incident is open if its first firing that
    still lasts began at most `MOST_PERIODS` times ``group_for`` ago. If no incident is open, they
    begin a new incident together. Alerts that still fire stay in their incident.

    An outage (no run succeeds) joins only three kinds of incident:

    - incidents of conditions,
    - incidents whose alerts all began after the outage,
    - incidents with alerts on users without a list.

    Alerts on users without a list may join an outage. Other alerts on drift may not. A condition of
    all users concerns as many users as have no list.
    """
    problems = {
        rule.alert: find_problem(rule.kind, str(rule.subject.statistic)) for rule in judging.rules
    }
    transitions = _count_users_of_conditions(transitions, states, before, problems)
    lasting = {state.dedup_key: state for state in before if state.state is State.FIRING}
    incidents = {key: state.incident for key, state in lasting.items()}
    members: dict[str | None, list[AlertState]] = defaultdict(list)
    for state in lasting.values():
        members[state.incident].append(state)
    for group in (
        (Problem.OTHER_LIST, Problem.CONDITION),
        (Problem.NO_LIST,),
        (Problem.OUTAGE,),
    ):
        starts = [
            change for change in transitions if change.is_start and problems[change.alert] in group
        ]
        if not starts:
            continue
        firing: list[AlertState] = []
        for incident in members.values():
            if _may_join(starts, incident, problems):
                firing += incident
        slot = starts[0].slot
        name = _find_open(firing, slot, judging.group_for)
        name = name or stable_key(slot, str(starts[0].dedup_key))
        keys = {start.dedup_key for start in starts}
        incidents |= dict.fromkeys(keys, name)
        # Alerts of later groups can join the incident too.
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


def _may_join(
    starts: Sequence[Transition],
    incident: Sequence[AlertState],
    problems: Mapping[str, Problem],
) -> bool:
    """Whether these starting alerts may join an incident with these states."""
    problem = problems[starts[0].alert]
    # If the rule of a firing was removed, its problem is None.
    of_incident = {problems.get(state.alert) for state in incident}
    if problem is not Problem.OUTAGE:
        return problem is Problem.NO_LIST or Problem.OUTAGE not in of_incident
    since = min(start.since for start in starts)
    return Problem.NO_LIST in of_incident or all(
        problems.get(state.alert) in (Problem.CONDITION, Problem.OUTAGE) or state.since >= since
        for state in incident
    )


def _count_users_of_conditions(
    transitions: Sequence[Transition],
    states: Sequence[AlertState],
    before: Sequence[AlertState],
    problems: Mapping[str, Problem],
) -> tuple[Transition, ...]:
    """Set the number of users of each condition of all users that starts in this run.

    It is the number of users without a list. If that is unknown, it is the number of all users.
    """
    newest = {state.alert: state for state in (*before, *states) if state.segment == ALL}
    lost = []
    for state in states:
        is_count = state.segment == ALL and problems.get(state.alert) is Problem.NO_LIST
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
    """Whether the alert reports a condition under which drift cannot be judged."""
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.TOO_FEW


def _find_open(firing: Collection[AlertState], slot: datetime, group_for: timedelta) -> str | None:
    """Which incident of ``firing`` the new alerts of this slot join. None if none is open."""
    beginnings: dict[str, list[datetime]] = defaultdict(list)
    for state in firing:
        if state.incident:
            beginnings[state.incident].append(state.since)
    # Several may be open, since an incident may last after the time for joining it.
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
    """Select the changes that represent all of these changes, in their order.

    If an alert changes on all users, only this change is written, and not those on segments. But
    if one segment explains the change of all users, only this segment's change is written. If the
    alert does not change on all users, each segment's change is written. Starts,
    acknowledgements and ends are treated separately.
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
    # The alert may have ended and begun again. Then its newest change is used.
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
    """Number of users that these firings concern.

    Each alert on a share of users has a count of users. The largest count of an alert is returned.
    The counts of an alert's segments of one dimension are added. If no alert has a count, all users
    of the alerts are counted. Then a later count, or another order of items, is not growth.
    """
    starts = tuple(starts)
    counts: list[tuple[Transition, float]] = []
    for start in starts:
        users = _count_users(start)
        if users is not None:
            counts.append((start, users))
    if not counts:
        counts = [(start, float(start.users)) for start in find_leads(starts)]
    # In messages the alert on all users represents its segments. Here their users are counted too.
    concerned: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for start, users in counts:
        segments = concerned[start.alert, start.segment.partition("=")[0]]
        segments[start.segment] = max(segments.get(start.segment, 0.0), users)
    return max((sum(segments.values()) for segments in concerned.values()), default=0.0)


def _count_users(start: Transition) -> float | None:
    """Number of users that have what the alert reports. None if the alert counts no users."""
    if _is_blind(start):
        return float(start.users)
    if not _is_share(start) or start.value is None or start.statistic.startswith(ABOUT_ORDER):
        return None
    return start.users * abs(start.value - (start.normal or 0.0))


_FAULTS = frozenset({Problem.NO_LIST, Problem.OTHER_LIST})


@immutable
class Paging:
    """How often one incident has paged, and why it paged the last time. See `count_pages`."""

    pages: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0
    concerns_most: bool = False  # at least half of the users of its largest alert
    faults: frozenset[Problem] = frozenset()
    worse: str | None = None
    has_grown: bool = False  # only its growth caused the last page


def count_pages(starts: Sequence[Transition]) -> Paging:
    """Count how often one incident pages. ``starts`` are its starts in the order of sending.

    The incident pages in each of these cases:

    - it begins,
    - its severity rises,
    - another fault joins,
    - the number of concerned users has doubled since the last page.

    A slow loss doubles many times. So directly after a page for growth, growth pages only if it
    concerns most users.
    """
    paging = Paging()
    seen: list[Transition] = []
    for _, of_slot in groupby(starts, key=attrgetter("slot")):
        seen += of_slot
        users = count_concerned(seen)
        now = Paging(
            pages=paging.pages + 1,
            severity=min((start.severity for start in seen), key=_LOUDEST.index),
            users=users,
            concerns_most=users >= URGENT_SHARE * max(start.users for start in seen),
            faults=_FAULTS & {find_problem(start.kind, start.statistic) for start in seen},
        )
        worse = _why_worse(paging, now)
        if not paging.pages:
            paging = now
        elif worse is not None:
            is_same_fault = now.severity is paging.severity and now.faults == paging.faults
            paging = replace(now, worse=worse, has_grown=is_same_fault)
    return paging


def _why_worse(before: Paging, now: Paging) -> str | None:
    """Why the incident is worse than at its last page. None if it is not worse."""
    if now.severity is not before.severity:
        return write_more_severe(before.severity, now.severity)
    joined = now.faults - before.faults if before.faults else frozenset()
    may_page = not before.has_grown or now.concerns_most or joined
    if may_page and now.users >= max(_GROWN * before.users, 1.0):
        return write_more_users(before.users, now.users)
    if joined:
        return write_joined(joined)
    return None
