"""Measures of relevance as metrics: names, parameters, declared values, and the way from a batch to scores."""

import math

import numpy as np
import pytest

from kernels import reference
from kernels import reference_relevance as slow
from monitor.errors import MetricError
from monitor.metrics import Metric, expected_by_chance, score_all
from monitor.metrics.names import read_name
from monitor.metrics.relevance import Cg, Dcg, Map, Mrr, Ndcg, NdcgVsBaseline, Recall

OF_LABELS: tuple[type[Metric], ...] = (Cg, Dcg, Map, Mrr, Ndcg, Recall)
REGISTRY: dict[str, type[Metric]] = {kind.name: kind for kind in OF_LABELS} | {"ndcg_vs_baseline": NdcgVsBaseline}
EVERY_VARIANT = [
    kind(**{name: word})  # type: ignore[arg-type] # words of its own choices
    for kind in REGISTRY.values()
    for name, words in kind.choices.items()
    for word in words
]
SIX = dict(enumerate([3.0, 2.0, 3.0, 0.0, 1.0, 2.0]))

every_variant = pytest.mark.parametrize("metric", EVERY_VARIANT, ids=str)


def score(metric: Metric, known: dict[int, float], baseline: list[int], candidate: list[int]) -> float:
    return float(score_all(slow.labelled([(baseline, candidate)], [known]), [metric])[str(metric)][0])


@every_variant
def test_a_printed_name_reads_as_the_same_metric(metric: Metric) -> None:
    assert read_name(str(metric), REGISTRY) == metric


def test_a_name_tells_the_arm_and_the_gain() -> None:
    assert str(Ndcg(arm="candidate", gain="exponential", depth=10)) == "ndcg(arm=candidate, gain=exponential)@10"
    assert str(read_name("recall@5", REGISTRY)) == "recall(arm=difference)@5"
    assert str(NdcgVsBaseline()) == "ndcg_vs_baseline(gain=linear)"


@pytest.mark.parametrize("text", ["ndcg(arm=both)", "dcg(gain=square)", "ndcg_vs_baseline(gain=1)"])
def test_an_unknown_word_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(MetricError, match=r"must be one of (difference, baseline, candidate|linear, exponential)"):
        read_name(text, REGISTRY)


def test_the_six_grades_through_the_whole_way() -> None:
    six, better = list(range(6)), [0, 2, 1, 5, 4, 3]

    assert score(Cg(arm="baseline"), SIX, six, better) == 11
    assert score(Dcg(arm="baseline"), SIX, six, better) == pytest.approx(6.861, abs=5e-4)
    assert score(Dcg(arm="baseline", gain="exponential"), SIX, six, better) == pytest.approx(13.848, abs=5e-4)
    assert score(Ndcg(arm="baseline"), SIX, six, better) == pytest.approx(0.961, abs=5e-4)
    assert score(Ndcg(arm="candidate"), SIX, six, better) == 1
    assert score(Ndcg(), SIX, six, better) == pytest.approx(0.039, abs=5e-4)
    assert score(Cg(), SIX, six, better) == 0


def test_an_ideal_over_further_items_lowers_both_arms() -> None:
    six = list(range(6))

    assert score(Ndcg(arm="candidate"), SIX | {6: 3.0, 7: 2.0}, six, six) == pytest.approx(0.785, abs=5e-4)


def test_a_depth_cuts_lists_and_ideal_alike() -> None:
    known = {1: 1.0, 2: 1.0, 3: 1.0}

    assert score(Ndcg(arm="candidate", depth=1), known, [9, 8, 7], [1, 8, 7]) == 1
    assert score(Recall(arm="candidate", depth=1), known, [9, 8, 7], [1, 8, 7]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", OF_LABELS)
def test_identical_lists_differ_by_nothing_and_the_better_candidate_is_above_zero(kind: type[Metric]) -> None:
    known = {1: 2.0, 2: 1.0}

    assert score(kind(), known, [1, 7, 2], [1, 7, 2]) == 0
    assert score(kind(), known, [7, 8, 9], [1, 8, 9]) > 0
    assert score(kind(), known, [1, 8, 9], [7, 8, 9]) < 0


@pytest.mark.parametrize("kind", OF_LABELS)
def test_of_an_unknown_user_nothing_is_said(kind: type[Metric]) -> None:
    assert math.isnan(score(kind(), {}, [1, 2], [2, 1]))
    assert math.isnan(score(kind(), {1: 1.0}, [], []))


@every_variant
def test_bounds_lie_in_the_declared_range_and_hold(metric: Metric) -> None:
    rng = np.random.default_rng(4)
    pairs = [(rng.permutation(20)[: rng.integers(0, 9)].tolist(), rng.permutation(20)[:8].tolist()) for _ in range(300)]
    known = [{int(item): float(rng.integers(0, 4)) for item in rng.permutation(20)[: rng.integers(0, 9)]} for _ in pairs]

    found = score_all(slow.labelled(pairs, known), [metric])[str(metric)]

    low, high = metric.bounds(8)
    assert metric.low <= low < high <= metric.high
    assert (np.isnan(found) | ((found >= low) & (found <= high))).all()
    assert metric.uneven
    assert metric.source


@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("length", [1, 2, 10, 100])
def test_against_the_baseline_the_declared_values_are_met(gain: str, length: int) -> None:
    top, other = list(range(length)), list(range(length, 2 * length))
    metric = NdcgVsBaseline(gain=gain)
    pairs = [(top, top), (top, other), (top, []), ([], top), ([], [])]

    found = score_all(reference.batch(pairs), [metric])[str(metric)]

    declared = [metric.identical, metric.disjoint, metric.one_empty, metric.one_empty, metric.both_empty]
    np.testing.assert_array_equal(found, np.array(declared, dtype=np.float64))


def test_chance_is_told_without_labels_only() -> None:
    swapped = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))

    assert expected_by_chance(NdcgVsBaseline(), 2, 2) == pytest.approx((1 + swapped) / 2, abs=1e-12)
    assert expected_by_chance(NdcgVsBaseline(), 2, 200) == pytest.approx((1 + swapped) / 200, abs=1e-12)
    assert expected_by_chance(Ndcg(), 10, 1000) is None


@every_variant
def test_grades_that_sum_up_to_infinity_warn_of_nothing(metric: Metric) -> None:
    found = score(metric, {0: 1.7e308, 1: 1.7e308}, [0, 1], [1, 2, 0])

    assert found == math.inf or math.isnan(found) or abs(found) <= 1.7e308
