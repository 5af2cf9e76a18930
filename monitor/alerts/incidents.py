"""Decides which alerts report one fault, how many users they affect, and when to wake people.

docs/explanation/delivery.md explains the rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, groupby
from operator import attrgetter

from monitor.alerts.state_machine import stable_key
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.errors import ConfigError
from monitor.model.explanation import FaultKind, Finding
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.rules import Condition, JudgingPlan, RuleKind, Severity, frozen_arms
from monitor.model.statistics import ABOUT_ORDER, NO_LIST, CoverageShare, ListTrait
from monitor.model.urgency import URGENT_SHARE
from monitor.texts.deliveries import write_joined, write_more_severe, write_more_users

GROUP_FOR = timedelta(days=1)
"""The default of `group_for`. Alerts can join an incident for `MOST_PERIODS` times as long."""
MOST_PERIODS = 7
"""Alerts join an incident until this many times `group_for` have passed since it began."""

_CARRIED = 0.2
"""A segment explains a change of all users if the other users hardly changed.

Their change must be at most this share of the segment's change.
"""
_GROWN = 2.0
"""An incident has grown if its alerts count this many times the users of the last wake-up."""
_MOST_SEVERE_FIRST = tuple(Severity)


class Symptom(StrEnum):
    """What an alert reports. The first two symptoms are different faults."""

    NO_LIST = "users get no list"
    OTHER_LIST = "users get another list"
    CONDITION = "drift cannot be judged"
    OUTAGE = "no run succeeds"


# The alerts that start in one run are assigned in these groups, one after the other. Alerts of a
# later group can join the incident of an earlier group.
_ASSIGNED_TOGETHER = (
    (Symptom.OTHER_LIST, Symptom.CONDITION),
    (Symptom.NO_LIST,),
    (Symptom.OUTAGE,),
)


def find_symptom(kind: RuleKind, statistic: str) -> Symptom:
    """Find the symptom that rules and alerts of this kind report about this statistic."""
    if kind is RuleKind.CONDITION:
        is_outage = statistic in (Condition.ERROR, Condition.STALE)
        return Symptom.OUTAGE if is_outage else Symptom.CONDITION
    if kind is RuleKind.COVERAGE and statistic.startswith((*NO_LIST, ListTrait.NOT_SERVED)):
        return Symptom.NO_LIST
    return Symptom.OTHER_LIST


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Sequence[AlertState],
    judging: JudgingPlan,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Add the incident to each state and transition of one run.

    ``before`` has the comparison's stored states.

    Alerts that start join the newest open incident. An incident is open if the oldest of its firing
    alerts began at most `MOST_PERIODS` times ``group_for`` ago. If no incident is open, the alerts
    that start begin a new incident together. Alerts that still fire stay in their incident.

    Alerts on an outage (no run succeeds) join only two kinds of incident:

    - incidents with alerts on users without a list,
    - incidents in which each alert reports a condition, or did not begin before the outage.

    Alerts on users without a list may join an incident with an outage. Other alerts on drift may
    not. If a condition concerns all users, its number of users is the number of users without a
    list.
    """
    symptoms = {
        rule.alert: find_symptom(rule.kind, str(rule.subject.statistic)) for rule in judging.rules
    }
    transitions = _count_users_of_conditions(transitions, states, before, symptoms)
    firing_before = [state for state in before if state.state is State.FIRING]
    incidents = _find_incidents(states, transitions, firing_before, symptoms, judging.group_for)
    acknowledged_by = {state.dedup_key: state.acknowledged_by for state in firing_before}
    new_states = [
        replace(
            state,
            incident=incidents.get(state.dedup_key),
            acknowledged_by=acknowledged_by.get(state.dedup_key),
        )
        for state in states
    ]
    new_transitions = [
        replace(change, incident=incidents.get(change.dedup_key)) for change in transitions
    ]
    return tuple(new_states), tuple(new_transitions)


def _find_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    firing_before: Sequence[AlertState],
    symptoms: Mapping[str, Symptom],
    group_for: timedelta,
) -> dict[str | None, str | None]:
    """Find the incident of each alert that starts or still fires, by dedup key."""
    incidents: dict[str | None, str | None] = {}
    alerts_of: dict[str | None, list[AlertState]] = defaultdict(list)
    for state in firing_before:
        incidents[state.dedup_key] = state.incident
        alerts_of[state.incident].append(state)
    for group in _ASSIGNED_TOGETHER:
        starts = [
            change for change in transitions if change.is_start and symptoms[change.alert] in group
        ]
        if not starts:
            continue
        joinable: list[AlertState] = []
        for alerts in alerts_of.values():
            if _may_join(starts, alerts, symptoms):
                joinable += alerts
        slot = starts[0].slot
        incident = _find_open(joinable, slot, group_for)
        incident = incident or stable_key(slot, str(starts[0].dedup_key))
        new_keys = {start.dedup_key for start in starts}
        incidents |= dict.fromkeys(new_keys, incident)
        alerts_of[incident] += [
            replace(state, incident=incident) for state in states if state.dedup_key in new_keys
        ]
    return incidents


def _may_join(
    starts: Sequence[Transition],
    alerts: Sequence[AlertState],
    symptoms: Mapping[str, Symptom],
) -> bool:
    """Return whether these starting alerts may join an incident with these ``alerts``."""
    symptom = symptoms[starts[0].alert]
    # The symptom is None if the rule of a firing alert was removed.
    of_incident = {symptoms.get(state.alert) for state in alerts}
    if symptom is not Symptom.OUTAGE:
        return symptom is Symptom.NO_LIST or Symptom.OUTAGE not in of_incident
    since = min(start.since for start in starts)
    return Symptom.NO_LIST in of_incident or all(
        symptoms.get(state.alert) in (Symptom.CONDITION, Symptom.OUTAGE) or state.since >= since
        for state in alerts
    )


def _count_users_of_conditions(
    transitions: Sequence[Transition],
    states: Sequence[AlertState],
    before: Sequence[AlertState],
    symptoms: Mapping[str, Symptom],
) -> tuple[Transition, ...]:
    """Set the number of users of each starting alert on a condition of all users.

    It is the number of users without a list. If that is not known, it is the number of all users.
    """
    newest = {state.alert: state for state in (*before, *states) if state.segment == ALL}
    user_counts = []
    for state in states:
        is_count = state.segment == ALL and symptoms.get(state.alert) is Symptom.NO_LIST
        if is_count and state.value is not None:
            user_counts.append(round(state.value * state.users))
    if not user_counts:
        user_counts = [state.users for state in newest.values()]
    users = max(user_counts, default=0)
    counted = []
    for change in transitions:
        if _is_blind(change) and change.segment == ALL and change.is_start:
            change = replace(change, users=users)  # noqa: PLW2901
        counted.append(change)
    return tuple(counted)


def _is_blind(change: Transition) -> bool:
    """Return whether the alert reports a condition under which drift cannot be judged."""
    return change.kind is RuleKind.CONDITION and change.statistic != Condition.TOO_FEW


def _find_open(firing: Collection[AlertState], slot: datetime, group_for: timedelta) -> str | None:
    """Find the incident of ``firing`` that the new alerts of this slot join.

    None if none is open.
    """
    starts: dict[str, list[datetime]] = defaultdict(list)
    for state in firing:
        if state.incident:
            starts[state.incident].append(state.since)
    open_incidents = []
    for incident, began in starts.items():
        if slot - min(began) <= MOST_PERIODS * group_for:
            open_incidents.append((max(began), incident))
    if not open_incidents:
        return None
    # Several incidents may be firing, because an incident can last longer than alerts may join it.
    # The one that an alert joined last is used.
    _, newest = max(open_incidents)
    return newest


def find_leads(changes: Iterable[Transition]) -> tuple[Transition, ...]:
    """Select the changes that represent all of these changes, in their order.

    If an alert changes on all users, only this change is selected. Its changes on segments are left
    out. But if one segment explains the start on all users, only this segment's start is selected.
    At an end the values are normal, so they do not show which segment was the cause. If the alert
    does not change on all users, its changes on all segments are selected. Starts,
    acknowledgements and ends are treated separately.
    """
    by_alert: dict[tuple[object, ...], list[Transition]] = defaultdict(list)
    for change in changes:
        was = State.QUIET if change.is_start else change.from_state
        by_alert[change.alert, was, change.to_state, change.is_new_normal].append(change)
    return tuple(chain.from_iterable(map(_leads_of, by_alert.values())))


def reports_fault(change: Transition, finding: Finding) -> bool:
    """Return whether the alert counts the users with this fault, in an arm that has the fault.

    The runbook of such an alert is about the fault. That of a drop only lists usual faults.
    """
    if change.kind is RuleKind.STANDSTILL:
        arms = frozen_arms(change.statistic)
        is_of_arms = bool(arms) and set(arms) <= set(finding.arms)
        return finding.kind is FaultKind.UNCHANGED and is_of_arms
    if change.kind is not RuleKind.COVERAGE:
        return False
    try:
        share = CoverageShare.parse(change.statistic)
    except ConfigError:
        return False  # another version stored the alert
    is_of_arm = share.arm is None or share.arm in finding.arms
    return is_of_arm and share.trait in finding.kind.facts.traits


def _leads_of(changes: Sequence[Transition]) -> Sequence[Transition]:
    """Select the changes that represent these changes of one alert. See `find_leads`."""
    of_all_users = [change for change in changes if change.segment == ALL]
    if not of_all_users:
        return changes
    # The alert may have ended and begun again. Then its newest change is used.
    everybody = of_all_users[-1]
    if everybody.is_end:
        return [everybody]
    segments = [change for change in changes if _explains(change, everybody)]
    return [min(segments, key=attrgetter("users"), default=everybody)]


def _explains(segment: Transition, everybody: Transition) -> bool:
    """Return whether the value of all users changed because of this segment alone."""
    if segment.value is None or segment.normal is None:
        return False
    if everybody.value is None or everybody.normal is None:
        return False
    others = everybody.users - segment.users
    is_mean = segment.statistic == "mean" or _is_share(segment)  # a share is a mean of 0 and 1
    if others <= 0 or not is_mean:
        return False
    gap = segment.value - segment.normal
    gap_of_all = everybody.value - everybody.normal
    change_of_others = abs(gap_of_all * everybody.users - gap * segment.users)
    return gap != 0 and change_of_others <= _CARRIED * abs(gap) * others


def _is_share(change: Transition) -> bool:
    return change.kind is RuleKind.COVERAGE or change.statistic.startswith("share_")


def count_concerned(starts: Iterable[Transition]) -> float:
    """Count the users that these firing alerts affect.

    Each alert on a share of users counts users, but not if it is about the order of items. An
    alert's counts on segments of one dimension are added. The largest count is returned. If no
    alert counts users, all users of the alerts are counted. So an alert that counts users and
    starts later is not taken for growth.
    """
    starts = tuple(starts)
    counts: list[tuple[Transition, float]] = []
    for start in starts:
        users = _count_users(start)
        if users is not None:
            counts.append((start, users))
    if not counts:
        counts = [(start, float(start.users)) for start in find_leads(starts)]
    # In messages an alert on all users represents the alerts on its segments. Here the users of the
    # segments are counted too.
    concerned: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for start, users in counts:
        segments = concerned[start.alert, start.segment.partition("=")[0]]
        segments[start.segment] = max(segments.get(start.segment, 0.0), users)
    return max((sum(segments.values()) for segments in concerned.values()), default=0.0)


def _count_users(start: Transition) -> float | None:
    """Number of users that the alert concerns. None if the alert counts no users."""
    if _is_blind(start):
        return float(start.users)
    if not _is_share(start) or start.value is None or start.statistic.startswith(ABOUT_ORDER):
        return None
    return start.users * abs(start.value - (start.normal or 0.0))


_FAULTS = frozenset({Symptom.NO_LIST, Symptom.OTHER_LIST})


@immutable
class WakeUps:
    """How often one incident has woken people up, and why. See `count_wake_ups`."""

    count: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0  # counted by the alerts
    concerned: float = 0.0  # by the alerts or by the fault, whichever is more
    # Whether it concerns at least half of the users of its largest alert
    concerns_most: bool = False
    faults: frozenset[Symptom] = frozenset()
    worse: str | None = None
    has_grown: bool = False  # whether only growth caused the last one


def count_wake_ups(starts: Sequence[Transition]) -> WakeUps:
    """Count how often one incident wakes people up. ``starts`` are in the order of sending.

    The incident wakes people up in each of these cases:

    - it begins,
    - its severity rises,
    - another fault joins,
    - the alerts count twice as many users as were concerned the last time.

    The fault of the run may concern more users than the alerts count. Messages name the larger
    number, so growth is measured from it.

    If users lose their lists slowly, the number of users doubles many times. So after
    people were woken up for growth, growth wakes them again only if most users are concerned.
    """
    last = WakeUps()
    seen: list[Transition] = []
    for _, of_slot in groupby(starts, key=attrgetter("slot")):
        seen += of_slot
        users = count_concerned(seen)
        now = WakeUps(
            count=last.count + 1,
            severity=min((start.severity for start in seen), key=_MOST_SEVERE_FIRST.index),
            users=users,
            concerned=max([users, *(start.concerned or 0 for start in seen)]),
            concerns_most=users >= URGENT_SHARE * max(start.users for start in seen),
            faults=_FAULTS & {find_symptom(start.kind, start.statistic) for start in seen},
        )
        worse = _why_worse(last, now)
        if not last.count:
            last = now
        elif worse is not None:
            is_same_fault = now.severity is last.severity and now.faults == last.faults
            last = replace(now, worse=worse, has_grown=is_same_fault)
    return last


def _why_worse(before: WakeUps, now: WakeUps) -> str | None:
    """Why the incident is worse than when it woke people up last. None if it is not worse."""
    if now.severity is not before.severity:
        return write_more_severe(before.severity, now.severity)
    joined = now.faults - before.faults if before.faults else frozenset()
    may_wake = not before.has_grown or now.concerns_most or joined
    if may_wake and now.users >= max(_GROWN * before.concerned, 1.0):
        return write_more_users(before.concerned, now.users)
    if joined:
        return write_joined(joined)
    return None
