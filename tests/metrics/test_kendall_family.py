"""What the Kendall and footrule metrics declare beside what the registry checks: chance, bounds, parameters."""

import math

import pytest

from metrics import known_pairs
from monitor.errors import MetricError
from monitor.metrics import Metric, expected_by_chance
from monitor.metrics.extended_tau import AppendedTau, ElementWeightedTau, ExtendedTau, ExtendedTauUnscaled
from monitor.metrics.footrule import Footrule, FootruleNormalized, GeneralizedFootrule, TopkFootrule, TopkFootruleNormalized
from monitor.metrics.kendall import KendallDistance, KendallDistanceNormalized, KendallTau, TopkKendall, TopkKendallNormalized
from monitor.metrics.weighted_kendall import (
    GeneralizedKendallDistance,
    PositionWeightedKendallDistance,
    TauAp,
    TauApSymmetric,
    WeightedTau,
)

EXACT: list[Metric] = [
    ExtendedTau(),
    ExtendedTauUnscaled(),
    AppendedTau(),
    KendallTau(),
    KendallDistance(),
    KendallDistanceNormalized(),
    TopkKendall(penalty=0.0),
    TopkKendall(penalty=0.5),
    TopkKendallNormalized(penalty=0.0),
    TopkKendallNormalized(penalty=0.5),
    WeightedTau(),
    TauAp(),
    TauApSymmetric(),
    Footrule(),
    FootruleNormalized(),
    TopkFootrule(),
    TopkFootruleNormalized(),
]


@pytest.mark.parametrize("metric", EXACT, ids=str)
@pytest.mark.parametrize(("k", "catalogue"), [(1, 4), (2, 2), (3, 5), (10, 10), (10, 13), (10, 60)])
def test_what_chance_gives_exactly_is_what_simulation_finds(
    metric: Metric, k: int, catalogue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = expected_by_chance(metric, k, catalogue)
    monkeypatch.setattr(type(metric), "expected_by_chance", Metric.expected_by_chance)

    simulated = expected_by_chance(metric, k, catalogue)

    assert (exact is None) == (simulated is None)
    if exact is not None and simulated is not None:
        low, high = metric.bounds(k)
        assert exact == pytest.approx(simulated, abs=0.008 * (high - low))
        assert low <= exact <= high


def test_chance_has_nothing_to_say_of_a_metric_that_is_undefined_for_lists_so_short() -> None:
    assert expected_by_chance(KendallTau(), 1, 5) is None
    assert expected_by_chance(Footrule(depth=1), 5, 5) is None
    assert AppendedTau().expected_by_chance(1, 1) is None
    assert AppendedTau().expected_by_chance(1, 2) == -1.0


def test_chance_of_long_lists_from_a_large_catalogue_is_exact() -> None:
    # 1,000 of a million items share one item on average: P(z >= 2) is 1 - 2 / e.
    assert expected_by_chance(KendallDistance(), 1000, 1_000_000) == pytest.approx(0.25 / (1 - 2 / math.e), rel=2e-3)


def test_simulated_chance_stands_in_where_the_formula_would_cost_too_much() -> None:
    metric = PositionWeightedKendallDistance()

    assert metric.expected_by_chance(2500, 3000) is None
    assert expected_by_chance(metric, 2500, 3000) == pytest.approx(0.0687, abs=0.002)
    assert expected_by_chance(ElementWeightedTau(), 5, 10) is None


@pytest.mark.parametrize("kind", [TopkKendall, TopkKendallNormalized])
@pytest.mark.parametrize("penalty", [-0.1, 1.1, math.nan, math.inf])
def test_a_penalty_out_of_range_is_refused(kind: type[TopkKendall], penalty: float) -> None:
    with pytest.raises(MetricError, match="between 0 and 1"):
        kind(penalty=penalty)


@pytest.mark.parametrize("kind", [PositionWeightedKendallDistance, GeneralizedKendallDistance, GeneralizedFootrule])
def test_an_unknown_discount_is_refused_with_the_known_ones(kind: type[GeneralizedFootrule]) -> None:
    with pytest.raises(MetricError, match="dcg, hyperbolic"):
        kind(discount="steep")


def test_names_print_their_parameters() -> None:
    assert str(TopkKendall(penalty=0.5, depth=10)) == "topk_kendall(penalty=0.5)@10"
    assert str(GeneralizedFootrule()) == "generalized_footrule(discount=dcg)"


@pytest.mark.parametrize(
    ("metric", "most"),
    [
        (KendallDistance(), 45),
        (TopkKendall(penalty=0.0), 100),
        (TopkKendall(penalty=0.5), 145),
        (PositionWeightedKendallDistance(), 45),
        (Footrule(), 50),
        (TopkFootrule(), 110),
    ],
    ids=str,
)
def test_bounds_of_top_tens_are_told(metric: Metric, most: float) -> None:
    assert metric.bounds(10) == (0.0, most)


@pytest.mark.parametrize(
    ("metric", "apart"), [(KendallDistance(), False), (TopkKendall(), True), (TopkFootrule(), True)], ids=str
)
def test_bounds_are_reached(metric: Metric, apart: bool) -> None:
    top = list(range(10))
    other = list(range(10, 20)) if apart else top[::-1]

    assert known_pairs.scores(metric, [(top, other)])[0] == metric.bounds(10)[1]
