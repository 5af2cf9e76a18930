"""What becomes of everything that is owed, cell by cell; and which alerts are one incident."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from factories import HOUR, MINUTE, SLOT, comparison, coverage_rule, rule, transition
from monitor.alerts.incidents import (
    GROUP_FOR,
    assign_incidents,
    count_concerned,
    count_wake_ups,
    find_leads,
)
from monitor.alerts.leading_changes import weight_of
from monitor.alerts.notification_policy import (
    Dispatch,
    Matcher,
    NotificationPolicy,
    compose_messages,
    is_silenced,
    matchable_labels,
    matches_all,
    propose_matchers,
)
from monitor.model.alerts import State
from monitor.model.errors import ConfigError
from monitor.model.notifications import Delivery, DeliveryStatus, FiringSnapshot, Treatment, Updates
from monitor.model.rankings import ALL
from monitor.model.rules import Condition, ConditionRule, RuleKind, Severity
from monitor.settings.configuration import RouteOptions
from storage.worked import fired, silence
from tables import cells, parsed

SENT = None
HELD = DeliveryStatus.HELD
DROPPED = DeliveryStatus.DROPPED
START = transition(incident="i")
ACKNOWLEDGEMENT = replace(
    START, from_state=State.FIRING, slot=SLOT + MINUTE, reason="acknowledged by anna"
)
END = replace(START, from_state=State.FIRING, to_state=State.QUIET, slot=SLOT + 2 * MINUTE)
KEY = START.dedup_key or ""
WAITS = "waits for the end of its incident, because SimilarityLow is still firing"
NEVER = "its start was never sent"
ENDED = "it ended before its start was sent"


def owed(*changes, known=False):
    return [
        Delivery(
            id=n,
            transition_id=n,
            receiver="chat",
            attempts=0,
            transition=change,
            may_be_known=known and change.is_start,
        )
        for n, change in enumerate(changes, 1)
    ]


def situation(*lasting, told=(), **more):
    keys = frozenset(start.dedup_key or "" for start in told)
    return FiringSnapshot(firing=lasting, delivered=keys, sent_starts=told, **more)


def decide(*changes, lasting=(START,), told=(), known=False, policy=None, ungrouped=False, **more):
    dispatch = Dispatch(
        snapshot=situation(*lasting, told=told, **more),
        policy=policy or NotificationPolicy(),
        receiver="chat",
        treatment=Treatment(updates=Updates.EACH if ungrouped else Updates.NONE),
        now=SLOT,
    )
    return [
        (each.unsent_status, each.reason) for each in dispatch.decide(owed(*changes, known=known))
    ]


TOLD: Any = {"told": (START,)}
OVER: Any = {"lasting": ()}
SEND = (SENT, None)
SEGMENT = replace(START, segment="country=UK", dedup_key="uk", slot=SLOT + MINUTE)

CHANGES = {
    "start": START,
    "again": replace(START, dedup_key="again", slot=SLOT + 3 * MINUTE),
    "other": replace(START, incident="j"),
    "acknowledgement": ACKNOWLEDGEMENT,
    "end": END,
    "segment": SEGMENT,
    "segment_end": replace(END, segment="country=UK", dedup_key="uk"),
}
BECOMES = {
    "sent": SEND,
    "ended": (DROPPED, ENDED),
    "never": (DROPPED, NEVER),
    "waits": (HELD, WAITS),
}
DECISIONS = """
# owed                 fires  told           becomes
start                  start  -              sent
start                  -      -              ended
start?                 start  -              sent
start end              -      -              ended never
start? end             -      -              ended sent
end                    -      start          sent
end                    -      -              never
end again              again  start          waits sent
start acknowledgement  start  -              sent sent
acknowledgement        start  start          sent
acknowledgement        start  -              never
acknowledgement        -      start          ended
segment_end            start  start segment  waits
segment_end end        -      start segment  sent sent
segment_end start      start  segment        waits sent
segment_end            start  segment        sent
segment_end            other  start segment  sent
"""
"""The receiver may know of ``start?``; where its incidents are not grouped, nothing waits."""


def test_each_delivery_is_sent_or_dropped_or_waits_for_the_end_of_its_incident():
    for owed, fires, told, becomes in cells(DECISIONS):
        changes, lasting, known = (
            [CHANGES[word.strip("?")] for word in text.split() if word != "-"]
            for text in (owed, fires, told)
        )
        for ungrouped in (False, True):
            text = becomes.replace("waits", "sent") if ungrouped else becomes
            found = decide(
                *changes,
                lasting=tuple(lasting),
                told=tuple(known),
                known="?" in owed,
                ungrouped=ungrouped,
            )
            assert found == [BECOMES[word] for word in text.split()]


SILENCE = replace(silence(SLOT, SLOT + MINUTE, "alert=SimilarityLow"), id=3, comment="known")
WINDOW = SimpleNamespace(
    name="retraining", match=(Matcher.parse("team=ranking"),), ends_at=lambda _: SLOT + MINUTE
)


def test_a_start_is_suppressed_and_the_end_of_a_start_that_was_sent_is_sent():
    for policy, silences, reason in [
        (NotificationPolicy(), (SILENCE,), "silence 3 of anna until 2024-01-08 00:01 UTC: known"),
        (
            NotificationPolicy(windows=(WINDOW,)),
            (),
            "maintenance retraining until 2024-01-08 00:01 UTC",
        ),
        (NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")})), (), "dry run"),
    ]:
        given = {"policy": policy, "silences": silences}
        assert decide(START, **given) == decide(START, ungrouped=True, **given) == [(HELD, reason)]
        assert decide(END, **OVER, **TOLD, **given) == [SEND]
        assert decide(START, END, **OVER, **given)[1] == (DROPPED, NEVER)


def test_a_silence_suppresses_only_during_its_time_and_only_if_all_matchers_match():
    for other in (
        replace(SILENCE, ends_at=SLOT),
        replace(SILENCE, starts_at=SLOT + MINUTE),
        replace(SILENCE, matchers=("alert=SimilarityLow", "segment=country=UK")),
        replace(SILENCE, matchers=("segment=~(",)),  # cannot be read
    ):
        assert decide(START, silences=(other,)) == [SEND]


PROPOSED = parsed(r"""
    [["all", "country=UK"], [], {"comparison": "other"}]
    [["country=UK"], ["segment=country=UK"], {"segment": "country=FR"}]
    [[" \"a\\b\" "], ["segment=\" \\\"a\\\\b\\\" \""], {"segment": "all"}]
    [["two\nlines"], [], {"comparison": "other"}]
""")


def test_the_proposed_silence_suppresses_its_alerts_and_no_others():
    for segments, proposed, spares in PROPOSED:
        placed = replace(SILENCE, matchers=propose_matchers("home-feed", segments, {"A.B", "C"}))
        assert placed.matchers == ('alert=~"A\\.B|C"', "comparison=home-feed", *proposed)
        joins = replace(START, alert="A.B", segment=segments[-1])
        assert is_silenced(placed, joins)
        for other in (spares, {"alert": "Stale"}):
            assert not is_silenced(placed, replace(joins, **other))


def condition(statistic):
    return transition(
        alert="NoData", metric="condition", statistic=statistic, dedup_key="condition"
    )


def test_drift_is_suppressed_while_it_cannot_be_judged_and_missing_lists_are_not():
    for statistic, held in parsed("""
        ["error", true]
        ["no_data", true]
        ["stale", true]
        ["too_few", false]
    """):
        both = START, condition(statistic)
        assert decide(START, lasting=both)[0][0] is (HELD if held else SENT)
        for trait, is_held in (("missing(candidate)", False), ("shared_list(candidate)", held)):
            coverage = replace(START, kind=RuleKind.COVERAGE, metric="coverage", statistic=trait)
            assert decide(coverage, lasting=(coverage, both[1]))[0][0] is (
                HELD if is_held else SENT
            )
        muted = NotificationPolicy(muted=frozenset({("home-feed", "NoData")}))
        sent = (
            decide(both[1], lasting=both),
            decide(START, lasting=both, ungrouped=True),
            decide(START, lasting=both, policy=muted),
        )
        assert sent == ([SEND],) * 3


def test_a_condition_of_a_segment_suppresses_only_drift_of_this_segment():
    for of, drift, status in (
        (ALL, "country=UK", HELD),
        ("country=UK", "country=UK", HELD),
        ("country=UK", ALL, SENT),
    ):
        change = replace(START, segment=drift)
        assert (
            decide(change, lasting=(change, replace(condition("no_data"), segment=of)))[0][0]
            is status
        )


def route(text, receiver):
    return RouteOptions(match=[text], receivers=[receiver])  # type: ignore[arg-type]


CRITICAL = route("severity=critical", "pager")
OURS = route("team=ranking", "chat")


def test_routes_select_the_receivers_and_every_alert_has_one():
    for routes, is_told in [
        ((), True),
        ((route("severity=critical", "chat"),), True),
        ((CRITICAL,), False),
        ((CRITICAL, OURS), False),  # the first match decides
        ((CRITICAL.model_copy(update={"goes_on": True}), OURS), True),
        ((route("severity=info", "pager"),), True),  # where none matches all are told
    ]:
        policy = NotificationPolicy(routes=routes)
        assert decide(START, policy=policy) == [
            SEND if is_told else (DROPPED, "routed to other receivers")
        ]
        assert decide(END, **OVER, **TOLD, policy=policy) == [SEND]  # who was told hears of the end


def test_each_incident_has_one_message_with_its_firing_alerts():
    other = replace(START, dedup_key="other", incident="j", alert="Other")
    first, second = compose_messages(
        [START, other], situation(START, SEGMENT, other, told=(SEGMENT,))
    )
    assert first.incident == "i"
    assert first.changes == (START,)
    assert first.firing == (START, SEGMENT)
    assert second.incident == "j"
    assert second.changes == (other,)
    assert second.firing == (other,)
    assert not second.is_update


LATER = SLOT + HOUR
GAPS: Any = {"value": 0.3, "normal": 0.5}
FRENCH = replace(START, segment="country=FR", dedup_key="fr", slot=LATER, users=100)
SHARE: Any = {"statistic": "share_below(0)", "normal": 0.02, "users": 1000}


ROSE = "its severity rose from warning to critical"
ANOTHER = replace(START, alert="B", dedup_key="b", slot=LATER)
COVERAGE = replace(
    ANOTHER, kind=RuleKind.COVERAGE, metric="coverage", statistic="missing", value=0.2
)
FRENCH_HUNDRED = replace(SEGMENT, slot=SLOT, users=100)
JOINING = {
    "start": START,
    "warning": replace(START, severity=Severity.WARNING),
    "french": FRENCH,
    "100": FRENCH_HUNDRED,
    "101": replace(FRENCH_HUNDRED, users=101),
    "100 gap": replace(FRENCH_HUNDRED, **GAPS),
    "all gap": replace(ANOTHER, alert=START.alert, users=1000, value=0.48, normal=0.5),
    "another": ANOTHER,
    "2 %": replace(START, value=0.04, **SHARE),
    "10 %": replace(START, value=0.12, **SHARE),
    "other 20 %": replace(ANOTHER, value=0.22, **SHARE),
    "missing": COVERAGE,
    "order": replace(COVERAGE, statistic="first_differs(candidate)"),
}
GROWN = "it now concerns {} times as many users as at the last notification"
JOINS = """
# told    joins       times as many users
start     french      -
warning   french      severity
# Almost as many users again.
101       french      -
100       french      2.0
10 %      other 20 %  2.0
# All users, for whom the segment stands.
100 gap   all gap     -
# A mean is seen to move after some users.
2 %       another     -
start     other 20 %  -
10 %      missing     3.7
10 %      order       -
"""


def test_what_joins_an_incident_is_an_update_unless_it_is_worse():
    for told, joins, worse in cells(JOINS):
        first = JOINING[told]
        later = JOINING[joins]
        (message,) = compose_messages([later], situation(first, later, told=(first,)))
        assert message.worse == {"-": None, "severity": ROSE}.get(worse, GROWN.format(worse))
        assert message.is_update is (worse == "-")
        assert message.wake_ups_before == 1
        assert message.wake_ups == (1 if worse == "-" else 2)
        assert message.firing == (first, later)


def test_an_incident_wakes_up_again_for_twice_the_users_for_most_users_and_for_a_severity():
    grows = tuple(
        replace(
            START,
            value=0.02 + 0.01 * 2**n,
            dedup_key=str(n),
            slot=SLOT + n * MINUTE,
            severity=Severity.WARNING,
            alert=f"A{n}",
            **SHARE,
        )
        for n in range(7)
    )
    first = replace(grows[0], severity=Severity.CRITICAL, dedup_key="first", slot=LATER)
    grown = replace(first, alert="C", value=0.12, dedup_key="grown", slot=LATER + MINUTE)
    starts = (*grows[:3], first, grown)
    few = replace(grows[0], segment="country=UK", users=20)
    assert count_wake_ups([few, *grows[:6]]).count == 2
    counted = [(grows, 6), (grows, 7), (starts, 4), (starts, 5)]
    found = [count_wake_ups(of[:count]) for of, count in counted]
    assert [(each.count, each.worse) for each in found] == [
        # 10, 20, and not 40 to 320 of 1,000 users.
        (2, GROWN.format("2.0")),
        (3, GROWN.format("32.0")),
        (3, ROSE),
        (4, GROWN.format("2.5")),
    ]
    # A receiver that was sent nothing before has nothing that became worse.
    (message,) = compose_messages(starts, situation(*starts))
    assert message.wake_ups == 4
    assert message.wake_ups_before == 0
    assert message.worse is None
    assert message.severity is Severity.CRITICAL


def test_of_changes_starts_matter_most_then_acknowledgements_then_ends():
    assert sorted([END, ACKNOWLEDGEMENT, START], key=weight_of) == [START, ACKNOWLEDGEMENT, END]


SERIES = st.sampled_from(["overlap share_below(0)", "coverage short"])
SEVERITIES = st.sampled_from([Severity.WARNING, Severity.CRITICAL])
BEGINNINGS = st.tuples(st.integers(0, 20), st.sampled_from([ALL, "a=1", "b=1"]), SERIES, SEVERITIES)


@given(st.lists(BEGINNINGS, min_size=1, max_size=12), st.integers(0, 20))
def test_a_fault_that_does_not_grow_wakes_up_at_most_twice_and_the_count_never_falls(drawn, hours):
    starts = []
    for hour, segment, series, severity in sorted(drawn):
        names = dict(zip(("metric", "statistic"), series.split(), strict=True))
        key = f"{hour} {segment} {series}"
        start = replace(
            START, alert=f"{series} {hour}", segment=segment, dedup_key=key, slot=SLOT + hour * HOUR
        )
        starts.append(replace(start, value=0.2, normal=0.0, users=50, severity=severity, **names))
    earlier = [start for start in starts if start.slot <= SLOT + hours * HOUR]
    assert count_wake_ups(earlier).count <= count_wake_ups(starts).count <= 2


def test_another_kind_of_fault_and_a_run_without_any_lists_wake_up_again():
    missing = replace(
        ANOTHER,
        kind=RuleKind.COVERAGE,
        metric="coverage",
        statistic="missing(candidate)",
        value=0.02,
        users=1000,
    )
    (message,) = compose_messages([missing], situation(START, missing, told=(START,)))
    assert message.wake_ups == 2
    assert message.worse == "another fault joined: users get no list"
    first, all_users = (
        replace(missing, segment=name, value=0.04, users=500) for name in ("country=UK", ALL)
    )
    grown = replace(missing, segment="country=FR", value=1.0, users=480, slot=LATER + MINUTE)
    assert count_concerned([first, all_users]) == 20
    assert count_concerned([first, all_users, grown]) == 500
    lasting = opened(alert="FailedLists", segment="country=NO")
    everybody, _ = begin(LATER, alert="FailedLists")
    fails = replace(condition("error"), alert="Stale", slot=LATER)
    _, (outage,) = named((replace(everybody, value=0.5, users=1000), fails), before=(lasting,))
    assert outage.incident == lasting.incident
    assert outage.users == 500
    hundred = replace(missing, slot=SLOT, users=500, value=0.2, incident=lasting.incident)
    for told, worse in [(hundred, GROWN.format("5.0")), (replace(hundred, concerned=251), None)]:
        (page,) = compose_messages([outage], situation(told, outage, told=(told,)))
        assert page.worse == worse


def test_all_users_lead_their_segments_unless_only_one_segment_fell():
    for mean_of_part, leads in [(0.1, "country=FR"), (0.42, ALL), (None, ALL)]:
        whole = replace(START, value=0.46, normal=0.5, users=1000)
        parts = [
            replace(FRENCH, value=mean_of_part, normal=0.5),
            replace(SEGMENT, value=0.45, normal=0.5, users=700),
        ]
        assert [each.segment for each in find_leads([*parts, whole])] == [leads]
        assert [each.segment for each in find_leads(parts)] == ["country=FR", "country=UK"]
        assert [each.segment for each in find_leads([*parts, replace(whole, value=None)])] == [ALL]
        ends = [
            replace(part, from_state=State.FIRING, to_state=State.QUIET) for part in (*parts, whole)
        ]
        assert [each.segment for each in find_leads(ends)] == [ALL]


CONDITIONS = (
    ConditionRule(alert="Stale", condition=Condition.STALE),
    ConditionRule(alert="NoData", condition=Condition.NO_DATA),
)
WITHOUT_LIST = (
    coverage_rule("failed(candidate)", alert="FailedLists"),
    coverage_rule("missing(candidate)"),
)


def begin(slot, severity=Severity.CRITICAL, **changes):
    state, cause = fired(slot, **changes)
    return replace(state, severity=severity), replace(cause, severity=severity)


def named(*moves, before=(), group_for=GROUP_FOR):
    states, changes = zip(*moves, strict=True)
    judging = comparison(rules=(rule(), *WITHOUT_LIST, *CONDITIONS), group_for=group_for).judging
    return assign_incidents(states, changes, before, judging)


def test_alerts_of_one_run_are_one_incident_also_when_the_run_is_judged_again():
    run = (
        begin(SLOT),
        begin(SLOT, segment="a=1"),
        begin(SLOT, segment="a=2", severity=Severity.WARNING),
    )
    states, changes = named(*run)
    (name,) = {change.incident for change in changes}
    assert {state.incident for state in states} == {name}
    assert len(name or "") == 32
    assert named(*run) == (states, changes)
    assert named(begin(SLOT + HOUR))[1][0].incident != name


def opened(slot=SLOT, *before, **changes):
    """What begins to fire then, after these."""
    (state,), _ = named(begin(slot, **changes), before=before)
    return state


CONDITION: Any = {"metric": "condition"}


def test_an_incident_is_joined_for_a_while_after_its_first_alert_but_not_for_ever():
    first = opened()
    last = opened(SLOT + 6 * GROUP_FOR, first, segment="a=1")
    assert last.incident == first.incident
    for days, joins in ((7, True), (8, False)):
        later = opened(SLOT + days * GROUP_FOR, first, last, segment="a=2")
        assert (later.incident == first.incident) is joins, days


def test_of_two_open_incidents_the_newer_is_joined_and_an_outage_joins_none_of_drift():
    old = opened()
    (new,), _ = named(begin(SLOT + HOUR, segment="a=1"), before=(old,), group_for=timedelta(0))
    joined = opened(SLOT + 2 * HOUR, old, new, segment="a=2", severity=Severity.INFO)
    stale = opened(SLOT + 2 * HOUR, old, new, alert="Stale", **CONDITION)
    drift = opened(SLOT + 3 * HOUR, old, new, stale, segment="a=3")
    assert old.incident != new.incident == joined.incident == drift.incident
    assert stale.incident not in {old.incident, new.incident}


def test_no_data_joins_drift_and_staleness_joins_no_data():
    drift = opened()
    alone = opened(alert="NoData", **CONDITION)
    assert opened(SLOT + HOUR, drift, alert="NoData", **CONDITION).incident == drift.incident
    assert opened(SLOT + HOUR, alone, alert="Stale", **CONDITION).incident == alone.incident


def test_an_outage_joins_failed_lists_and_what_began_with_it():
    for alert, since, joins in parsed("""
        ["FailedLists", 1, true]
        ["MissingLists", 1, true]
        ["SimilarityLow", 0, true]
        ["SimilarityLow", 1, false]
    """):
        first = opened(alert=alert)
        outage = opened(
            SLOT + 2 * HOUR, first, alert="Stale", since=SLOT + since * HOUR, **CONDITION
        )
        assert (outage.incident == first.incident) is joins
    drift = opened()
    missing = opened(SLOT + HOUR, drift, alert="MissingLists")
    later = SLOT + 2 * HOUR
    assert (
        opened(later, drift, missing, alert="Stale", since=later, **CONDITION).incident
        == drift.incident
    )
    stale = opened(alert="Stale", **CONDITION)
    assert opened(later, stale, alert="MissingLists", segment="a=2").incident == stale.incident
    _, together = named(
        begin(SLOT, alert="FailedLists", segment="a=1"), begin(SLOT, alert="Stale", **CONDITION)
    )
    assert len({change.incident for change in together}) == 1


def test_a_pending_alert_has_no_incident():
    pending = transition(from_state=State.QUIET, to_state=State.PENDING, dedup_key=None)
    state = replace(begin(SLOT)[0], state=State.PENDING, dedup_key=None)
    states, changes = named((state, pending))
    assert states[0].incident is None
    assert changes[0].incident is None


MATCHED = {
    "segment": "country=UK",
    "severity": "critical",
    "team": "ranking",
    "odd": 'a"b\\c',
    "bare": "a\ud800\x00\nz",
}

MATCHING = r"""
severity=critical
severity = critical
severity="critical"
segment=country=UK
segment=~country=.*
team=~rank.*|search
absent=
odd="a\"b\\c"
odd=~"a\"\w.c"
bare=~a.+z
"""
"""The last one matches what no database could store."""
NOT_MATCHING = """
severity!=critical
severity=crit
segment=~country
segment!~"country=(UK|US)"
absent!=
absent=~.+
segment=country.UK
"""
"""The whole value is compared, and `=` takes no regular expression."""


def test_a_matcher_matches_the_whole_value():
    for matches in [True, False]:
        for text in (MATCHING if matches else NOT_MATCHING).strip().splitlines():
            assert Matcher.parse(f" {text} ").matches(MATCHED) is matches, text


def test_an_invalid_matcher_is_rejected_and_the_error_shows_how_to_write_one():
    for text in ("", "=x", "1a=x", "a b=c", "x=" + "y" * 1000):
        with pytest.raises(ConfigError, match="is no matcher: write name=value"):
            Matcher.parse(text)
    # Also what could take for ever, or what nothing could store.
    for text in ("(", "a)(b", r"\Qa", "(?=a)", r"(a)\1", "a{1001}", "a\ud800"):
        with pytest.raises(ConfigError, match="is no regular expression"):
            Matcher.parse(f"a=~{text}")


def test_an_alert_is_matched_by_our_names_first_and_by_its_rule_s_labels():
    alert = transition(labels={"team": "ranking", "severity": "none"})
    assert matchable_labels(alert)["severity"] == "critical"
    assert matches_all([Matcher.parse("team=ranking"), Matcher.parse("metric=extended_tau")], alert)
    assert not matches_all([Matcher.parse("team=ranking"), Matcher.parse("severity=none")], alert)
    assert matches_all([], alert)


def test_an_expression_on_a_name_of_a_megabyte_ends_soon():
    assert not Matcher.parse("segment=~(a+)+b").matches({"segment": "a" * 1_000_000})
