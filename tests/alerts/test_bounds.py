"""What users without a score could make of a value."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import rule, summary
from monitor.alerts.verdicts import apply_bounds, bound_statistic
from monitor.model.alerts import Expectation, Outcome, Verdict
from monitor.model.rankings import CoverageRow
from monitor.model.rules import Direction, Learning
from monitor.model.statistics import Statistic
from monitor.summaries import summarize_one

SCORES = {"scores": (-1.0, 1.0)}


def told(outcome: Outcome = Outcome.OK) -> Verdict:
    return Verdict(outcome=outcome, reason="said", value=0.4, users=90, is_recovered=outcome is Outcome.OK)


def row(asked: int, paired: int) -> CoverageRow:
    return CoverageRow(segment="all", asked=asked, paired=paired, reasons={})


def test_a_share_is_bounded_by_nobody_and_everybody() -> None:
    share = rule(statistic="share_below(0)", direction=Direction.ABOVE, **SCORES)

    low, high = bound_statistic(share, summary(n=90, statistics={"share_below(0)": 0.1}), 10) or (0, 0)
    assert [low, high] == pytest.approx([0.09, 0.19])


def test_a_percentile_moves_to_where_it_stands_among_all() -> None:
    """Of 100 known scores 0.00 to 0.99 and 25 others, the median of all is the 37.5th or the 62.5th known percentile."""
    values = np.arange(100) / 100
    known = summarize_one("all", "overlap", values, (0.0, 1.0), [Statistic(quantile=q / 100) for q in range(1, 100)])

    at = [float(np.quantile(values, level)) for level in (0.375, 0.625, 0.0625)]
    low, high = bound_statistic(rule(statistic="p50", scores=(0.0, 1.0)), known, 25) or (0, 0)
    assert [low, high] == pytest.approx(at[:2], abs=0.01)
    low, high = bound_statistic(rule(statistic="p05", scores=(0.0, 1.0)), known, 25) or (0, 0)
    assert [low, high] == pytest.approx([0.0, at[2]], abs=0.01)


def test_beyond_the_stored_percentiles_the_scores_reach_to_the_ends_of_their_range() -> None:
    known = summary(n=100, statistics={"p50": 0.5})
    assert bound_statistic(rule(statistic="p50", scores=(0.0, 1.0)), known, 50) == (0.25, 0.75)


@pytest.mark.parametrize(("direction", "open_at", "decided_at"), [(Direction.BELOW, 0.75, 0.25), (Direction.ABOVE, 0.25, 0.75)])
def test_a_bound_at_the_limit_is_not_beyond_it(direction: Direction, open_at: float, decided_at: float) -> None:
    rules = [rule(direction=direction, threshold=limit, scores=(0.0, 1.0)) for limit in (open_at, decided_at)]

    found = [apply_bounds(watched, told(), summary(n=50, mean=0.5), row(100, 50), None) for watched in rules]

    assert [each.outcome for each in found] == [Outcome.NO_DATA, Outcome.OK]


@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=60),
    others=st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    statistic=st.sampled_from(["mean", "share_below(0)", "share_below(-0.5)"]),
)
def test_whatever_the_missing_scores_are_the_value_lies_within(
    values: list[float], others: list[float], statistic: str
) -> None:
    wanted = [Statistic.parse(statistic)] if statistic != "mean" else []
    part, whole = (
        summarize_one("all", "extended_tau", np.array(each), (-1.0, 1.0), wanted) for each in (values, [*values, *others])
    )

    low, high = bound_statistic(rule(statistic=statistic, **SCORES), part, len(others)) or (0, 0)
    value = whole.value(statistic)
    assert value is not None
    assert low - 1e-12 <= value <= high + 1e-12


@pytest.mark.parametrize(
    ("missing", "outcome", "expected"),
    [
        (0, Outcome.OK, Outcome.OK),
        (2, Outcome.OK, Outcome.OK),  # at worst 0.370
        (4, Outcome.OK, Outcome.NO_DATA),  # at worst 0.340
        (4, Outcome.BREACH, Outcome.NO_DATA),
        (1, Outcome.NO_DATA, Outcome.NO_DATA),
        (50, Outcome.TOO_FEW, Outcome.TOO_FEW),
    ],
)
def test_a_decision_that_the_missing_could_turn_is_none(missing: int, outcome: Outcome, expected: Outcome) -> None:
    found = apply_bounds(rule(**SCORES), told(outcome), summary(n=90, mean=0.4), row(90 + missing, 90), None)

    assert found.outcome is expected
    assert (found.is_recovered, found.value) == (expected is Outcome.OK, 0.4)


def test_it_is_told_how_many_are_missing_and_what_they_could_do() -> None:
    found = apply_bounds(rule(**SCORES), told(), summary(n=90, mean=0.4), row(100, 90), None)

    assert found.reason == (
        "cannot be decided: 10 users without a score could make it anything from 0.26 to 0.46; of those who have one, said"
    )


def test_scores_without_a_range_bound_nothing() -> None:
    for scores in (None, (0.0, float("inf"))):
        assert apply_bounds(rule(scores=scores), told(), summary(n=90, mean=0.4), row(190, 90), None) == told()


def learned(**changes: Any) -> Expectation:
    return Expectation(alert="SimilarityLow", segment="all", runs=9, expected=0.5, limit=0.36, z=0.1, **changes)


@pytest.mark.parametrize(
    ("lost", "usual", "expected"),
    [(0.1, 0.1, Outcome.OK), (0.1, 0.09, Outcome.OK), (0.1, 0.02, Outcome.NO_DATA), (0.02, 0.1, Outcome.OK)],
)
def test_a_rule_that_learns_counts_those_who_are_more_than_usual(lost: float, usual: float, expected: Outcome) -> None:
    drop = rule(learned=Learning.DROP, **SCORES)

    found = apply_bounds(drop, told(), summary(n=90, mean=0.4), row(100, 90), learned(lost=lost, usual_lost=usual))
    assert found.outcome is expected
