"""Incidents: which firings are one fault, how many users they concern, how often they page.

In words: README.md beside.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from monitor.alerts.machine import stable_key
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.comparison import JudgingPlan
from monitor.model.rankings import ALL
from monitor.model.rules import Condition, ConditionRule, CoverageRule, RuleKind, Severity
from monitor.model.statistics import Lack

GROUP_FOR = timedelta(days=1)
"""How long an incident that became worse once pages for nothing but severity, unless configured otherwise."""
MOST_PERIODS = 7
"""An incident accepts no firing later than so many times `GROUP_FOR` after its beginning."""

_CARRIED = 0.2
"""A segment carries a change alone if that of the other users is at most this share of its own, per user."""
_GROWN = 2.0
_OF_ORDER = (Lack.REVERSED, Lack.FIRST_DIFFERS)
_LOUDEST = tuple(Severity)


def assign_incidents(
    states: Sequence[AlertState],
    transitions: Sequence[Transition],
    before: Iterable[AlertState],
    judging: JudgingPlan,
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states and transitions of one run with their incidents.

    ``before`` are the comparison's states as stored.

    What begins to fire joins the newest open incident, if the first of its firings that last began
    at most `MOST_PERIODS` times ``group_for`` before, else makes a new one together. That no run
    succeeds is a fault of its own: it joins nothing but conditions, lists that fail and what began
    since, and drift does not join it. What lasts stays in its incident."""
    lasting = {state.dedup_key: state for state in before if state.state is State.FIRING}
    conditions = {
        rule.alert: rule.condition for rule in judging.rules if isinstance(rule, ConditionRule)
    }
    outages = {
        alert
        for alert, condition in conditions.items()
        if condition in (Condition.ERROR, Condition.STALE)
    }
    failing = {
        rule.alert
        for rule in judging.rules
        if isinstance(rule, CoverageRule) and rule.share.lack is Lack.FAILED
    }
    of_outages = conditions.keys() | failing
    members: dict[str | None, list[AlertState]] = defaultdict(list)
    for state in lasting.values():
        members[state.incident].append(state)
    incidents = {key: state.incident for key, state in lasting.items()}
    for is_outage in (False, True):
        starts = [
            change
            for change in transitions
            if change.is_start and (change.alert in outages) is is_outage
        ]
        if starts:
            begun = min(start.since for start in starts)
            open_ones = (
                of_it
                for of_it in members.values()
                if all(
                    state.alert in of_outages or state.since >= begun
                    if is_outage
                    else state.alert not in outages
                    for state in of_it
                )
            )
            firing = [state for of_it in open_ones for state in of_it]
            name = _find_open(firing, starts[0].slot, judging.group_for) or stable_key(
                starts[0].slot, str(starts[0].dedup_key)
            )
            incidents |= {start.dedup_key: name for start in starts}
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
    whole = next((change for change in changes if change.segment == ALL), None)
    if whole is None:
        return changes
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
    users: dict[tuple[bool, str, str], dict[str, float]] = defaultdict(dict)
    for start in find_leads(starts):
        is_counted = (
            _is_share(start)
            and start.value is not None
            and not start.statistic.startswith(_OF_ORDER)
        )
        share = abs((start.value or 0.0) - (start.normal or 0.0)) if is_counted else 1.0
        of_it = users[is_counted, start.alert, start.segment.partition("=")[0]]
        of_it[start.segment] = max(of_it.get(start.segment, 0.0), start.users * share)
    return max(
        ((counts, sum(of_it.values())) for (counts, *_), of_it in users.items()),
        default=(False, 0.0),
    )[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How often the alerts of one incident page who is sent them, and why the last time.

    See `count_pages`.
    """

    pages: int = 0
    severity: Severity = Severity.INFO
    users: float = 0.0
    worse: str | None = None


def count_pages(starts: Sequence[Transition], group_for: timedelta) -> Paging:
    """How often these starts of one incident page: as it begins, whenever its severity rises, and once as its users double.

    In the order in which they were sent. Double is against the last page; once is enough for what grows day by day, but what
    doubles after nothing has joined for longer than ``group_for`` pages again.
    """
    paging, last, seen = Paging(), None, list[Transition]()
    for slot, begun in groupby(starts, key=lambda start: start.slot):
        seen += begun
        severity, users = (
            min((start.severity for start in seen), key=_LOUDEST.index),
            count_concerned(seen),
        )
        worse, is_late = None, last is not None and slot - last > group_for
        if severity is not paging.severity:
            worse = f"its severity rose from {paging.severity} to {severity}"
        elif users >= max(_GROWN * paging.users, 1.0) and (paging.pages == 1 or is_late):
            worse = (
                f"it concerns about {users:,.0f} users, and about {paging.users:,.0f} at the "
                "last page"
            )
        if worse or not paging.pages:
            paging = Paging(
                pages=paging.pages + 1,
                severity=severity,
                users=users,
                worse=worse if paging.pages else None,
            )
        last = slot
    return paging
