from datetime import timedelta

import factories
from factories import SLOT, comparison, rule, transition
from monitor.alerts.machine import retire_alerts
from monitor.model.alerts import AlertState, State
from monitor.model.rules import Severity

NOW = SLOT + timedelta(days=3)


def state(**changes: object) -> AlertState:
    return factories.state(**{"state": State.FIRING, "dedup_key": "key", **changes})


def test_what_a_rule_still_watches_is_kept() -> None:
    assert retire_alerts([state()], [], [comparison()], at=NOW) == ()


def test_a_firing_whose_rule_is_gone_ends_under_the_key_and_labels_it_began_with() -> None:
    begun = transition(dedup_key="key", metric="rbo(p=0.9)", labels={"team": "x"})

    (end,) = retire_alerts([state()], [begun], [comparison(rules=())], at=NOW)

    assert (end.from_state, end.to_state, end.is_announced, end.dedup_key) == (State.FIRING, State.QUIET, True, "key")
    assert (end.metric, end.labels, end.severity) == ("rbo(p=0.9)", {"team": "x"}, Severity.CRITICAL)
    assert (end.slot, end.at, end.since, end.value) == (NOW, NOW, SLOT, None)
    assert end.reason == "rule removed from the configuration"


def test_the_last_cause_counts() -> None:
    causes = [transition(metric="overlap"), transition(segment="country=UK", metric="jaccard"), transition(metric="rbo(p=0.9)")]
    (end,) = retire_alerts([state()], causes, [], at=NOW)
    assert end.metric == "rbo(p=0.9)"


def test_a_removed_comparison_ends_all_its_alarms_in_order_and_a_pending_one_unannounced() -> None:
    states = [
        state(),
        state(segment="country=UK", state=State.PENDING, dedup_key=None),
        state(segment="x=y", state=State.QUIET),
    ]
    ends = retire_alerts(states, [], [comparison(name="other")], at=NOW)
    assert [(end.segment, end.from_state, end.is_announced) for end in ends] == [
        ("all", State.FIRING, True),
        ("country=UK", State.PENDING, False),
    ]
    assert {end.reason for end in ends} == {"comparison removed from the configuration"}


def test_a_segment_absent_today_is_kept_under_each() -> None:
    each = comparison(rules=(rule(segments="each"),))
    assert retire_alerts([state(segment="country=UK")], [], [each], at=NOW) == ()


def test_a_segment_that_the_rule_no_longer_names_is_ended() -> None:
    states = [state(segment="country=UK"), state(segment="country=DE"), state()]
    named = comparison(rules=(rule(segments=("country=DE",)),))
    assert [end.segment for end in retire_alerts(states, [], [named], at=NOW)] == ["country=UK", "all"]
    (end, _) = retire_alerts(states, [], [comparison()], at=NOW)
    assert (end.segment, end.reason) == ("country=UK", "segment removed from the rule in the configuration")
