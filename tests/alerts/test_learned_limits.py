"""Rules that hold a run against what was normal before it; arms whose lists no longer change, from the count to the verdict."""

from dataclasses import replace
from typing import Any

import pytest

from factories import DAY, SLOT, comparison, coverage_rule, evaluate, rule, summary
from monitor.alerts.conditions import count_standstills
from monitor.alerts.verdicts import Reading, judge_reading
from monitor.model.alerts import AlertState, Expectation, Outcome, State, Transition, Verdict
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, Learning, SimilarityRule, StandstillRule
from monitor.model.runs import ArmScore, RunStatus

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


def test_a_share_of_users_is_told_with_what_is_normal() -> None:
    watched = coverage_rule("failed(candidate)", learned=Learning.DROP, threshold=1.0, resolve_at=1.0)
    found = judge_reading(watched, Reading(1.0, 704, "all"), expectation(expected=0.001, limit=0.0614, z=9.0)).reason
    said = "the candidate gave no usable answer for 704 of 704 users, normally 0.1 %, at most 6.14 % (after 9 healthy runs)"
    assert found == said


@pytest.mark.parametrize(
    ("z", "fault", "recovered"), [(3.1, 9.0, False), (3.0, 9.0, True), (2.1, 4.1, False), (2.0, 3.0, True), (2.1, None, False)]
)
def test_a_drop_ends_once_the_value_is_normal_again_or_half_of_the_way_back(z: float, fault: float, recovered: bool) -> None:
    found = verdict(rule(**DROP), 0.45, expectation(z=z, fault=fault))

    assert (found.outcome, found.is_recovered) == (Outcome.OK, recovered)


@pytest.mark.parametrize(("z", "recovered"), [(-1.0, True), (3e-14, True), (1.5, True), (1.6, False)])
def test_a_trend_ends_once_the_value_is_normal_again_though_rounding_differs(z: float, recovered: bool) -> None:
    assert verdict(rule(**TREND), 0.53, expectation(z=z, evidence=0.6, evidence_limit=1e8)).is_recovered is recovered


def test_a_trend_is_evidence_that_reached_its_limit_whatever_this_run_says() -> None:
    strong = verdict(rule(**TREND), 0.47, expectation(z=1.5, evidence=12_000.0, evidence_limit=10_000.0))
    weak = verdict(rule(**TREND), 0.2, expectation(z=8.0, evidence=9_999.0, evidence_limit=10_000.0))

    assert strong.outcome is Outcome.BREACH
    assert strong.reason == (
        "mean of extended_tau is 0.47 over 1,874 users, with the runs before it a lasting fall "
        "(evidence 1.2e+04, limit 1e+04); 0.53 was expected after 9 healthy runs"
    )
    assert (weak.outcome, weak.is_recovered) == (Outcome.OK, False)


def test_a_value_without_a_sampling_error_is_not_judged() -> None:
    found = verdict(rule(**DROP), 0.1, expectation(z=None))

    assert (found.outcome, found.reason) == (
        Outcome.NO_DATA,
        "mean of extended_tau over 1,874 users is too uncertain to be judged",
    )


def test_states_and_transitions_carry_the_limit_that_was_learned() -> None:
    watched = comparison(rules=(rule(**DROP),))
    states, transitions = evaluate(watched, summaries=[summary(mean=0.2)], expectations=[expectation(z=9.0)])

    assert (states[0].state, states[0].threshold) == (State.FIRING, 0.41)
    assert (transitions[0].threshold, transitions[0].value) == (0.41, 0.2)


FROZEN_RULE = StandstillRule(alert="CandidateFrozen", arm=Arm.CANDIDATE)
WATCHED = comparison(rules=(FROZEN_RULE,))


def churn(baseline: float | None, candidate: float | None, n: int = 700) -> tuple[ArmScore, ...]:
    values = ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate))
    return tuple(ArmScore(segment="all", arm=arm, metric="self_churn", value=value, n=n) for arm, value in values)


def play(*moves: tuple[float | None, float | None]) -> list[tuple[Outcome, Transition | None, str]]:
    """What the rule says run after run, each remembering the last one."""
    told: list[tuple[Outcome, Transition | None, str]] = []
    states: tuple[AlertState, ...] = ()
    past: list[PastRun] = []
    for day, (baseline, candidate) in enumerate(moves):
        scores, slot = churn(baseline, candidate), SLOT + day * DAY
        seen = count_standstills(WATCHED, scores, past)
        states, changes = evaluate(WATCHED, slot=slot, states=states, standstills=seen, arm_scores=scores)
        loud = {(each.alert, each.segment): each.state for each in states if each.state is not State.QUIET}
        past.append(PastRun(slot=slot, states=loud, standstills={each.alert: each for each in seen}))
        told.append((states[0].outcome, changes[0] if changes else None, states[0].reason))
    return told


TRAINED, STILL = (0.25, 0.25), (0.25, 0.0)


WEEK: list[tuple[float | None, float | None]] = [TRAINED, *[STILL] * 6]
HOURS: list[tuple[float | None, float | None]] = [(0.25, 0.0), (0.0, 0.0), (0.0, 0.25), (0.0, 0.0)]
FIRED: dict[str, tuple[list[tuple[float | None, float | None]], list[int]]] = {
    "a candidate that misses three trainings of the baseline": ([(None, None), *[TRAINED] * 3, *[STILL] * 4], [6]),
    "an arm of which a tenth is trained": ([TRAINED, TRAINED, *[*[(0.25, 0.024)] * 3, (0.25, 0.03)] * 4, TRAINED], [4]),
    "neither arm is trained": ([TRAINED, TRAINED, *[(0.0, 0.0)] * 50], []),
    "a candidate trained some hours after the baseline": (HOURS * 20, []),
    "a candidate trained weekly, seen twice": (WEEK * 6, []),
    "then more than the 2 + 9 of its weeks": ([*WEEK * 6, *[STILL] * 6], [6 * 7 + 5]),
    "a standstill that was told is no rhythm": ([TRAINED, TRAINED, *[STILL] * 20, TRAINED, TRAINED, *[STILL] * 4], [4, 26]),
}


@pytest.mark.parametrize("case", FIRED)
def test_a_standstill_fires_once_on_the_day_on_which_it_is_longer_than_usual(case: str) -> None:
    moves, days = FIRED[case]
    assert [day for day, (_, change, _) in enumerate(play(*moves)) if change is not None and change.is_start] == days


def test_it_is_told_once_and_ends_with_the_next_change() -> None:
    changes = [change for _, change, _ in play(TRAINED, TRAINED, *[STILL] * 5, TRAINED) if change is not None]

    assert [each.to_state for each in changes] == [State.FIRING, State.QUIET]
    assert changes[0].reason == (
        "lists of the candidate have not changed while those of the baseline changed 3 times, more than 2 is normal; "
        "replaced in this run: 0% of the candidate, 25% of the baseline"
    )
    assert (changes[0].value, changes[0].threshold, changes[0].users) == (3.0, 2.0, 700)


def test_until_its_rhythm_is_known_the_rule_says_that_it_is_learning() -> None:
    outcome, change, reason = play((None, None), STILL, STILL, STILL, STILL)[-1]

    assert (outcome, change) == (Outcome.TOO_FEW, None)
    assert reason == "learning how often the lists of the candidate change: 0 of 2 changes seen"


def test_without_lists_of_the_last_run_there_is_nothing_to_say() -> None:
    outcome, _, reason = play((None, None))[0]

    assert (outcome, reason) == (Outcome.NO_DATA, "there are no lists of an earlier run to compare with")


def test_few_users_with_earlier_lists_do_not_speak() -> None:
    seen = count_standstills(WATCHED, churn(0.2, 0.2), ())
    told = replace(FROZEN_RULE, min_users=701)

    (state,), _ = evaluate(comparison(rules=(told,)), standstills=seen, arm_scores=churn(0.2, 0.2))

    assert state.reason == "only 700 users had a list in the last run too, fewer than the 701 needed"


@pytest.mark.parametrize(("status", "outcome"), [(RunStatus.FAILED, Outcome.ERROR), (RunStatus.INSUFFICIENT, Outcome.NO_DATA)])
def test_a_run_that_is_not_ok_says_nothing_of_it(status: RunStatus, outcome: Outcome) -> None:
    (state,), _ = evaluate(WATCHED, status=status, run_reason="x")

    assert state.outcome is outcome


def test_a_baseline_can_be_watched_likewise() -> None:
    watched = comparison(rules=(replace(FROZEN_RULE, arm=Arm.BASELINE),))
    (seen,) = count_standstills(watched, churn(0.0, 0.3), ())

    assert (seen.missed, seen.changes, seen.limit) == (1, 0, None)
