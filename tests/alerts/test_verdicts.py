from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import rule, summary
from monitor.alerts.verdicts import judge_reading, read_similarity
from monitor.model.alerts import Outcome, Verdict
from monitor.model.rules import Direction, SimilarityRule
from monitor.model.runs import RunStatus, Summary


def judge_similarity(
    watched: SimilarityRule, segment: str, status: RunStatus, found: Summary | None, reason: str | None
) -> Verdict:
    return judge_reading(watched, read_similarity(watched, segment, status, found, reason), None)


LOW = {"metric": "rbo(p=0.9)", "threshold": 0.6, "resolve_at": 0.65}


def verdict(mean: float | None, *, segment: str = "all", n: int = 1874, **changes: Any) -> Any:
    watched = rule(**{**LOW, **changes})
    return judge_similarity(watched, segment, RunStatus.OK, summary(metric="rbo(p=0.9)", mean=mean, n=n, segment=segment), None)


@pytest.mark.parametrize(
    ("mean", "outcome", "is_recovered", "said"),
    [
        (0.512, Outcome.BREACH, False, "0.512 over 1,874 users, below 0.6"),
        (0.59999, Outcome.BREACH, False, "0.59999 over 1,874 users, below 0.6"),
        (0.6, Outcome.OK, False, "0.6 over 1,874 users, not below 0.6 but still below 0.65, where it resolves"),
        (0.65, Outcome.OK, True, "0.65 over 1,874 users, not below 0.65"),
    ],
)
def test_a_rule_below_breaches_under_its_threshold_and_recovers_at_resolve_at(
    mean: float, outcome: Outcome, is_recovered: bool, said: str
) -> None:
    found = verdict(mean)
    assert (found.outcome, found.is_recovered, found.value, found.users) == (outcome, is_recovered, mean, 1874)
    assert found.reason == f"mean of rbo(p=0.9) is {said}"
    assert " over 1 user of country=UK, " in verdict(mean, segment="country=UK", n=1).reason


def test_a_rule_above_breaches_on_the_other_side() -> None:
    share = {"statistic": "share_below(0)", "direction": Direction.ABOVE, "threshold": 0.1, "resolve_at": 0.08}
    found = judge_similarity(rule(**share), "all", RunStatus.OK, summary(), None)
    assert found.outcome is Outcome.BREACH
    assert found.reason == "share_below(0) of extended_tau is 0.11 over 1,874 users, above 0.1"
    within = judge_similarity(rule(**share), "all", RunStatus.OK, summary(statistics={"share_below(0)": 0.09}), None)
    assert (within.outcome, within.is_recovered) == (Outcome.OK, False)
    healed = judge_similarity(rule(**share), "all", RunStatus.OK, summary(statistics={"share_below(0)": 0.08}), None)
    assert (healed.outcome, healed.is_recovered) == (Outcome.OK, True)


@given(value=st.floats(-1, 1), threshold=st.floats(-1, 1))
def test_the_shown_figure_never_contradicts_the_verdict(value: float, threshold: float) -> None:
    found = verdict(value, threshold=threshold, resolve_at=threshold)
    shown = float(found.reason.split(" is ")[1].split(" over ")[0])
    assert (shown < threshold) == (found.outcome is Outcome.BREACH)


@pytest.mark.parametrize(
    ("status", "reason", "outcome", "said"),
    [
        (RunStatus.FAILED, "candidate is down", Outcome.ERROR, "candidate is down"),
        (RunStatus.FAILED, None, Outcome.ERROR, "the run failed"),
        (RunStatus.ABANDONED, None, Outcome.ERROR, "the run was abandoned before its end"),
        (RunStatus.RUNNING, None, Outcome.ERROR, "the run has not ended"),
        (RunStatus.INSUFFICIENT, "3 of 9", Outcome.NO_DATA, "3 of 9"),
    ],
)
def test_a_run_that_is_not_ok_never_speaks_of_similarity(
    status: RunStatus, reason: str | None, outcome: Outcome, said: str
) -> None:
    found = judge_similarity(rule(), "all", status, summary(mean=0.9), reason)
    assert (found.outcome, found.reason, found.value, found.users) == (outcome, said, None, 0)


def test_a_segment_without_a_summary_or_without_users_is_no_data() -> None:
    for absent in (None, summary(n=0, mean=None, statistics={})):
        found = judge_similarity(rule(), "country=UK", RunStatus.OK, absent, None)
        assert (found.outcome, found.reason) == (Outcome.NO_DATA, "no user of country=UK has a value of extended_tau")


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_statistic_without_a_finite_value_is_no_data(value: float | None) -> None:
    found = verdict(value)
    assert (found.outcome, found.value, found.users) == (Outcome.NO_DATA, None, 1874)
    assert found.reason == "mean of rbo(p=0.9) has no value over 1,874 users"


def test_fewer_than_min_users_are_too_few_and_exactly_so_many_are_enough() -> None:
    few = verdict(0.1, n=49, min_users=50)
    assert (few.outcome, few.value, few.users) == (Outcome.TOO_FEW, None, 49)
    assert few.reason == "49 users with a value of rbo(p=0.9), fewer than the 50 needed"
    assert verdict(0.1, n=50, min_users=50).outcome is Outcome.BREACH
