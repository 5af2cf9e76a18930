"""Arms whose lists no longer change, from the count to the verdict."""

from dataclasses import replace

import pytest

from factories import DAY, SLOT, comparison, evaluate
from monitor.alerts.conditions import count_standstills
from monitor.model.alerts import AlertState, Outcome, State, Transition
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm
from monitor.model.rules import StandstillRule
from monitor.model.runs import ArmScore, RunStatus

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


def days_fired(*moves: tuple[float | None, float | None]) -> list[int]:
    return [day for day, (_, change, _) in enumerate(play(*moves)) if change is not None and change.is_start]


TRAINED, STILL = (0.25, 0.25), (0.25, 0.0)


def test_a_candidate_that_misses_three_trainings_of_the_baseline_is_frozen() -> None:
    assert days_fired((None, None), TRAINED, TRAINED, TRAINED, STILL, STILL, STILL, STILL) == [6]


def test_it_is_told_once_and_ends_with_the_next_change() -> None:
    changes = [change for _, change, _ in play(TRAINED, TRAINED, *[STILL] * 5, TRAINED) if change is not None]

    assert [each.to_state for each in changes] == [State.FIRING, State.QUIET]
    assert changes[0].reason == (
        "lists of the candidate have not changed while those of the baseline changed 3 times, more than 2 is normal; "
        "replaced in this run: 0% of the candidate, 25% of the baseline"
    )
    assert (changes[0].value, changes[0].threshold, changes[0].users) == (3.0, 2.0, 700)


def test_an_arm_of_which_a_tenth_is_trained_fires_once() -> None:
    assert days_fired(TRAINED, TRAINED, *[*[(0.25, 0.024)] * 3, (0.25, 0.03)] * 4, TRAINED) == [4]


def test_where_neither_arm_is_trained_nothing_is_missed() -> None:
    assert days_fired(TRAINED, TRAINED, *[(0.0, 0.0)] * 50) == []


def test_arms_that_are_trained_at_different_hours_are_not_frozen() -> None:
    a_day = [(0.25, 0.0), (0.0, 0.0), (0.0, 0.25), (0.0, 0.0)]  # the candidate some hours after the baseline

    assert days_fired(*a_day * 20) == []


def test_a_candidate_trained_weekly_is_normal_once_it_has_been_seen_twice() -> None:
    week = [TRAINED, *[STILL] * 6]

    assert days_fired(*week * 6) == []
    assert days_fired(*week * 6, *[STILL] * 6) == [6 * 7 + 5 - 1 + 1]  # 6 of the last week, and then more than 2 + 9


def test_until_its_rhythm_is_known_the_rule_says_that_it_is_learning() -> None:
    outcome, change, reason = play((None, None), STILL, STILL, STILL, STILL)[-1]

    assert (outcome, change) == (Outcome.TOO_FEW, None)
    assert reason == "learning how often the lists of the candidate change: 0 of 2 changes seen"


def test_a_standstill_that_was_told_does_not_become_normal() -> None:
    frozen_twice = (TRAINED, TRAINED, *[STILL] * 20, TRAINED, TRAINED, *[STILL] * 4)

    assert days_fired(*frozen_twice) == [4, 26]


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
