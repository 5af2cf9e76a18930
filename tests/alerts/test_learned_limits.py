"""Rules that hold a run against what was normal before it."""

from typing import Any

import pytest

from factories import comparison, evaluate, rule, summary
from monitor.alerts.verdicts import Reading, judge_reading, undecided
from monitor.model.alerts import Expectation, Outcome, State, Verdict
from monitor.model.rules import Direction, Learning, SimilarityRule

DROP = {"learned": Learning.DROP, "threshold": -1.0, "resolve_at": -1.0, "for_runs": 1}
TREND = {**DROP, "learned": Learning.TREND}


def expectation(**changes: Any) -> Expectation:
    base: dict[str, Any] = {"alert": "SimilarityLow", "segment": "all", "runs": 9, "expected": 0.53, "limit": 0.41, "z": 0.2}
    return Expectation(**{**base, **changes})


def verdict(watched: SimilarityRule, value: float, expected: Expectation | None) -> Verdict:
    return judge_reading(watched, Reading(value, 1874, "all"), expected)


def test_a_run_beyond_its_limit_is_a_drop_told_with_what_was_expected() -> None:
    found = verdict(rule(**DROP), 0.254, expectation(z=6.1))

    assert (found.outcome, found.value, found.users, found.is_recovered) == (Outcome.BREACH, 0.254, 1874, False)
    assert found.reason == (
        "mean of extended_tau is 0.254 over 1,874 users, below 0.41, the least that is normal; "
        "0.53 was expected after 9 healthy runs"
    )


@pytest.mark.parametrize(("value", "limit"), [(0.4098, 0.4103), (0.410001, 0.41), (0.1, 0.1)])
def test_value_and_limit_are_shown_on_their_sides_of_each_other(value: float, limit: float) -> None:
    found = verdict(rule(**DROP), value, expectation(limit=limit, z=6.1)).reason
    shown = [float(found.split(word)[1].split(end)[0]) for word, end in ((" is ", " over"), ("below ", ","))]
    assert (shown[0] < shown[1]) == (value < limit)


def test_on_the_other_side_the_limit_is_the_most_that_is_normal() -> None:
    share = rule(**{**DROP, "statistic": "share_below(0)", "direction": Direction.ABOVE, "threshold": 1.0, "resolve_at": 1.0})
    found = verdict(share, 0.27, expectation(expected=0.07, limit=0.2, z=5.0))

    assert found.outcome is Outcome.BREACH
    assert found.reason.startswith(
        "share_below(0) of extended_tau is 0.27 over 1,874 users, above 0.2, the most that is normal;"
    )


@pytest.mark.parametrize(
    ("value", "z", "recovered"), [(0.41, 3.5, False), (0.45, 2.1, False), (0.5, 2.0, True), (0.6, -1.0, True)]
)
def test_a_drop_ends_once_the_value_is_normal_again_and_not_at_its_limit(value: float, z: float, recovered: bool) -> None:
    found = verdict(rule(**DROP), value, expectation(z=z))

    assert (found.outcome, found.is_recovered) == (Outcome.OK, recovered)


@pytest.mark.parametrize(("z", "recovered"), [(-1.0, True), (3e-14, True), (1.0, True), (1.1, False)])
def test_a_trend_ends_once_the_value_is_normal_again_though_rounding_differs(z: float, recovered: bool) -> None:
    assert verdict(rule(**TREND), 0.53, expectation(z=z, evidence=0.6, evidence_limit=1e8)).is_recovered is recovered


def test_at_a_new_level_the_message_says_since_when_and_what_to_do() -> None:
    level = "new normal since 2024-01-08T00:00:00Z: accept it (rankwatch accept feed --from 2024-01-08T00:00:00Z) or roll back"
    found = verdict(rule(**TREND), 0.53, expectation(z=1.9, evidence=0.6, evidence_limit=1e8, note=level))
    assert found.is_recovered
    assert found.reason.endswith(f"0.53 was expected after 9 healthy runs; {level}")


def test_a_trend_is_evidence_that_reached_its_limit_whatever_this_run_says() -> None:
    strong = verdict(rule(**TREND), 0.47, expectation(z=1.5, evidence=12_000.0, evidence_limit=10_000.0))
    weak = verdict(rule(**TREND), 0.2, expectation(z=8.0, evidence=9_999.0, evidence_limit=10_000.0))

    assert strong.outcome is Outcome.BREACH
    assert strong.reason == (
        "mean of extended_tau is 0.47 over 1,874 users, with the runs before it a lasting fall "
        "(evidence 1.2e+04, limit 1e+04); 0.53 was expected after 9 healthy runs"
    )
    assert (weak.outcome, weak.is_recovered) == (Outcome.OK, False)


@pytest.mark.parametrize("known", [None, Expectation(alert="SimilarityLow", segment="all", runs=3)])
def test_while_it_learns_a_rule_says_so_and_never_breaches(known: Expectation | None) -> None:
    found = verdict(rule(**DROP), -1.0, known)

    runs = 0 if known is None else 3
    assert (found.outcome, found.value) == (Outcome.TOO_FEW, None)
    assert found.reason == f"learning what is normal: {runs} of 5 healthy runs"


def test_a_value_without_a_sampling_error_is_not_judged() -> None:
    found = verdict(rule(**DROP), 0.1, expectation(z=None))

    assert (found.outcome, found.reason) == (
        Outcome.NO_DATA,
        "mean of extended_tau over 1,874 users is too uncertain to be judged",
    )


def test_where_the_run_says_nothing_neither_does_the_rule() -> None:
    plain = undecided(Outcome.ERROR, "candidate is down")

    assert judge_reading(rule(**DROP), plain, expectation()) is plain


def test_states_and_transitions_carry_the_limit_that_was_learned() -> None:
    watched = comparison(rules=(rule(**DROP),))
    states, transitions = evaluate(watched, summaries=[summary(mean=0.2)], expectations=[expectation(z=9.0)])

    assert (states[0].state, states[0].threshold) == (State.FIRING, 0.41)
    assert (transitions[0].threshold, transitions[0].value) == (0.41, 0.2)
