from dataclasses import replace

import numpy as np
import pytest

from factories import coverage_row, expectation, measured_run, rule, summary
from monitor.alerts.verdicts import apply_bounds, bound_statistic, judge_reading, read_similarity
from monitor.measures.summaries import summarize_one
from monitor.model.alerts import Outcome, Verdict
from monitor.model.rules import Direction, Learning
from monitor.model.runs import RunStatus
from monitor.model.statistics import Statistic
from tables import cells


def judge_similarity(watched, found, status=RunStatus.OK, *, segment="all", reason=None):
    run = measured_run(status=status, run_reason=reason)
    return judge_reading(watched, read_similarity(watched, segment, run, found), None, run)


LOW = {"metric": "rbo(p=0.9)", "threshold": 0.6, "resolve_at": 0.65}


RULES = {
    "low": rule(**LOW),
    "low of 50": rule(**LOW, min_users=50),
    "high": rule(
        statistic="share_below(0)", direction=Direction.ABOVE, threshold=0.1, resolve_at=0.08
    ),
}
VERDICTS = """
# rule     value    users  outcome  ends  reason
low        0.512    1874   breach   no    is 0.512 over 1,874 users, below 0.6
low        0.59999  1874   breach   no    is 0.59999 over 1,874 users, below 0.6
low        0.6      1874   ok       no    is 0.6 over 1,874 users, not below 0.6 but still below 0.65, where the alert resolves
low        0.65     1       ok      yes   is 0.65 over 1 user, not below 0.65
low of 50  0.1      50     breach   no    is 0.1 over 50 users, below 0.6
low of 50  0.1      49     too_few  no    rbo(p=0.9) has a value for only 49 users, fewer than the 50 needed
low        None     1874   no_data  no    has no value over 1,874 users
low        nan      1874   no_data  no    has no value over 1,874 users
low        inf      1874   no_data  no    has no value over 1,874 users
low        None     0      no_data  no    no user has a value of rbo(p=0.9)
high       0.11     1874   breach   no    is 0.11 over 1,874 users, above 0.1
high       0.09     1874   ok       no    is 0.09 over 1,874 users, not above 0.1 but still above 0.08, where the alert resolves
high       0.08     1874   ok       yes   is 0.08 over 1,874 users, not above 0.08
"""


@pytest.mark.parametrize("row", cells(VERDICTS))
def test_a_value_of_so_many_users_is_judged_on_its_side_of_both_limits(row):
    name, text, users, outcome, recovers, reason = row
    value = None if text == "None" else float(text)
    watched = RULES[name]
    n = int(users)
    found = judge_similarity(
        watched,
        summary(metric=watched.metric, mean=value, n=n, statistics={"share_below(0)": value or 0}),
    )
    assert found.outcome == outcome
    assert found.is_recovered == (recovers == "yes")
    assert found.users == n
    assert found.value == (value if outcome in ("ok", "breach") else None)
    assert found.reason.removeprefix(f"{watched.statistic} of {watched.metric} ") == reason


def test_a_segment_without_a_value_is_named():
    said = "no user of country=UK has a value of extended_tau"
    assert judge_similarity(rule(), None, segment="country=UK").reason == said


NOT_OK = """
failed        candidate is down  error    candidate is down
failed        -                  error    the run failed
abandoned     -                  error    the run was abandoned before its end
running       -                  error    the run has not ended
insufficient  3 of 9             no_data  3 of 9
"""


def test_a_run_that_is_not_ok_does_not_judge_similarity():
    for status, reason, outcome, said in cells(NOT_OK):
        found = judge_similarity(
            rule(), summary(mean=0.9), RunStatus(status), reason=None if reason == "-" else reason
        )
        assert found.outcome == outcome
        assert found.reason == said
        assert found.value is None
        assert found.users == 0


SCORES = {"score_range": (-1.0, 1.0)}


OK = Verdict(outcome=Outcome.OK, reason="said", value=0.4, users=90, is_recovered=True)


def bounded(watched, missing, verdict=OK, expected=None, mean=0.4):
    """What becomes of a verdict on 90 users where so many more were asked."""
    row = coverage_row(90 + missing, 90)
    return apply_bounds(watched, verdict, summary(n=90, mean=mean), row, expected)


def test_a_share_has_the_bounds_of_none_and_all_of_the_missing_users():
    share = rule(statistic="share_below(0)", direction=Direction.ABOVE, **SCORES)

    low, high = bound_statistic(share, summary(n=90, statistics={"share_below(0)": 0.1}), 10) or (
        0,
        0,
    )
    assert [low, high] == pytest.approx([0.09, 0.19])


def test_a_percentile_has_the_bounds_of_its_place_among_all_users():
    """Of 100 known scores 0.00 to 0.99 and 25 others, the median of all is the 37.5th or the 62.5th known percentile."""
    values = np.arange(100) / 100
    known = summarize_one(
        "all", "overlap", values, (0.0, 1.0), [Statistic(quantile=q / 100) for q in range(1, 100)]
    )

    at = [float(np.quantile(values, level)) for level in (0.375, 0.625, 0.0625)]
    low, high = bound_statistic(rule(statistic="p50", score_range=(0.0, 1.0)), known, 25) or (0, 0)
    assert [low, high] == pytest.approx(at[:2], abs=0.01)
    low, high = bound_statistic(rule(statistic="p05", score_range=(0.0, 1.0)), known, 25) or (0, 0)
    assert [low, high] == pytest.approx([0.0, at[2]], abs=0.01)


def test_without_stored_percentiles_the_bounds_are_the_ends_of_the_range():
    known = summary(n=100, statistics={"p50": 0.5})
    assert bound_statistic(rule(statistic="p50", score_range=(0.0, 1.0)), known, 50) == (0.25, 0.75)


def test_a_bound_at_the_limit_is_not_beyond_it():
    """Of 180 users 90 have a mean of 0.5: all have one from 0.25 to 0.75."""
    for direction, is_open, is_decided in (
        (Direction.BELOW, 0.75, 0.25),
        (Direction.ABOVE, 0.25, 0.75),
    ):
        rules = [
            rule(direction=direction, threshold=limit, score_range=(0.0, 1.0))
            for limit in (is_open, is_decided)
        ]
        assert [bounded(each, 90, mean=0.5).outcome for each in rules] == [
            Outcome.NO_DATA,
            Outcome.OK,
        ]


TURNED = """
# missing  judged   becomes
0          ok       ok
# At worst 0.370, and 0.340.
2          ok       ok
4          ok       no_data
4          breach   no_data
1          no_data  no_data
50         too_few  too_few
"""


def test_a_decision_that_missing_users_could_change_is_no_decision():
    for missing, judged, becomes in cells(TURNED):
        found = bounded(
            rule(**SCORES),
            int(missing),
            replace(OK, outcome=Outcome(judged), is_recovered=judged == "ok"),
        )
        assert found.outcome.value == becomes
        assert found.is_recovered == (becomes == "ok")
        assert found.value == 0.4


def test_the_reason_names_the_number_of_missing_users_and_their_bounds():
    assert bounded(rule(**SCORES), 10).reason == (
        "cannot be decided: 10 users without a score could change the value to anything "
        "from 0.26 to 0.46; over the users with a score, said"
    )


def test_scores_without_a_range_have_no_bounds():
    for scores in (None, (0.0, float("inf"))):
        assert bounded(rule(score_range=scores), 100) == OK


def test_a_learning_rule_counts_only_the_missing_users_beyond_the_usual_share():
    for lost, usual, expected in [
        (0.1, 0.1, Outcome.OK),
        (0.1, 0.09, Outcome.OK),
        (0.1, 0.02, Outcome.NO_DATA),
        (0.02, 0.1, Outcome.OK),
    ]:
        learned = expectation(limit=0.36, z=0.1, lost=lost, usual_lost=usual)
        assert (
            bounded(rule(learned=Learning.DROP, **SCORES), 10, expected=learned).outcome is expected
        )
