"""Measures of relevance as metrics: names, parameters, declared values, and the way from a batch to scores."""

import math

import pytest

from kernels import reference_relevance as slow
from monitor.metrics import Metric, score_all
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
def test_the_better_candidate_is_above_zero_and_of_an_unknown_user_nothing_is_said(kind: type[Metric]) -> None:
    known = {1: 2.0, 2: 1.0}

    assert score(kind(), known, [7, 8, 9], [1, 8, 9]) == -score(kind(), known, [1, 8, 9], [7, 8, 9]) > 0
    assert math.isnan(score(kind(), {}, [1, 2], [2, 1]))
    assert math.isnan(score(kind(), {1: 1.0}, [], []))


@every_variant
def test_grades_that_sum_up_to_infinity_warn_of_nothing(metric: Metric) -> None:
    found = score(metric, {0: 1.7e308, 1: 1.7e308}, [0, 1], [1, 2, 0])

    assert found == math.inf or math.isnan(found) or abs(found) <= 1.7e308
