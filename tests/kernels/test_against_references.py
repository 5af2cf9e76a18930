"""Agreement to 1e-12 with definitions, scipy and the rbo package, on random pairs: plain, of weighted items, of tied lists."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbo import RankingSimilarity

from kernels import reference, reference_kendall, reference_rbo, reference_relevance
from kernels import reference_kendall as slow
from kernels.conftest import limit_all_pairs
from kernels.reference import LONG, SHORT, TOPS, alignments
from kernels.reference_rbo import Tied
from monitor.kernels import Alignment, align, blocks
from monitor.kernels.engines import positions
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
from monitor.kernels.rbo.untied import rbo, rbo_max, rbo_min, rbo_truncated, rbo_weight
from monitor.kernels.relevance import ndcg_vs_baseline
from monitor.kernels.sets import average_overlap, jaccard, overlap
from monitor.model.arrays import Floats

Kernel = Callable[[Alignment], npt.NDArray[Any]]
Definition = Callable[[list[int], list[int]], float]
Measures = dict[str, tuple[Kernel, Definition]]


def jaccard_by_sets(a: list[int], b: list[int]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a or b else math.nan


def mean_of_overlaps(a: list[int], b: list[int]) -> float:
    longest = max(len(a), len(b))
    return sum(reference.overlap(a[:d], b[:d]) for d in range(1, longest + 1)) / longest if longest else math.nan


def unscaled_tau(a: list[int], b: list[int]) -> float:
    return reference.unscaled_tau(a, b) if a and b else math.nan


OF_LONG_LISTS: Measures = {
    "extended_tau": (unweighted.extended_tau, reference.extended_tau),
    "overlap": (overlap, reference.overlap),
    "jaccard": (jaccard, jaccard_by_sets),
    "average_overlap": (average_overlap, mean_of_overlaps),
    "rbo_truncated": (partial(rbo_truncated, p=0.9), partial(reference_rbo.truncated, p=0.9)),
    # What lies below depth 70 weighs less than 1e-15.
    "rbo_min": (partial(rbo_min, p=0.6), partial(reference_rbo.least, p=0.6, depth=70)),
    "rbo_max": (partial(rbo_max, p=0.6), partial(reference_rbo.most, p=0.6, depth=70)),
    **{f"rbo, p={p}": (partial(rbo, p=p), partial(reference.rbo, p=p)) for p in (0.3, 0.9, 0.99)},
}
OF_SHORT_LISTS: Measures = {
    "extended_tau_unscaled": (unweighted.extended_tau_unscaled, unscaled_tau),
    "misordered, as Fagin does": (unweighted.count_misordered, reference.discordant),
    "appended_tau": (unweighted.appended_tau, reference_kendall.appended_tau),
    "kendall_tau": (unweighted.kendall_tau, reference_kendall.kendall_tau),
    "kendall_distance": (unweighted.kendall_distance, reference_kendall.kendall_distance),
    "kendall_distance_normalized": (
        unweighted.kendall_distance_normalized,
        lambda a, b: (1 - reference_kendall.kendall_tau(a, b)) / 2,
    ),
    "weighted_tau": (weighted_tau, reference_kendall.weighted_tau),
    "tau_ap": (tau_ap, reference_kendall.tau_ap),
    "tau_ap_symmetric": (
        tau_ap_symmetric,
        lambda a, b: (reference_kendall.tau_ap(a, b) + reference_kendall.tau_ap(b, a)) / 2,
    ),
    "footrule": (footrule, reference.footrule),
    "footrule_normalized": (footrule_normalized, reference.footrule_normalized),
    "topk_footrule": (topk_footrule, reference.topk_footrule),
    "topk_footrule_normalized": (topk_footrule_normalized, reference.topk_footrule_normalized),
    **{
        f"{of.__name__}, penalty {penalty}": (partial(of, penalty=penalty), partial(define, penalty=penalty))
        for of, define in (
            (unweighted.topk_kendall, reference_kendall.topk_kendall),
            (unweighted.topk_kendall_normalized, reference_kendall.topk_kendall_normalized),
        )
        for penalty in (0.0, 0.5)
    },
    **{
        f"ndcg_vs_baseline, {gain}": (
            partial(ndcg_vs_baseline, gain=gain),
            partial(reference_relevance.ndcg_vs_baseline, gain=gain),
        )
        for gain in ("linear", "exponential")
    },
}
CASES: dict[str, tuple[Measures, tuple[int, ...], tuple[int, ...]]] = {
    "long lists": (OF_LONG_LISTS, LONG, TOPS),
    "short lists": (OF_SHORT_LISTS, SHORT, (0,)),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_measures_of_lists_are_their_definitions(case: str, even: bool) -> None:
    measures, lengths, tops = CASES[case]
    drawn = alignments(1040, 1, even=even, lengths=lengths, tops=tops)

    for (alignment, _), expected in zip(drawn, defined(case, even), strict=True):
        for name, (measure, _) in measures.items():
            np.testing.assert_allclose(measure(alignment), expected[name], rtol=0, atol=1e-12, err_msg=name)


@cache
def defined(case: str, even: bool) -> list[dict[str, list[float]]]:
    """By definition, once for all ways to align and count."""
    measures, lengths, tops = CASES[case]
    drawn = alignments(1040, 1, even=even, lengths=lengths, tops=tops)
    return [{name: [define(*pair) for pair in pairs] for name, (_, define) in measures.items()} for _, pairs in drawn]


@pytest.mark.parametrize("even", [True, False])
def test_the_rbo_packages_numbers_are_ours(even: bool) -> None:
    for alignment, pairs in alignments(1040, 3, even=even, lengths=LONG, tops=TOPS):
        some = [i for i, (a, b) in enumerate(pairs) if a and b]
        theirs = [RankingSimilarity(list(pairs[i][0]), list(pairs[i][1])) for i in some]

        np.testing.assert_allclose(rbo(alignment, 0.9)[some], [t.rbo_ext(p=0.9) for t in theirs], rtol=0, atol=1e-12)
        np.testing.assert_allclose(rbo_truncated(alignment, 0.9)[some], [t.rbo(p=0.9) for t in theirs], rtol=0, atol=1e-12)
        if even:  # on uneven lists theirs stops at the shorter one
            np.testing.assert_allclose(average_overlap(alignment), [t.rbo(p=1.0) for t in theirs], rtol=0, atol=1e-12)


def test_weights_of_a_depth_add_up_to_the_same_bits_for_few_pairs_and_for_many() -> None:
    rng = np.random.default_rng(5)
    weights = rng.normal(size=40)
    lists = [(rng.permutation(60)[:40].tolist(), rng.permutation(60)[: i % 41].tolist()) for i in range(200)]
    many, few = align(reference.batch(lists)), [align(reference.batch(lists[i : i + 2])) for i in range(0, 200, 2)]

    np.testing.assert_array_equal(np.concatenate([part.sum_by_depth(weights) for part in few]), many.sum_by_depth(weights))
    assert not np.signbit(few[0].sum_by_depth(-weights)[few[0].common == 0]).any()


@given(ranking=st.lists(st.integers(0, 14), unique=True, min_size=1, max_size=12), p=st.floats(0.001, 0.999), data=st.data())
def test_a_prefix_may_turn_out_the_whole(ranking: list[int], p: float, data: st.DataObject) -> None:
    seen = data.draw(st.integers(1, len(ranking)))
    pair = align(reference.batch([(ranking[:seen], ranking)]))

    assert rbo(pair, p)[0] == rbo_max(pair, p)[0] == 1.0
    assert rbo_truncated(pair, p)[0] == pytest.approx(1 - p**seen, abs=1e-14)
    assert rbo_min(pair, p)[0] == pytest.approx(rbo_weight(p, seen), abs=1e-14)
    assert overlap(pair)[0] == jaccard(pair)[0] == seen / len(ranking)
    for measure in (unweighted.extended_tau, average_overlap):
        assert (measure(pair)[0] < 1) == (seen < len(ranking))


@pytest.mark.parametrize(("cells", "k", "bounds"), [(1, 3, [0, 1, 2, 3]), (6, 3, [0, 2, 3]), (2, 1, [0, 2, 3])])
def test_blocks_are_all_rows_in_order(cells: int, k: int, bounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.kernels.alignment.BLOCK_CELLS", cells)

    found = [rows for rows, _ in blocks(reference.batch([([1], [1])] * 3, k=k))]

    assert found == list(itertools.starmap(slice, itertools.pairwise(bounds)))


def test_items_whose_codes_differ_in_their_high_bytes_alone_are_others() -> None:
    for one, other in (([65_537, 65_535], [1]), (list(range(64)), [2**25 + item for item in range(64)])):
        assert overlap(align(reference.batch([(one, other)])))[0] == 0.0


both_shapes = pytest.mark.parametrize("even", [True, False])

chance = random.Random(7)  # noqa: S311 - test data
WHOLE = {item: chance.randint(1, 4) for item in range(200)}
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}
ONES = dict.fromkeys(PRICES, 1.0)


def weigh(pairs: Sequence[reference.Pair], weights: slow.Weights) -> Alignment:
    return align(slow.with_weights(pairs, weights))


MEASURES: dict[str, tuple[Callable[[Alignment], Floats], Callable[..., float]]] = {
    "element_weighted_kendall_distance": (
        element_weighted.element_weighted_kendall_distance,
        slow.element_weighted_kendall_distance,
    ),
    "element_weighted_kendall_distance_normalized": (
        element_weighted.element_weighted_kendall_distance_normalized,
        slow.element_weighted_kendall_distance_normalized,
    ),
    "element_weighted_footrule": (element_weighted_footrule, reference.weighted_footrule),
    "element_weighted_footrule_normalized": (
        element_weighted_footrule_normalized,
        reference.weighted_footrule_normalized,
    ),
    **{
        f"{of.__name__}, {discount}": (partial(of, discount=discount), partial(define, discount=discount))
        for of, define in (
            (element_weighted.generalized_kendall_distance, slow.generalized_kendall_distance),
            (
                element_weighted.position_weighted_kendall_distance,
                lambda a, b, _, discount: slow.generalized_kendall_distance(a, b, ONES, discount),
            ),
            (generalized_footrule, reference.weighted_footrule),
        )
        for discount in element_weighted.DISCOUNTS
    },
}


@pytest.mark.usefixtures("way")
@both_shapes
def test_measures_of_weighted_lists_are_their_definitions(even: bool) -> None:
    alignment = weigh(reference.draw(1050, 17, even=even), PRICES)

    for name, (measure, _) in MEASURES.items():
        np.testing.assert_allclose(measure(alignment), defined_weighted(even)[name], rtol=1e-12, atol=1e-10, err_msg=name)


@cache
def defined_weighted(even: bool) -> dict[str, list[float]]:
    """By definition, once for all ways to align and count."""
    pairs = reference.draw(1050, 17, even=even)
    return {name: [define(*pair, PRICES) for pair in pairs] for name, (_, define) in MEASURES.items()}


@pytest.mark.usefixtures("way")
@both_shapes
def test_taus_of_tied_lists_are_scipys(even: bool) -> None:
    pairs, plain, weighted = of_scipy(even)
    alignment = align(reference_rbo.batch(pairs))

    np.testing.assert_allclose(unweighted.kendall_tau(alignment), plain, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted_tau(alignment), weighted, rtol=0, atol=1e-12)


@cache
def of_scipy(even: bool) -> tuple[list[tuple[Tied, Tied]], list[float], list[float]]:
    """Pairs of tied lists and scipy's taus of them, once for all ways to align and count."""
    pairs = reference_rbo.draw(1400, 13, reference.SHORT, even=even)
    return pairs, [slow.tied_tau(*pair) for pair in pairs], [slow.tied_weighted_tau(*pair) for pair in pairs]


def test_taus_of_tied_lists_do_not_depend_on_the_other_pairs_and_are_symmetric_to_the_last_bit() -> None:
    pairs = reference_rbo.draw(400, 26, reference.SHORT, even=False)
    pairs += [
        (reference_rbo.cut_into_groups(a, []), reference_rbo.cut_into_groups(b, []))
        for a, b in reference.draw(400, 27, even=False)
    ]
    batch = reference_rbo.batch(pairs)
    reverse = align(reference_rbo.batch([(b, a) for a, b in pairs]))

    for measure in (unweighted.kendall_tau, weighted_tau):
        whole = measure(align(batch))
        parts = [measure(align(batch.take(slice(low, low + 1)))) for low in range(0, 800, 7)]

        np.testing.assert_allclose(np.concatenate(parts), whole[::7], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(measure(reverse), whole)


@pytest.mark.usefixtures("way")
@both_shapes
def test_element_weighted_tau_of_whole_weights_is_extended_tau_of_that_many_copies(even: bool) -> None:
    found = element_weighted.element_weighted_tau(weigh(reference.draw(1001, 14, even=even), WHOLE))

    np.testing.assert_allclose(found, copied(even), rtol=0, atol=1e-12)


@cache
def copied(even: bool) -> list[float]:
    """Extended tau of the copies, once for all ways to align and count."""
    return [slow.duplicated_tau(*pair, WHOLE) for pair in reference.draw(1001, 14, even=even)]


def test_element_weighted_tau_of_prices_is_its_definition_and_only_ratios_count() -> None:
    pairs = reference.draw(1000, 15, even=False, lengths=(1, 2, 3, 5, 8, 12))

    found = element_weighted.element_weighted_tau(weigh(pairs, PRICES))
    scaled = element_weighted.element_weighted_tau(weigh(pairs, {item: 7 * weight for item, weight in PRICES.items()}))

    np.testing.assert_allclose(found, [slow.element_weighted_tau(*pair, PRICES) for pair in pairs], rtol=0, atol=1e-12)
    np.testing.assert_allclose(scaled, found, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("way")
@both_shapes
def test_weights_of_one_give_the_measures_without_weights(even: bool) -> None:
    ones = weigh(reference.draw(1050, 16, even=even), ONES)

    for weighted, plain in (
        (element_weighted.element_weighted_tau, unweighted.extended_tau),
        (element_weighted.element_weighted_kendall_distance, unweighted.kendall_distance),
        (element_weighted.element_weighted_kendall_distance_normalized, unweighted.kendall_distance_normalized),
        (element_weighted_footrule, footrule),
        (element_weighted_footrule_normalized, footrule_normalized),
    ):
        np.testing.assert_allclose(weighted(ones), plain(ones), rtol=0, atol=1e-12)


def test_the_footrule_lies_between_kendalls_distance_and_its_double() -> None:
    # Diaconis and Graham (1977).
    for alignment, _ in reference.alignments(350, 25, even=False):
        moved, inverted = footrule(alignment), unweighted.kendall_distance(alignment)
        assert (np.isnan(moved) | ((inverted <= moved) & (moved <= 2 * inverted))).all()


def test_long_lists_are_measured_by_merging() -> None:
    rng = np.random.default_rng(20)
    pairs = [(rng.permutation(3000)[:2600].tolist(), rng.permutation(3000)[:2500].tolist()) for _ in range(2)]
    alignment = align(reference.batch(pairs))

    for measure, define in ((unweighted.kendall_tau, slow.kendall_tau), (weighted_tau, slow.weighted_tau)):
        np.testing.assert_allclose(measure(alignment), [define(*pair) for pair in pairs], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 7, 64, 300])
def test_merging_finds_what_all_pairs_find(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(k)
    ranks, weights = rng.integers(0, k, (k, 9)).astype(np.uint16), rng.random((k, 9))
    found = []
    for longest in (0, 2500):
        limit_all_pairs(monkeypatch, longest)
        found.append((positions.count_earlier_larger(ranks), positions.sum_earlier_larger(ranks, weights)))

    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-12)
