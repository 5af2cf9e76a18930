"""The footrule's family: values worked out by hand."""

import numpy as np
import pytest

from kernels import reference
from kernels.reference_kendall import with_weights
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
    alignment = align(with_weights([(top, top[::-1])], {item: 0.1 + item % 7 / 3 for item in top}))

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
    alignment = align(with_weights(pairs, dict.fromkeys(range(10), 1.0)))

    for measure in (footrule, footrule_normalized, element_weighted_footrule, element_weighted_footrule_normalized):
        assert np.isnan(measure(alignment)).all()
    assert np.isnan(generalized_footrule(alignment, "dcg")).all()
