"""Incidents: which firings are one fault, how many users they concern, how often they page.

In words: README.md beside.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from monitor.alerts.machine import stable_key
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.comparison import JudgingPlan
from monitor.model.rankings import ALL
from monitor.model.rules import Condition, ConditionRule, CoverageRule, RuleKind, Severity
from monitor.model.statistics import Lack

GROUP_FOR = timedelta(days=1)
"""A seventh of the time in which alerts join an incident, unless configured otherwise."""
MOST_PERIODS = 7
"""An incident accepts no firing later than so many times `GROUP_FOR` after its beginning."""

_CARRIED = 0.2
"""A segment carries a change alone if that of the other users is at most this share of its own, per user."""
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

    What begins to fire joins the newest open incident, if the first of its firings that last began
    at most `MOST_PERIODS` times ``group_for`` before, else makes a new one together. That no run
    succeeds is a fault of its own: it joins nothing but conditions, what began since, and an
    incident of users without a list. Drift does not join it, but alerts on users without a list do.
    What lasts stays in its incident. Conditions of all users concern as many users as have no list.
    """
    lasting = {state.dedup_key: state for state in before if state.state is State.FIRING}
    conditions = {
        rule.alert: rule.condition for rule in judging.rules if isinstance(rule, ConditionRule)
    }
    outages = {
        alert
        for alert, condition in conditions.items()
        if condition in (Condition.ERROR, Condition.STALE)
    }
    without_list = {
        rule.alert
        for rule in judging.rules
        if isinstance(rule, CoverageRule) and rule.share.lack in _NO_LIST
    }
    transitions = _count_users_of_conditions(transitions, states, before, without_list)
    members: dict[str | None, list[AlertState]] = defaultdict(list)
    for state in lasting.values():
        members[state.incident].append(state)
    incidents = {key: state.incident for key, state in lasting.items()}
    begun_together = [change for change in transitions if change.is_start]
    of_outages = [change for change in begun_together if change.alert in outages]
    of_lost_users = [change for change in begun_together if change.alert in without_list]
    of_drift = [change for change in begun_together if change.alert not in outages | without_list]
    for starts in (of_drift, of_lost_users, of_outages):
        if starts:
            open_ones = [*members.values()]
            if starts is of_drift:
                open_ones = [
                    of_it
                    for of_it in open_ones
                    if all(state.alert not in outages for state in of_it)
                ]
            if starts is of_outages:
                begun = min(start.since for start in starts)
                open_ones = [
                    of_it
                    for of_it in open_ones
                    if any(state.alert in without_list for state in of_it)
                    or all(state.alert in conditions or state.since >= begun for state in of_it)
                ]
            firing = [state for of_it in open_ones for state in of_it]
            name = _find_open(firing, starts[0].slot, judging.group_for) or stable_key(
                starts[0].slot, str(starts[0].dedup_key)
            )
            incidents |= {start.dedup_key: name for start in starts}
            # What begins in the same run is joined, too.
            begun_keys = {start.dedup_key for start in starts}
            members[name] += [
                replace(state, incident=name) for state in states if state.dedup_key in begun_keys
            ]
    looked_after = {key: state.acknowledged_by for key, state in lasting.items()}
    return (
        tuple(
            replace(
                state,
                incident=incidents.get(state.dedup_key),
                acknowledged_by=looked_after.get(state.dedup_key),
            )
            for state in states
        ),
        tuple(replace(change, incident=incidents.get(change.dedup_key)) for change in transitions),
    )


def _count_users_of_conditions(
    transitions: Sequence[Transition],
    states: Sequence[AlertState],
    before: Sequence[AlertState],
    without_list: Collection[str],
) -> tuple[Transition, ...]:
    """The transitions. Conditions of all users begin with the number of users without a list.

    Where that is unknown they concern all users.
    """
    newest = {state.alert: state for state in (*before, *states) if state.segment == ALL}
    everybody = max((state.users for state in newest.values()), default=0)
    counts = [
        round(state.value * state.users)
        for state in states
        if state.segment == ALL and state.alert in without_list and state.value is not None
    ]
    lost = max(counts, default=everybody)
    counted = []
    for change in transitions:
        is_counted = _is_blind(change) and change.segment == ALL and change.is_start
        counted.append(replace(change, users=lost) if is_counted else change)
    return tuple(counted)


def _is_blind(change: Transition) -> bool:
    """Whether drift cannot be judged for want of lists."""
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.TOO_FEW


def _find_open(firing: Collection[AlertState], slot: datetime, group_for: timedelta) -> str | None:
    """The incident of these that what begins in the slot joins."""
    beginnings: dict[str, list[datetime]] = defaultdict(list)
    for state in firing:
        if state.incident:
            beginnings[state.incident].append(state.since)
    # Several may be open, since a firing can outlast the time in which others join it: the newest
    # is joined.
    return max(
        (
            name
            for name, began in beginnings.items()
            if slot - min(began) <= MOST_PERIODS * group_for
        ),
        key=lambda name: (max(beginnings[name]), name),
        default=None,
    )


def find_leads(changes: Iterable[Transition]) -> tuple[Transition, ...]:
    """The changes that stand for all of these, in their order: of one alert that on all users, else all of its segments.

    A segment that alone carries what was found for all stands for them. Starts, acknowledgements and ends stay apart.
    """
    by_alert: dict[tuple[object, ...], list[Transition]] = defaultdict(list)
    for change in changes:
        was = State.QUIET if change.is_start else change.from_state
        by_alert[change.alert, was, change.to_state, change.is_new_normal].append(change)
    return tuple(lead for of_alert in by_alert.values() for lead in _leads_of(of_alert))


def _leads_of(changes: Sequence[Transition]) -> Sequence[Transition]:
    of_all = [change for change in changes if change.segment == ALL]
    if not of_all:
        return changes
    # The alert may have ended and begun again: the newest start counts.
    whole = of_all[-1]
    return [
        min(
            (each for each in changes if _carries(each, whole)),
            key=lambda each: each.users,
            default=whole,
        )
    ]


def _carries(part: Transition, whole: Transition) -> bool:
    others, is_average = whole.users - part.users, part.statistic == "mean" or _is_share(part)
    if (
        others <= 0
        or not is_average
        or None in (part.value, part.normal, whole.value, whole.normal)
    ):
        return False
    gap, gap_of_all = ((each.value or 0.0) - (each.normal or 0.0) for each in (part, whole))
    return (
        gap != 0
        and abs(gap_of_all * whole.users - gap * part.users) <= _CARRIED * abs(gap) * others
    )


def _is_share(change: Transition) -> bool:
    return change.kind is RuleKind.COVERAGE or change.statistic.startswith("share_")


def count_concerned(starts: Iterable[Transition]) -> float:
    """Users concerned by these firings: as many as alerts on a share of users say, of several the one that says most.

    Segments of one dimension are added. Where no alert counts users, they are all of those watched: a count that comes later
    is no growth then, nor is another order of items.
    """
    given = tuple(starts)
    counts = [(start, users) for start in given if (users := _count_users(start)) is not None]
    # A segment that began after all users did is counted, although all users stand for it in
    # messages.
    counts = counts or [(start, float(start.users)) for start in find_leads(given)]
    concerned: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for start, users in counts:
        of_dimension = concerned[start.alert, start.segment.partition("=")[0]]
        of_dimension[start.segment] = max(of_dimension.get(start.segment, 0.0), users)
    return max((sum(of_dimension.values()) for of_dimension in concerned.values()), default=0.0)


def _count_users(start: Transition) -> float | None:
    """How many users the alert counts; None if it counts none."""
    if _is_blind(start):
        return float(start.users)
    if not _is_share(start) or start.value is None or start.statistic.startswith(_OF_ORDER):
        return None
    return start.users * abs(start.value - (start.normal or 0.0))


def group_fault(start: Transition) -> FaultGroup | None:
    """What the alert says of users' lists; None of conditions, which follow from other faults."""
    if start.kind is RuleKind.CONDITION:
        return None
    if start.kind is RuleKind.COVERAGE and start.statistic.startswith(_NO_LIST):
        return FaultGroup.NO_LIST
    return FaultGroup.OTHER_LIST


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How often the alerts of one incident page who is sent them, and why the last time.

    See `count_pages`.
    """

    pages: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0
    groups: frozenset[FaultGroup] = frozenset()
    worse: str | None = None


def count_pages(starts: Sequence[Transition]) -> Paging:
    """How often these starts of one incident page, in the order in which they were sent.

    The incident pages as it begins, when its severity rises, when a fault of another group joins,
    and when the users concerned have doubled since the last page.
    """
    paging, seen = Paging(), list[Transition]()
    for _, begun in groupby(starts, key=lambda start: start.slot):
        seen += begun
        severity, users = (
            min((start.severity for start in seen), key=_LOUDEST.index),
            count_concerned(seen),
        )
        groups = frozenset(group for start in seen if (group := group_fault(start)) is not None)
        now = Paging(pages=paging.pages + 1, severity=severity, users=users, groups=groups)
        if not paging.pages:
            paging = now
        elif (worse := _why_worse(paging, now)) is not None:
            paging = replace(now, worse=worse)
    return paging


def _why_worse(before: Paging, now: Paging) -> str | None:
    """In words, why the incident is worse than at its last page."""
    if now.severity is not before.severity:
        return f"its severity rose from {before.severity} to {now.severity}"
    if now.users >= max(_GROWN * before.users, 1.0):
        return (
            f"it concerns about {now.users:,.0f} users, and about {before.users:,.0f} at the "
            "last page"
        )
    if before.groups and (new_groups := now.groups - before.groups):
        return f"another fault joined: {', '.join(new_groups)}"
    return None
