"""Rules that hold a run against what was normal before it.

Arms whose lists no longer change, from the count to the verdict.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import published
from factories import (
    DAY,
    SLOT,
    arm_score,
    comparison,
    coverage_rule,
    evaluate,
    expectation,
    rule,
    summary,
)
from monitor.alerts.verdicts import Reading, judge_reading
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, Learning, StandstillRule
from monitor.model.runs import MeasuredRun, RunStatus
from monitor.pipeline.judgement import Rejudgement
from tables import cells

DROP = {"learned": Learning.DROP, "threshold": -1.0, "resolve_at": -1.0, "for_runs": 1}
TREND = {**DROP, "learned": Learning.TREND}


learned = partial(expectation, expected=0.53, limit=0.41, z=0.2)
OK = MeasuredRun(slot=SLOT, status=RunStatus.OK)


def verdict(watched, value, expected):
    return judge_reading(watched, Reading(value, 1874, "all"), expected, OK)


LEARNING: Any = {
    "drop": rule(**DROP),
    "trend": rule(**TREND),
    "share": rule(
        **{**DROP, "statistic": "share_below(0)", "direction": Direction.ABOVE, "threshold": 1.0}
    ),
} | {
    name: coverage_rule(share, learned=Learning.DROP, threshold=1.0, resolve_at=1.0)
    for name, share in {"failed": "failed(candidate)", "shifted": "shifted_list"}.items()
}
LINES = cells("""
drop  0.254  1874  z=6.1  breach  no
mean of extended_tau is 0.254 over 1,874 users,
below 0.41, the least that is normal; 0.53 was expected after 9 healthy runs
share  0.27  1874  expected=0.07 limit=0.2 z=5  breach  no
share_below(0) of extended_tau is 0.27 over 1,874 users,
above 0.2, the most that is normal; 0.07 was expected after 9 healthy runs
failed  1  704  expected=0.001 limit=0.0614 z=9  breach  no
the candidate gave no usable answer for 704 of 704 users,
normally 0.1 %, at most 6.14 % (after 9 healthy runs)
# No value can cross the limit.
drop  -0.9  1874  limit=-1 z=1  ok  yes
mean of extended_tau is -0.9 over 1,874 users, normally 0.53;
this rule cannot judge: after 9 healthy runs no possible value is lower than normal
drop  -0.9  1874  limit=-1 z=4  too_few  no
mean of extended_tau is -0.9 over 1,874 users, normally 0.53;
this rule cannot judge: after 9 healthy runs no possible value is lower than normal
failed  0.9  30  expected=0.2 limit=1 z=4  too_few  no
the candidate gave no usable answer for 27 of 30 users (90 %), normally 20 %;
this rule cannot judge: after 9 healthy runs no possible value is higher than normal
# A trend is evidence that reached its limit, whatever this run says.
trend  0.47  1874  z=1.5 evidence=12000  breach  no
mean of extended_tau is 0.47 over 1,874 users,
after a fall over several runs (evidence is 1.2 times the limit); 0.53 was expected after 9 healthy runs
trend  0.2  1874  z=8 evidence=9900  ok  no
mean of extended_tau is 0.2 over 1,874 users, no lasting fall so far (evidence 9.9e+03, limit 1e+04);
not clearly normal, so a firing alert does not end; 0.53 was expected after 9 healthy runs
drop  0.42  1874  z=3  ok  no
mean of extended_tau is 0.42 over 1,874 users, not below 0.41, the least that is normal;
not clearly normal, so a firing alert does not end; 0.53 was expected after 9 healthy runs
# Its error is not known.
drop  0.1  1874  z=nan  no_data  no
mean of extended_tau over 1,874 users
is too uncertain to be judged
""")
READINGS = [
    (*row, f"{start} {end}")
    for row, (start,), (end,) in zip(LINES[::3], LINES[1::3], LINES[2::3], strict=True)
]
"""A rule, a value of so many users, what was expected of it; the outcome, whether it recovers, and the reason."""


@pytest.mark.parametrize("row", READINGS)
def test_a_value_is_judged_by_its_expectation_which_the_reason_shows(row):
    name, value, users, expected, outcome, recovers, reason = row
    figures: Any = {"evidence_limit": 1e4}
    for figure in expected.split():
        key, _, number = figure.partition("=")
        figures[key] = None if number == "nan" else float(number)
    reading = Reading(float(value), int(users), "all")
    found = judge_reading(LEARNING[name], reading, learned(**figures), OK)
    assert found.outcome == outcome
    assert found.reason == reason
    assert found.is_recovered == (recovers == "yes")
    assert found.users == int(users)
    assert found.value == (float(value) if outcome in ("ok", "breach") else None)


def test_the_shown_value_and_limit_are_ordered_like_the_exact_ones():
    for value, limit in ((0.4098, 0.4103), (0.410001, 0.41), (0.1, 0.1)):
        found = verdict(rule(**DROP), value, learned(limit=limit, z=6.1)).reason
        shown = [
            float(found.split(word)[1].split(end)[0])
            for word, end in ((" is ", " over"), ("below ", ","))
        ]
        assert (shown[0] < shown[1]) == (value < limit)


ENDS = """
# rule  z      fault  ends
# Half of the way back, or normal again.
drop    3.1    9.0    no
drop    3.0    9.0    yes
drop    2.1    4.1    no
drop    2.0    3.0    yes
drop    2.1    nan    no
# Rounding differs.
trend   -1.0   nan    yes
trend   3e-14  nan    yes
trend   1.5    nan    yes
trend   1.6    nan    no
# These compare with lists that get older while the alert fires.
shifted  9.0   9.0    yes
"""


def test_a_drop_ends_at_half_of_the_way_back_and_a_trend_at_a_normal_value():
    for name, z, fault, ends in cells(ENDS):
        of_fault = None if fault == "nan" else float(fault)
        figures = learned(z=float(z), fault_z=of_fault, evidence=0.6, evidence_limit=1e8)
        found = verdict(LEARNING[name], 0.41, figures)
        assert found.outcome == Outcome.OK
        assert found.is_recovered == (ends == "yes")


def test_states_and_transitions_have_the_learned_limit():
    watched = comparison(rules=(rule(**DROP, min_users=30),))
    (state,), (change,) = evaluate(
        watched, summaries=[summary(mean=0.2)], expectations=[learned(z=9.0)]
    )
    assert state.state == State.FIRING
    assert state.threshold == 0.41
    assert change.threshold == 0.41
    # Few users are enough to see that an alert has recovered.
    for z, now in ((9.0, State.FIRING), (0.2, State.QUIET)):
        few = {"summaries": [summary(n=3)], "expectations": [learned(z=z)]}
        (later,), _ = evaluate(watched, states=[state], **few)
        assert later.state == now


FROZEN_RULE = StandstillRule(alert="CandidateFrozen", arm=Arm.CANDIDATE)


def churn(baseline, candidate):
    values = ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate))
    return tuple(
        arm_score(arm=arm, metric="self_churn", value=value, n=700) for arm, value in values
    )


def play(*moves, **changes):
    """What the rule says run after run, each remembering the last one."""
    watched = comparison(rules=(replace(FROZEN_RULE, **changes),))
    rejudging = Rejudgement(comparison=watched)
    told = []
    for day, move in enumerate(moves):
        run = published.record(SLOT + day * DAY, arm_scores=churn(*move))
        change = next(iter(rejudging.judge(run)), None)
        (state,) = rejudging.states.values()
        told.append((state.outcome, state.reason, change))
    return told


UNKNOWN = (None, None)
TRAINED = (0.25, 0.25)
STILL = (0.25, 0.0)


MOVES = {
    "u": UNKNOWN,
    "t": TRAINED,
    "s": STILL,
    "0": (0.0, 0.0),
    "c": (0.0, 0.25),
    "p": (0.25, 0.024),
    "q": (0.25, 0.03),
}
FIRED = """
# A candidate that misses three trainings of the baseline, and an arm of which a tenth is trained.
utttssss        6
tt pppq*4 t     4
# Neither arm is trained; the candidate is trained some hours after the baseline.
tt 0*50         -
s0c0*20         -
# It is trained weekly, seen twice; then more than the 2 + 9 of its weeks.
tssssss*6       -
tssssss*6 s*6   47
# A standstill that was told is no rhythm.
tt s*20 tt s*4  4 26
"""
"""What the arms do day after day, and the days on which it fires."""


def test_a_standstill_fires_once_on_the_day_on_which_it_is_longer_than_usual():
    for moves, days in cells(FIRED):
        played = [
            (word.partition("*")[0] * int(word.partition("*")[2] or 1)) for word in moves.split()
        ]
        told = play(*(MOVES[letter] for letter in "".join(played)))
        fired = [
            str(day)
            for day, (*_, change) in enumerate(told)
            if change is not None and change.is_start
        ]
        assert fired == days.replace("-", "").split()


def test_a_standstill_is_reported_once_and_ends_with_the_next_change():
    start, end = (
        change for *_, change in play(TRAINED, TRAINED, *[STILL] * 5, TRAINED) if change is not None
    )
    assert start.to_state == State.FIRING
    assert end.to_state == State.QUIET
    assert start.reason == (
        "lists of the candidate have not changed while those of the baseline changed 3 times, "
        "more than the 2 that are normal; this run replaced 0 % of the candidate's items and 25 % of "
        "the baseline's"
    )
    assert start.value == 3.0
    assert start.threshold == 2.0
    assert start.users == 700


UNTOLD = """
# moves  rule      outcome  reason
ussss    usual     too_few  learning how often the lists of the candidate change: 0 of 2 changes seen
s        baseline  too_few  learning how often the lists of the baseline change: 1 of 2 changes seen
u        usual     no_data  there are no lists of an earlier run to compare with
t        of 701    too_few  only 700 users had a list in the last run too, fewer than the 701 needed
"""
RULES: Any = {
    "usual": {},
    "baseline": {"arm": Arm.BASELINE},
    "of 701": {"min_users": 701},
}


def test_a_standstill_that_cannot_be_judged_has_a_reason():
    for moves, changes, outcome, reason in cells(UNTOLD):
        assert play(*(MOVES[letter] for letter in moves), **RULES[changes])[-1] == (
            outcome,
            reason,
            None,
        )


def test_a_run_that_is_not_ok_does_not_judge_a_standstill():
    for status, outcome in (
        (RunStatus.FAILED, Outcome.ERROR),
        (RunStatus.INSUFFICIENT, Outcome.NO_DATA),
    ):
        (state,), _ = evaluate(comparison(rules=(FROZEN_RULE,)), status=status, run_reason="x")
        assert state.outcome is outcome
