"""What becomes of everything that is owed, cell by cell; and which alerts are one incident."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import HOUR, MINUTE, SLOT, comparison, rule, transition
from monitor.alerts.incidents import GROUP_FOR, assign_incidents, count_pages, find_leads
from monitor.alerts.notification_policy import Dispatch, MaintenanceWindow, Matcher, NotificationPolicy, Route, compose_messages
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.notifications import Delivery, DeliveryStatus, FiringSnapshot, Silence, Treatment, Updates
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition, ConditionRule, CoverageRule, Direction, FixedLimit, Severity
from monitor.model.statistics import CoverageShare, Lack
from storage.worked import fired

SENT, HELD, DROPPED = DeliveryStatus.PENDING, DeliveryStatus.HELD, DeliveryStatus.DROPPED
START = transition(incident="i")
ACKNOWLEDGEMENT = replace(START, from_state=State.FIRING, slot=SLOT + MINUTE, reason="acknowledged by anna")
END = replace(START, from_state=State.FIRING, to_state=State.QUIET, slot=SLOT + 2 * MINUTE)
KEY = START.dedup_key or ""
WAITS = "waits for the end of its incident, in which SimilarityLow fires"
NEVER, ENDED = "its start was never sent", "it ended before its start was sent"


def owed(*changes: Transition, known: bool = False) -> list[Delivery]:
    numbers = count(1)
    return [
        Delivery(id=n, transition_id=n, receiver="chat", attempts=0, transition=change, may_be_known=known and change.is_start)
        for n, change in zip(numbers, changes, strict=False)
    ]


def situation(*lasting: Transition, told: tuple[Transition, ...] = (), **more: Any) -> FiringSnapshot:
    keys = frozenset(start.dedup_key or "" for start in told)
    return FiringSnapshot(firing=lasting, delivered=keys, told=told, **more)


def decide(
    *changes: Transition,
    lasting: tuple[Transition, ...] = (START,),
    told: tuple[Transition, ...] = (),
    known: bool = False,
    policy: NotificationPolicy | None = None,
    silences: tuple[Silence, ...] = (),
    ungrouped: bool = False,
) -> list[tuple[DeliveryStatus, str | None]]:
    snapshot = situation(*lasting, told=told, silences=silences)
    treatment = Treatment(updates=Updates.EACH if ungrouped else Updates.NONE)
    dispatch = Dispatch(
        snapshot=snapshot, policy=policy or NotificationPolicy(), receiver="chat", treatment=treatment, now=SLOT
    )
    return [(each.status, each.reason) for each in dispatch.decide(owed(*changes, known=known))]


AGAIN = replace(START, dedup_key="again", slot=SLOT + 3 * MINUTE)
TOLD = {"told": (START,)}
OVER: dict[str, Any] = {"lasting": ()}
SEND = (SENT, None)


@pytest.mark.parametrize(
    ("changes", "known", "becomes"),
    [
        pytest.param((START,), {}, [SEND], id="start of what lasts"),
        pytest.param((START,), OVER, [(DROPPED, ENDED)], id="start of what is over"),
        pytest.param((START,), {"known": True}, [SEND], id="start of what lasts, perhaps told"),
        pytest.param((START, END), OVER, [(DROPPED, ENDED), (DROPPED, NEVER)], id="start and end never told"),
        pytest.param((START, END), {**OVER, "known": True}, [(DROPPED, ENDED), SEND], id="end whose start was perhaps told"),
        pytest.param((END,), {**OVER, **TOLD}, [SEND], id="end whose start was told"),
        pytest.param((END,), OVER, [(DROPPED, NEVER)], id="end whose start was never told"),
        pytest.param((END, AGAIN), {"lasting": (AGAIN,), **TOLD}, [(HELD, WAITS), SEND], id="end although it fires anew"),
        pytest.param((START, ACKNOWLEDGEMENT), {}, [SEND, SEND], id="acknowledgement with its start"),
        pytest.param((ACKNOWLEDGEMENT,), TOLD, [SEND], id="acknowledgement after its start"),
        pytest.param((ACKNOWLEDGEMENT,), {}, [(DROPPED, NEVER)], id="acknowledgement of what was never told"),
        pytest.param((ACKNOWLEDGEMENT,), {**OVER, **TOLD}, [(DROPPED, ENDED)], id="acknowledgement of what is over"),
    ],
)
def test_what_is_owed_is_sent_or_dropped(
    changes: tuple[Transition, ...], known: dict[str, Any], becomes: list[tuple[DeliveryStatus, str | None]]
) -> None:
    assert decide(*changes, **known) == becomes


SILENCE = Silence(
    id=3,
    matchers=("alert=SimilarityLow",),
    author="anna",
    comment="known",
    created_at=SLOT,
    starts_at=SLOT,
    ends_at=SLOT + MINUTE,
)
WINDOW = MaintenanceWindow(name="retraining", matchers=(Matcher.parse("team=ranking"),), ends_at=lambda _: SLOT + MINUTE)


@pytest.mark.parametrize(
    ("policy", "silences", "reason"),
    [
        (NotificationPolicy(), (SILENCE,), "silence 3 of anna until 2024-01-08 00:01 UTC: known"),
        (NotificationPolicy(windows=(WINDOW,)), (), "maintenance retraining until 2024-01-08 00:01 UTC"),
        (NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")})), (), "dry run"),
    ],
    ids=["silence", "maintenance", "dry run"],
)
@pytest.mark.parametrize("ungrouped", [False, True])
def test_start_is_held_and_end_of_what_was_told_is_sent_all_the_same(
    policy: NotificationPolicy, silences: tuple[Silence, ...], reason: str, *, ungrouped: bool
) -> None:
    assert decide(START, policy=policy, silences=silences, ungrouped=ungrouped) == [(HELD, reason)]
    assert decide(END, lasting=(), told=(START,), policy=policy, silences=silences) == [(SENT, None)]
    assert decide(START, END, lasting=(), policy=policy, silences=silences)[1] == (DROPPED, NEVER)


def test_silences_hold_only_in_their_time_and_what_all_their_matchers_match() -> None:
    for other in (
        replace(SILENCE, ends_at=SLOT),
        replace(SILENCE, starts_at=SLOT + MINUTE),
        replace(SILENCE, matchers=("alert=SimilarityLow", "segment=country=UK")),
        replace(SILENCE, matchers=("segment=~(",)),  # cannot be read
    ):
        assert decide(START, silences=(other,)) == [(SENT, None)]


def condition(statistic: str) -> Transition:
    return transition(alert="NoData", metric="condition", statistic=statistic, dedup_key="condition")


@pytest.mark.parametrize(
    ("statistic", "status"), [("error", HELD), ("no_data", HELD), ("stale", HELD), ("too_few", SENT)], ids=str
)
def test_drift_is_held_while_nothing_can_be_said_of_it(statistic: str, status: DeliveryStatus) -> None:
    firing = condition(statistic)
    assert decide(START, lasting=(START, firing))[0][0] is status
    assert decide(firing, lasting=(START, firing)) == [(SENT, None)]
    assert decide(START, lasting=(START, firing), ungrouped=True) == [(SENT, None)]


@pytest.mark.parametrize(("segment", "status"), [(ALL, HELD), ("country=UK", HELD), ("country=FR", SENT)], ids=str)
def test_a_condition_of_one_segment_holds_back_drift_of_that_one_only(segment: str, status: DeliveryStatus) -> None:
    drift = replace(START, segment="country=UK")
    assert [found for found, _ in decide(drift, lasting=(drift, replace(condition("no_data"), segment=segment)))] == [status]
    assert decide(START, lasting=(START, replace(condition("no_data"), segment="country=UK"))) == [(SENT, None)]


def test_a_condition_whose_rule_is_muted_holds_nothing_back() -> None:
    muted = NotificationPolicy(muted=frozenset({("home-feed", "NoData")}))
    assert decide(START, lasting=(START, condition("error")), policy=muted) == [(SENT, None)]


SEGMENT = replace(START, segment="country=UK", dedup_key="uk", slot=SLOT + MINUTE)
SEGMENT_END = replace(END, segment="country=UK", dedup_key="uk")


@pytest.mark.parametrize(
    ("changes", "lasting", "told", "becomes"),
    [
        pytest.param((SEGMENT_END,), (START,), (START, SEGMENT), [(HELD, WAITS)], id="the rest lasts"),
        pytest.param((SEGMENT_END, END), (), (START, SEGMENT), [SEND, SEND], id="all is over"),
        pytest.param((SEGMENT_END, START), (START,), (SEGMENT,), [(HELD, WAITS), SEND], id="more begins"),
        pytest.param((SEGMENT_END,), (START,), (SEGMENT,), [SEND], id="what lasts was never told"),
        pytest.param((SEGMENT_END,), (replace(START, incident="j"),), (START, SEGMENT), [SEND], id="another incident lasts"),
    ],
)
def test_an_end_waits_for_what_lasts_of_its_incident(
    changes: tuple[Transition, ...], lasting: tuple[Transition, ...], told: tuple[Transition, ...], becomes: list[Any]
) -> None:
    assert decide(*changes, lasting=lasting, told=told) == becomes
    assert decide(*changes, lasting=lasting, told=told, ungrouped=True) == [SEND] * len(changes)


def routed(*routes: tuple[str, set[str], bool]) -> NotificationPolicy:
    return NotificationPolicy(
        routes=tuple(
            Route(matchers=(Matcher.parse(text),), receivers=frozenset(names), goes_on=goes_on)
            for text, names, goes_on in routes
        )
    )


@pytest.mark.parametrize(
    ("policy", "is_told"),
    [
        (NotificationPolicy(), True),
        (routed(("severity=critical", {"chat"}, False)), True),
        (routed(("severity=critical", {"pager"}, False)), False),
        (routed(("severity=critical", {"pager"}, False), ("team=ranking", {"chat"}, False)), False),
        (routed(("severity=critical", {"pager"}, True), ("team=ranking", {"chat"}, False)), True),
        (routed(("severity=info", {"pager"}, False)), True),
    ],
    ids=["no routes", "routed here", "elsewhere", "first match decides", "first match goes on", "no match tells all"],
)
def test_routes_choose_who_is_told_and_nothing_falls_between_them(policy: NotificationPolicy, *, is_told: bool) -> None:
    assert decide(START, policy=policy) == [(SENT, None) if is_told else (DROPPED, "routed to other receivers")]
    assert decide(END, lasting=(), told=(START,), policy=policy) == [(SENT, None)]  # who was told hears of the end


def test_one_message_an_incident_with_what_fires_of_it() -> None:
    other = replace(START, dedup_key="other", incident="j", alert="Other")
    first, second = compose_messages([START, other], situation(START, SEGMENT, other, told=(SEGMENT,)))
    assert (first.incident, first.changes, first.firing) == ("i", (START,), (START, SEGMENT))
    assert (second.incident, second.changes, second.firing, second.is_update) == ("j", (other,), (other,), False)


LATER = SLOT + timedelta(hours=1)
GAPS: dict[str, Any] = {"value": 0.3, "normal": 0.5}
FRENCH = replace(START, segment="country=FR", dedup_key="fr", slot=LATER, users=100)
SHARE: dict[str, Any] = {"statistic": "share_below(0)", "normal": 0.02, "users": 1000}


@pytest.mark.parametrize(
    ("told", "joins", "worse"),
    [
        pytest.param((START,), (FRENCH,), None, id="a segment of all users"),
        pytest.param((START,), (replace(FRENCH, severity=Severity.INFO),), None, id="a lower severity"),
        pytest.param(
            (replace(START, severity=Severity.WARNING),),
            (FRENCH,),
            "its severity rose from warning to critical",
            id="a higher severity",
        ),
        pytest.param(
            (replace(FRENCH, severity=Severity.WARNING),),
            (START,),
            "its severity rose from warning to critical",
            id="a higher severity that was silenced at first",
        ),
        pytest.param((replace(SEGMENT, slot=SLOT, users=101),), (FRENCH,), None, id="almost as many users again"),
        pytest.param(
            (replace(SEGMENT, slot=SLOT, users=100),),
            (FRENCH,),
            "it concerns about 200 users, and about 100 at the last page",
            id="as many users again",
        ),
        pytest.param(
            (replace(START, value=0.12, **SHARE),),
            (replace(START, value=0.22, alert="B", dedup_key="b", slot=LATER, **SHARE),),
            "it concerns about 200 users, and about 100 at the last page",
            id="a share that doubles",
        ),
        pytest.param(
            (replace(SEGMENT, slot=SLOT, users=100, **GAPS),),
            (replace(START, dedup_key="all", slot=LATER, users=1000, value=0.48, normal=0.5),),
            None,
            id="all users, for whom the segment stands",
        ),
        pytest.param(
            (replace(START, value=0.04, **SHARE),),
            (replace(START, alert="B", dedup_key="b", slot=LATER),),
            None,
            id="a mean that is seen to move after some users",
        ),
        pytest.param(
            (START,),
            (replace(START, alert="B", value=0.32, dedup_key="b", slot=LATER, **SHARE),),
            None,
            id="many users after the mean",
        ),
        pytest.param(
            (replace(START, value=0.12, **SHARE),),
            (replace(START, alert="B", metric="coverage", statistic="missing", value=0.2, dedup_key="m", slot=LATER),),
            "it concerns about 375 users, and about 100 at the last page",
            id="lists that are lacking",
        ),
        pytest.param(
            (replace(START, value=0.12, **SHARE),),
            (replace(START, alert="B", metric="coverage", statistic="first_differs(candidate)", dedup_key="f", slot=LATER),),
            None,
            id="another first item",
        ),
    ],
)
def test_what_joins_an_incident_is_an_update_unless_it_is_worse(
    told: tuple[Transition, ...], joins: tuple[Transition, ...], worse: str | None
) -> None:
    (message,) = compose_messages(joins, situation(*told, *joins, told=told))
    assert (message.worse, message.is_update, message.pages) == (worse, worse is None, 1 if worse is None else 2)
    assert message.firing == (*told, *joins)


def test_users_that_double_day_by_day_page_once_and_after_a_pause_again_and_a_severity_always() -> None:
    grows = [replace(START, value=0.02 + 0.01 * 2**n, dedup_key=str(n), slot=SLOT + n * MINUTE, **SHARE) for n in range(6)]
    grows = [replace(each, severity=Severity.WARNING, alert=f"A{n}") for n, each in enumerate(grows)]
    last = replace(grows[-1], severity=Severity.CRITICAL, dedup_key="last", slot=LATER)
    (calm,) = compose_messages(grows[-1:], situation(*grows, told=tuple(grows[:-1])))
    (loud,) = compose_messages([last], situation(*grows, last, told=tuple(grows)))
    (late,) = compose_messages(grows[-1:], situation(*grows, told=tuple(grows[:-1])), MINUTE / 2)
    assert (late.is_update, late.worse) == (False, "it concerns about 320 users, and about 160 at the last page")
    assert (calm.is_update, calm.pages, loud.is_update, loud.pages, loud.severity) == (True, 2, False, 3, Severity.CRITICAL)


BEGINNINGS = st.builds(
    lambda hours, segment, subject, value: replace(
        START,
        alert=f"{subject} {hours}",
        segment=segment,
        dedup_key=f"{hours} {segment} {subject}",
        slot=SLOT + hours * timedelta(hours=1),
        value=value,
        normal=0.0,
        metric=subject[0],
        statistic=subject[1],
    ),
    st.integers(0, 20),
    st.sampled_from([ALL, "a=1", "a=2", "b=1"]),
    st.sampled_from([("overlap", "mean"), ("overlap", "share_below(0)"), ("coverage", "missing"), ("overlap", "p05")]),
    st.floats(0.001, 1),
)


@given(st.lists(BEGINNINGS, min_size=1, max_size=12), st.integers(0, 20))
def test_whatever_begins_within_a_day_pages_at_most_twice_and_what_was_paged_stays_so(
    starts: list[Transition], hours: int
) -> None:
    starts.sort(key=lambda start: start.slot)
    earlier = [start for start in starts if start.slot <= SLOT + hours * timedelta(hours=1)]
    assert count_pages(earlier, GROUP_FOR).pages <= count_pages(starts, GROUP_FOR).pages <= 2


@pytest.mark.parametrize(
    ("mean_of_part", "leads"),
    [(0.1, ["country=FR"]), (0.42, ["all"]), (None, ["all"])],
    ids=["alone", "with others", "unknown"],
)
def test_all_users_stand_for_their_segments_and_a_segment_for_them_where_it_alone_fell(
    mean_of_part: float | None, leads: list[str]
) -> None:
    whole = replace(START, value=0.46, normal=0.5, users=1000)
    parts = [replace(FRENCH, value=mean_of_part, normal=0.5), replace(SEGMENT, value=0.45, normal=0.5, users=700)]
    assert [each.segment for each in find_leads([*parts, whole])] == leads
    assert [each.segment for each in find_leads(parts)] == ["country=FR", "country=UK"]


def test_what_was_stored_before_there_were_incidents_is_one_of_its_own() -> None:
    old = replace(START, incident=None)
    (message,) = compose_messages([old], situation(old))
    assert (message.incident, message.firing, old.segment) == (KEY, (old,), ALL)


CONDITIONS = (
    ConditionRule(alert="Stale", condition=Condition.STALE),
    ConditionRule(alert="NoData", condition=Condition.NO_DATA),
)
LISTS_FAILED = CoverageRule(
    alert="ListsFailed",
    share=CoverageShare(Lack.FAILED, Arm.CANDIDATE),
    limit=FixedLimit(direction=Direction.ABOVE, value=0.1, resolve_at=0.1),
)


def begin(slot: datetime, **changes: object) -> tuple[AlertState, Transition]:
    severity = changes.pop("severity", Severity.CRITICAL)
    state, cause = fired(slot, **changes)
    return replace(state, severity=severity), replace(cause, severity=severity)  # type: ignore[arg-type]  # a Severity


def named(
    *moves: tuple[AlertState, Transition | None],
    before: tuple[AlertState, ...] = (),
    group_for: timedelta = GROUP_FOR,
) -> tuple[list[AlertState], list[Transition]]:
    states, changes = [state for state, _ in moves], [change for _, change in moves if change is not None]
    judging = comparison(rules=(rule(), LISTS_FAILED, *CONDITIONS), group_for=group_for).judging
    found = assign_incidents(states, changes, before, judging)
    return list(found[0]), list(found[1])


def test_what_begins_in_one_run_is_one_incident_whatever_its_severity() -> None:
    states, changes = named(begin(SLOT), begin(SLOT, segment="a=1"), begin(SLOT, segment="a=2", severity=Severity.WARNING))
    (name,) = {change.incident for change in changes}
    assert {state.incident for state in states} == {name}
    assert len(name or "") == 32


def test_the_same_run_judged_again_names_the_same_incident() -> None:
    assert named(begin(SLOT)) == named(begin(SLOT))
    assert named(begin(SLOT))[1][0].incident != named(begin(SLOT + HOUR))[1][0].incident


def test_an_incident_is_joined_for_a_while_after_its_first_alert_but_not_for_ever() -> None:
    (first,), _ = named(begin(SLOT))
    (last,), _ = named(begin(SLOT + 6 * GROUP_FOR, segment="a=1"), before=(first,))
    for days, joins in ((7, True), (8, False)):
        _, (change,) = named(begin(SLOT + days * GROUP_FOR, segment="a=2"), before=(first, last))
        assert (change.incident == first.incident == last.incident) is joins, days


def test_of_two_open_incidents_the_newer_is_joined_and_an_outage_joins_none_of_drift() -> None:
    (old,), _ = named(begin(SLOT))
    (new,), _ = named(begin(SLOT + HOUR, segment="a=1"), before=(old,), group_for=timedelta(0))
    _, (joined,) = named(begin(SLOT + 2 * HOUR, segment="a=2", severity=Severity.INFO), before=(old, new))
    (stale,), (apart,) = named(begin(SLOT + 2 * HOUR, alert="Stale", metric="condition", statistic="stale"), before=(old, new))
    _, (drift,) = named(begin(SLOT + 3 * HOUR, segment="a=3"), before=(old, new, stale))
    assert old.incident != new.incident
    assert joined.incident == drift.incident == new.incident
    assert apart.incident not in {old.incident, new.incident}


def test_that_nothing_can_be_judged_joins_drift_and_is_joined_by_that_no_run_succeeds() -> None:
    (drift,), _ = named(begin(SLOT))
    no_data, stale = ({"alert": alert, "metric": "condition"} for alert in ("NoData", "Stale"))
    _, (joined,) = named(begin(SLOT + HOUR, **no_data), before=(drift,))
    (alone,), _ = named(begin(SLOT, **no_data))
    _, (outage,) = named(begin(SLOT + HOUR, **stale), before=(alone,))
    assert (joined.incident, outage.incident) == (drift.incident, alone.incident)


@pytest.mark.parametrize(
    ("alert", "since", "joins"), [("ListsFailed", 1, True), ("SimilarityLow", 0, True), ("SimilarityLow", 1, False)]
)
def test_an_outage_joins_failed_lists_and_what_began_with_it(alert: str, since: int, joins: bool) -> None:
    (first,), _ = named(begin(SLOT, alert=alert))
    _, (outage,) = named(begin(SLOT + 2 * HOUR, alert="Stale", metric="condition", since=SLOT + since * HOUR), before=(first,))
    assert (outage.incident == first.incident) is joins


def test_what_is_pending_has_no_incident() -> None:
    pending = transition(from_state=State.QUIET, to_state=State.PENDING, dedup_key=None)
    state = replace(begin(SLOT)[0], state=State.PENDING, dedup_key=None)
    states, changes = named((state, pending))
    assert (states[0].incident, changes[0].incident) == (None, None)
