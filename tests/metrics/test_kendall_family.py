"""What the Kendall and footrule metrics declare beside what the registry checks: chance, bounds, parameters."""

import math
from collections.abc import Sequence

import pytest

from metrics import known_pairs
from monitor.errors import MetricError
from monitor.metrics import Metric, expected_by_chance
from monitor.metrics.footrule import Footrule, TopkFootrule
from monitor.metrics.kendall import (
    AppendedTau,
    ElementWeightedTau,
    KendallDistance,
    KendallTau,
    PositionWeightedKendallDistance,
    TopkKendall,
    TopkKendallNormalized,
)


def test_chance_has_nothing_to_say_of_a_metric_that_is_undefined_for_lists_so_short() -> None:
    assert expected_by_chance(KendallTau(), 1, 5) is None
    assert expected_by_chance(Footrule(depth=1), 5, 5) is None
    assert AppendedTau().expected_by_chance(1, 1) is None
    assert AppendedTau().expected_by_chance(1, 2) == -1.0


def test_chance_of_long_lists_from_a_large_catalogue_is_exact() -> None:
    # 1,000 of a million items share one item on average: P(z >= 2) is 1 - 2 / e.
    assert expected_by_chance(KendallDistance(), 1000, 1_000_000) == pytest.approx(0.25 / (1 - 2 / math.e), rel=2e-3)


def test_chance_is_not_worked_out_where_the_formula_would_cost_too_much() -> None:
    assert expected_by_chance(PositionWeightedKendallDistance(), 5000, 6000) is None
    assert expected_by_chance(ElementWeightedTau(), 5, 10) is None


@pytest.mark.parametrize("kind", [TopkKendall, TopkKendallNormalized])
@pytest.mark.parametrize("penalty", [-0.1, 1.1, math.nan, math.inf])
def test_a_penalty_out_of_range_is_refused(kind: type[TopkKendall], penalty: float) -> None:
    with pytest.raises(MetricError, match="between 0 and 1"):
        kind(penalty=penalty)


TEN = list(range(10))


@pytest.mark.parametrize(
    ("metric", "most", "farthest"),
    [
        (KendallDistance(), 45, TEN[::-1]),
        (TopkKendall(penalty=0.0), 100, range(10, 20)),
        (TopkKendall(penalty=0.5), 145, range(10, 20)),
        (Footrule(), 50, TEN[::-1]),
        (TopkFootrule(), 110, range(10, 20)),
        (PositionWeightedKendallDistance(), 45, None),
    ],
    ids=str,
)
def test_bounds_of_top_tens_are_told_and_reached(metric: Metric, most: float, farthest: Sequence[int] | None) -> None:
    assert metric.bounds(10) == (0.0, most)
    if farthest is not None:
        assert known_pairs.scores(metric, [(TEN, farthest)])[0] == most
