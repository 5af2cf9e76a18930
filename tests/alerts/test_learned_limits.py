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
    HOUR,
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


FROZEN_RULES = {
    alert: StandstillRule(alert=alert, arm=arm)
    for alert, arm in {"candidate": Arm.CANDIDATE, "baseline": Arm.BASELINE, "both": None}.items()
}
MOVES = {
    move: churn
    for move, *churn in cells("""
t  0.25  0.25
s  0.25  0
0  0     0
c  0     0.25
p  0.25  0.024
q  0.25  0.03
n  0.0199  0.0199
m  0     0.02
w  0.012  0.012
x  0     0
""")
}
"""The share of items that each arm replaced. In other runs there are no lists to compare with."""
STATUSES = {"f": RunStatus.FAILED, "i": RunStatus.INSUFFICIENT}


def play(moves, *rules, every=DAY):
    """Runs one after another, and the number and the change of each alert that changes.

    In the run `x`, only the first rule is configured.
    """
    holidays = ((SLOT + 40 * DAY, SLOT + 43 * DAY),)
    rejudging = Rejudgement(comparison=comparison())
    changes = []
    for number, move in enumerate(moves):
        judged = rules[:1] if move == "x" else rules
        rejudging.comparison = comparison(rules=judged, holidays=holidays)
        scores = [
            arm_score(arm=arm, metric="self_churn", value=float(value), n=700)
            for arm, value in zip(Arm, MOVES.get(move, ()), strict=False)
        ]
        status = STATUSES.get(move, RunStatus.OK)
        run = published.record(SLOT + number * every, status=status, arm_scores=scores)
        changes += [(number, change) for change in rejudging.judge(run)]
    return rejudging, changes


FIRED = """
# A candidate that misses three trainings of the baseline, and an arm of which a tenth is trained.
utttssss        24  0 0 7 None   candidate 6
tt pppq*4 t     24  0 0 19 2     candidate 4, end 18
# The candidate is trained some hours after the baseline.
s0c0*20         24  1 1 40 4     -
# It is trained weekly, seen twice; then more than the 2 + 9 of its weeks.
tssssss*6       24  0 0 42 2     -
tssssss*6 s*6   24  0 0 48 2     candidate 47
# A standstill that fired is not learned.
tt s*20 tt s*4  24  0 0 28 2     candidate 4, end 22, candidate 26
u t*9 000 t     24  0 0 10 2     both 12, end 13
# Neither arm is trained. This is judged after eight days.
tt 0*50         24  47 0 2 2     both 8
# Two runs without a training are normal, and then five are.
t*9 00 t 0*5    24  5 2 10 5     -
t*9 00 t 0*6 c  24  0 2 11 5     both 17, end 18
# Weekends without trainings, and hourly runs with a daily training.
ttttt00*2 ttttt 0*6             24  6 2 15 5    both 24
t00000000000000000000000*9 0*15  1   38 23 9 37  both 230
# One arm changes, and then it stays the same.
t*9 00s00c00 s*5  24  0 2 16 5   candidate 21
# Runs fail, have no lists of an earlier run, or have no such rule.
t*9 00ff0       24  3 0 9 2      both 13
t*9 00uu0       24  3 0 9 2      both 13
t*9 00x000      24  3 0 0 None   -
# At least 2 % of the items is a change.
t*9 nnnm        24  0 0 10 2     both 11, end 12
# Arms that always change a little do not stand still.
m*9 w*9 000     24  3 0 9 2      both 20
# The days 40 to 42 are a holiday.
t*39 0*6        24  3 0 39 2     both 44
t*37 0*4 t      24  0 0 38 2     both 39, end 41
"""
"""What the arms do run after run, and the hours between two runs.

Then what the rule on both arms counted in the end: runs without a change, the longest standstill, changes and the limit. Then
the numbers of the runs in which an alert fires or ends.
"""


def test_a_standstill_fires_once_when_it_is_longer_than_usual_and_ends_with_the_next_change():
    for moves, hours, counts, events in cells(FIRED):
        words = [word.partition("*") for word in moves.split()]
        runs = "".join(word * int(times or 1) for word, _, times in words)
        rejudging, changes = play(runs, *FROZEN_RULES.values(), every=int(hours) * HOUR)
        last = rejudging.past["0" * 64][-1].standstills["both"]
        assert f"{last.missed} {last.longest} {last.changes} {last.limit}" == counts
        told = [
            f"{change.alert if change.is_start else 'end'} {number}" for number, change in changes
        ]
        assert ", ".join(told) == events.replace("-", "")


STARTS = """
tttttssss  candidate  lists of the candidate have not changed while those of the baseline changed 3 times, more than \
the 2 that are normal; this run replaced 0 % of the candidate's items and 25 % of the baseline's
ttttttttnnn  both  neither arm's lists have changed in 3 runs, more than the 2 that are normal; this run replaced 2 % of \
the baseline's items and 2 % of the candidate's
"""


def test_the_reason_of_a_standstill_names_its_length_and_its_limit():
    for moves, alert, reason in cells(STARTS):
        _, ((_, start),) = play(moves, *FROZEN_RULES.values())
        assert (start.alert, start.reason) == (alert, reason)
        assert (start.value, start.threshold, start.users) == (3.0, 2.0, 700)


UNTOLD = """
# moves  rule     users  outcome  reason
ussss    candidate  700  too_few  learning how often the lists of the candidate change: 0 of 2 changes seen
s        baseline   700  too_few  learning how often the lists of the baseline change: 1 of 2 changes seen
s        both       700  too_few  learning how often the lists change: 1 of 2 changes seen
0cs00    both       700  too_few  learning how often the lists change: 3 of 8 days seen
u        both       700  no_data  there are no lists of an earlier run to compare with
t        both       701  too_few  only 700 users had a list in the last run too, fewer than the 701 needed
f        both       700  error    the run failed
i        candidate  700  no_data  too few users of the panel could be compared
"""


def test_a_standstill_that_cannot_be_judged_has_a_reason():
    for moves, alert, users, *wanted in cells(UNTOLD):
        judged = replace(FROZEN_RULES[alert], min_users=int(users))
        rejudging, started = play(moves, judged)
        (state,) = rejudging.states.values()
        assert [state.outcome, state.reason, started] == [*wanted, []]
