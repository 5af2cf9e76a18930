"""Agreement to 1e-12 with definitions, scipy and the rbo package, on random pairs: plain, of weighted items, of tied lists."""

import math
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbo import RankingSimilarity

from kernels import reference, reference_rbo, reference_relevance
from kernels import reference_kendall as slow
from kernels.conftest import in_each_way
from kernels.reference import LONG, SHORT, TOPS
from monitor.kernels import Alignment, align, blocks
from monitor.kernels.footrule import (
    element_weighted_footrule,
    element_weighted_footrule_normalized,
    footrule,
    footrule_normalized,
    generalized_footrule,
    topk_footrule,
    topk_footrule_normalized,
)
from monitor.kernels.kendall import element_weighted, unweighted
from monitor.kernels.kendall.weighted import tau_ap, tau_ap_symmetric, weighted_tau
from monitor.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.kernels.rbo.untied import rbo, rbo_max, rbo_min, rbo_truncated
from monitor.kernels.relevance import ndcg_vs_baseline
from monitor.kernels.sets import average_overlap, jaccard, overlap
from monitor.model.rankings import PairBatch

Measure = tuple[Callable[[Alignment], npt.NDArray[Any]], Callable[..., float]]
Measures = list[Measure]

chance = random.Random(7)  # noqa: S311 - test data
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}
ONES = dict.fromkeys(PRICES, 1.0)


def both(kernel: Callable[..., npt.NDArray[Any]], define: Callable[..., float], **options: object) -> Measure:
    """A kernel and its definition with these parameters."""
    return partial(kernel, **options), partial(define, **options)


def jaccard_by_sets(a: list[int], b: list[int]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a or b else math.nan


def mean_of_overlaps(a: list[int], b: list[int]) -> float:
    longest = max(len(a), len(b))
    return sum(reference.overlap(a[:d], b[:d]) for d in range(1, longest + 1)) / longest if longest else math.nan


def unscaled_tau(a: list[int], b: list[int]) -> float:
    return reference.unscaled_tau(a, b) if a and b else math.nan


def distance_of_tau(a: list[int], b: list[int]) -> float:
    return (1 - slow.kendall_tau(a, b)) / 2


def mean_tau_ap(a: list[int], b: list[int]) -> float:
    return (slow.tau_ap(a, b) + slow.tau_ap(b, a)) / 2


def misordered(a: list[int], b: list[int]) -> float:
    return slow.topk_kendall(a, b, penalty=0.0) if a and b else 0.0


def position_weighted(a: list[int], b: list[int], _: slow.Weights, discount: str) -> float:
    return slow.generalized_kendall_distance(a, b, ONES, discount)


def rbo_of_package(a: list[int], b: list[int]) -> float:
    return float(RankingSimilarity(a, b).rbo_ext(p=0.9)) if a and b else reference.rbo(a, b, 0.9)


OF_LONG_LISTS: Measures = [
    (unweighted.extended_tau, reference.extended_tau),
    (overlap, reference.overlap),
    (jaccard, jaccard_by_sets),
    (average_overlap, mean_of_overlaps),
    both(rbo_truncated, reference_rbo.truncated, p=0.9),
    # What lies below depth 70 weighs less than 1e-15.
    (partial(rbo_min, p=0.6), partial(reference_rbo.least, p=0.6, depth=70)),
    (partial(rbo_max, p=0.6), partial(reference_rbo.most, p=0.6, depth=70)),
    *(both(rbo, reference.rbo, p=p) for p in (0.3, 0.9, 0.99)),
    (partial(rbo, p=0.9), rbo_of_package),
]
OF_SHORT_LISTS: Measures = [
    (unweighted.extended_tau_unscaled, unscaled_tau),
    (unweighted.count_misordered, misordered),
    (unweighted.appended_tau, slow.appended_tau),
    (unweighted.kendall_tau, slow.kendall_tau),
    (unweighted.kendall_distance, slow.kendall_distance),
    (unweighted.kendall_distance_normalized, distance_of_tau),
    both(unweighted.topk_kendall, slow.topk_kendall, penalty=0.5),
    both(unweighted.topk_kendall_normalized, slow.topk_kendall_normalized, penalty=0.0),
    both(unweighted.topk_kendall_normalized, slow.topk_kendall_normalized, penalty=0.5),
    (weighted_tau, slow.weighted_tau),
    (tau_ap, slow.tau_ap),
    (tau_ap_symmetric, mean_tau_ap),
    (footrule, slow.footrule),
    (footrule_normalized, slow.footrule_normalized),
    (topk_footrule, slow.topk_footrule),
    (topk_footrule_normalized, slow.topk_footrule_normalized),
    *(both(ndcg_vs_baseline, reference_relevance.ndcg_vs_baseline, gain=gain) for gain in ("linear", "exponential")),
]
OF_WEIGHTED_LISTS: Measures = [
    (element_weighted.element_weighted_tau, slow.element_weighted_tau),
    (element_weighted.element_weighted_kendall_distance, slow.generalized_kendall_distance),
    (element_weighted.element_weighted_kendall_distance_normalized, slow.element_weighted_kendall_distance_normalized),
    (element_weighted_footrule, slow.weighted_footrule),
    (element_weighted_footrule_normalized, slow.weighted_footrule_normalized),
]
for name in element_weighted.DISCOUNTS:
    OF_WEIGHTED_LISTS += [
        both(element_weighted.generalized_kendall_distance, slow.generalized_kendall_distance, discount=name),
        both(element_weighted.position_weighted_kendall_distance, position_weighted, discount=name),
        both(generalized_footrule, slow.weighted_footrule, discount=name),
    ]
OF_TIED_LISTS: Measures = [
    (unweighted.kendall_tau, slow.tied_tau),
    (weighted_tau, slow.tied_weighted_tau),
    (partial(rbo_w, p=0.9), partial(reference_rbo.tied_rbo, p=0.9, kind="w")),
    (partial(rbo_a, p=0.9), partial(reference_rbo.tied_rbo, p=0.9, kind="a")),
    (partial(rbo_b, p=0.9), partial(reference_rbo.tied_rbo, p=0.9, kind="b")),
]


CASES: dict[str, tuple[Measures, tuple[int, ...], reference.Draw, Callable[[Any], PairBatch]]] = {
    "long lists": (OF_LONG_LISTS, LONG, partial(reference.draw, tops=TOPS), reference.batch),
    "short lists": (OF_SHORT_LISTS, SHORT, reference.draw, reference.batch),
    "weighted lists": (OF_WEIGHTED_LISTS, SHORT[:-1], reference.draw, partial(reference.with_weights, weights=PRICES)),
    "tied lists": (OF_TIED_LISTS, (*SHORT, 30), reference_rbo.draw, reference_rbo.batch),
}


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_measures_are_their_definitions(case: str, even: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    measures, lengths, draw, batch = CASES[case]
    known = [PRICES] if case == "weighted lists" else []
    for pairs in reference.groups(20, 1, draw, lengths, even=even):
        expected = [[define(*pair, *known) for pair in pairs] for _, define in measures]
        for way in in_each_way(monkeypatch):
            alignment = align(batch(pairs))
            for (measure, _), values in zip(measures, expected, strict=True):
                np.testing.assert_allclose(
                    measure(alignment), values, rtol=1e-12 if known else 0, atol=1e-12, err_msg=f"{measure}, {way}"
                )


@given(ranking=st.lists(st.integers(0, 14), unique=True, min_size=1, max_size=12), p=st.floats(0.001, 0.999), data=st.data())
def test_a_prefix_may_turn_out_the_whole(ranking: list[int], p: float, data: st.DataObject) -> None:
    seen = data.draw(st.integers(1, len(ranking)))
    pair = align(reference.batch([(ranking[:seen], ranking)]))

    assert rbo(pair, p)[0] == rbo_max(pair, p)[0] == 1.0
    for measure in (unweighted.extended_tau, average_overlap):
        assert (measure(pair)[0] < 1) == (seen < len(ranking))


@pytest.mark.parametrize(("cells", "k", "bounds"), [(1, 3, [0, 1, 2, 3]), (6, 3, [0, 2, 3]), (2, 1, [0, 2, 3])])
def test_blocks_are_all_rows_in_order(cells: int, k: int, bounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.kernels.alignment.BLOCK_CELLS", cells)

    found = [rows for rows, _ in blocks(reference.batch([([1], [1])] * 3, k=k))]

    assert found == [slice(low, high) for low, high in pairwise(bounds)]


def test_taus_of_tied_lists_do_not_depend_on_the_other_pairs_and_are_symmetric_to_the_last_bit() -> None:
    pairs = reference_rbo.draw(60, 26, even=False)
    for a, b in reference.draw(60, 27, even=False):
        pairs.append((reference_rbo.cut_into_groups(a, []), reference_rbo.cut_into_groups(b, [])))
    batch = reference_rbo.batch(pairs)
    reverse = align(reference_rbo.batch([(b, a) for a, b in pairs]))

    for measure in (unweighted.kendall_tau, weighted_tau):
        whole = measure(align(batch))
        parts = [measure(align(batch.take(slice(low, low + 1)))) for low in range(0, 120, 7)]

        np.testing.assert_allclose(np.concatenate(parts), whole[::7], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(measure(reverse), whole)
