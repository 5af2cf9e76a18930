"""The footrule's family: values worked out by hand, then agreement with the definitions on a thousand random pairs and more."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from kernels import reference
from kernels import reference_footrule as slow
from kernels.reference_kendall import alignments, draw, with_weights
from monitor.kernels import Alignment, align
from monitor.kernels.footrule import (
    element_weighted_footrule,
    element_weighted_footrule_normalized,
    footrule,
    footrule_normalized,
    generalized_footrule,
    topk_footrule,
    topk_footrule_normalized,
)
from monitor.model.arrays import Floats

both_shapes = pytest.mark.parametrize("even", [True, False])

chance = random.Random(8)  # noqa: S311 - test data
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}
ONES = dict.fromkeys(PRICES, 1.0)


def pair(a: list[int], b: list[int]) -> Alignment:
    return align(reference.batch([(a, b)]))


def test_the_footrule_of_a_swap_is_two() -> None:
    alignment = pair([1, 2, 3], [2, 1, 3])

    assert footrule(alignment)[0] == 2.0
    assert footrule_normalized(alignment)[0] == 2 / 4
    assert topk_footrule(alignment)[0] == 2.0
    assert topk_footrule_normalized(alignment)[0] == 2 / 12


def test_the_footrule_counts_ranks_among_the_items_in_common() -> None:
    assert footrule(pair([1, 8, 2, 3], [2, 9, 7, 1, 3]))[0] == 2.0


@pytest.mark.parametrize("length", [2, 3, 4, 5, 10, 49])
def test_a_reversal_moves_half_the_square_of_the_length(length: int) -> None:
    top = list(range(length))
    alignment = align(with_weights([(top, top[::-1])], PRICES))

    assert footrule(alignment)[0] == length**2 // 2
    assert footrule_normalized(alignment)[0] == 1.0
    assert element_weighted_footrule_normalized(alignment)[0] == pytest.approx(1.0, abs=1e-14)


def test_rounding_takes_no_reversal_beyond_one() -> None:
    reversal = align(with_weights([([0, 1, 2], [2, 1, 0])], {0: 0.1, 1: 0.9, 2: 0.6}))
    assert element_weighted_footrule_normalized(reversal)[0] == 1.0


def test_topk_footrule_ranks_absent_items_right_behind_the_list() -> None:
    # 1 moves from 1 to 2; 2 and 3 from 2 and 3 to 4; 4 and 5 from 1 and 3 to 4.
    assert topk_footrule(pair([1, 2, 3], [4, 1, 5]))[0] == 1 + 2 + 1 + 3 + 1


def test_topk_footrule_of_uneven_lists_uses_each_lists_own_length() -> None:
    # Against 2 1 3 4 the list 1 ranks 2, 3 and 4 second: 1 moves one, 2 one, 3 one and 4 two.
    alignment = pair([1], [2, 1, 3, 4])

    assert topk_footrule(alignment)[0] == 1 + 1 + 1 + 2
    # Disjoint: 1 moves from 1 to 5, the others from 1, 2, 3 and 4 to 2.
    assert topk_footrule_normalized(alignment)[0] == 5 / (4 + 1 + 0 + 1 + 2)


def test_element_weights_multiply_what_moves_by_what_it_moves_past() -> None:
    # 1 of weight 5 moves past 3, 2 of weight 3 past 5; reversing either list of 5 3 1 or 3 5 1 costs 5 * 4 + 3 * 4 + 1 * 8
    # and 3 * 6 + 5 * 2 + 1 * 8.
    alignment = align(with_weights([([1, 2, 3], [2, 1, 3])], {1: 5.0, 2: 3.0, 3: 1.0}))

    assert element_weighted_footrule(alignment)[0] == 30.0
    assert element_weighted_footrule_normalized(alignment)[0] == pytest.approx(30 / ((40 + 36) / 2), abs=1e-15)


def test_position_weights_multiply_element_weights() -> None:
    # Hyperbolic: both items of the swap at ranks 2 and 3 pay 1/3 a step.
    alignment = align(with_weights([([1, 2, 3], [1, 3, 2])], {1: 5.0, 2: 3.0, 3: 2.0}))

    assert generalized_footrule(alignment, "hyperbolic")[0] == pytest.approx(2 * (3 / 3) * (2 / 3), abs=1e-14)


def test_measures_of_the_items_in_common_are_undefined_below_two() -> None:
    pairs = [([1, 2], [2, 9]), ([1], [1]), ([1, 2], [8, 9]), ([1], []), ([], [])]
    alignment = align(with_weights(pairs, ONES))

    for measure in (footrule, footrule_normalized, element_weighted_footrule, element_weighted_footrule_normalized):
        assert np.isnan(measure(alignment)).all()
    assert np.isnan(generalized_footrule(alignment, "dcg")).all()


def test_empty_lists_have_their_stated_values() -> None:
    alignment = align(reference.batch([([1, 2], []), ([], [1]), ([], [])]))

    assert np.isnan(topk_footrule(alignment)).all()
    np.testing.assert_array_equal(topk_footrule_normalized(alignment), [1.0, 1.0, np.nan])


PLAIN: dict[str, tuple[Callable[[Alignment], Floats], Callable[..., float]]] = {
    "footrule": (footrule, slow.footrule),
    "footrule_normalized": (footrule_normalized, slow.footrule_normalized),
    "topk_footrule": (topk_footrule, slow.topk_footrule),
    "topk_footrule_normalized": (topk_footrule_normalized, slow.topk_footrule_normalized),
}


@both_shapes
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", PLAIN)
def test_measures_of_lists_are_their_definitions(name: str, even: bool) -> None:
    measure, define = PLAIN[name]

    for alignment, pairs in alignments(1050, 21, even=even):
        np.testing.assert_allclose(measure(alignment), [define(*pair) for pair in pairs], rtol=0, atol=1e-12)


@both_shapes
def test_measures_with_weights_are_their_definitions(even: bool) -> None:
    pairs = draw(1050, 22, even=even)
    alignment = align(with_weights(pairs, PRICES))

    raw, share = element_weighted_footrule(alignment), element_weighted_footrule_normalized(alignment)

    expected = [slow.weighted_footrule(*pair, PRICES) for pair in pairs]
    shares = [slow.weighted_footrule_normalized(*pair, PRICES) for pair in pairs]
    np.testing.assert_allclose(raw, expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(share, shares, rtol=0, atol=1e-12)


@both_shapes
@pytest.mark.parametrize("discount", ["dcg", "hyperbolic"])
def test_measures_with_element_and_position_weights_are_their_definitions(discount: str, even: bool) -> None:
    pairs = draw(1050, 23, even=even)

    found = generalized_footrule(align(with_weights(pairs, PRICES)), discount)

    expected = [slow.weighted_footrule(*pair, PRICES, discount) for pair in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)


@both_shapes
def test_weights_of_one_give_the_measures_without_weights(even: bool) -> None:
    alignment = align(with_weights(draw(1050, 24, even=even), ONES))

    np.testing.assert_array_equal(element_weighted_footrule(alignment), footrule(alignment))
    np.testing.assert_allclose(
        element_weighted_footrule_normalized(alignment), footrule_normalized(alignment), rtol=0, atol=1e-12
    )


def test_the_footrule_lies_between_kendalls_distance_and_its_double() -> None:
    # Diaconis and Graham (1977).
    from monitor.kernels.kendall.unweighted import kendall_distance  # noqa: PLC0415 - another family

    for alignment, _ in alignments(350, 25, even=False):
        moved, inverted = footrule(alignment), kendall_distance(alignment)
        assert (np.isnan(moved) | ((inverted <= moved) & (moved <= 2 * inverted))).all()


def test_lists_of_a_million_items_are_compared() -> None:
    top = np.arange(1_000_000)
    alignment = align(reference.batch([(top.tolist(), top[::-1].tolist())]))

    assert footrule(alignment)[0] == 5e11
    assert topk_footrule(alignment)[0] == 5e11
