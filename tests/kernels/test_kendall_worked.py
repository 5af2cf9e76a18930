"""Kendall's family: values worked out by hand or printed in the sources."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from kernels import reference, reference_rbo
from kernels.reference_kendall import with_weights
from kernels.reference_rbo import tied
from monitor.kernels import align
from monitor.kernels.alignment import Alignment
from monitor.kernels.kendall.element_weighted import (
    element_weighted_kendall_distance,
    element_weighted_kendall_distance_normalized,
    element_weighted_tau,
    generalized_kendall_distance,
    position_weighted_kendall_distance,
)
from monitor.kernels.kendall.extended import appended_tau, extended_tau, extended_tau_unscaled
from monitor.kernels.kendall.ties import rank_tied
from monitor.kernels.kendall.unweighted import (
    kendall_distance,
    kendall_distance_normalized,
    kendall_tau,
    topk_kendall,
    topk_kendall_normalized,
)
from monitor.kernels.kendall.weighted import tau_ap, tau_ap_symmetric, weighted_tau
from monitor.model.arrays import Floats

APPLE, PEAR, BANANA, KIWI, GRAPE, LEMON, TOMATO, PINEAPPLE, ORANGE, PLUM = range(10)
FRUITS = [APPLE, PEAR, BANANA, KIWI, GRAPE]


def pair(a: list[int], b: list[int]) -> Alignment:
    return align(reference.batch([(a, b)]))


def weighed(a: list[int], b: list[int], weights: dict[int, float]) -> Alignment:
    return align(with_weights([(a, b)], weights))


@pytest.mark.parametrize(
    ("other", "expected", "printed"),
    [
        (FRUITS, 1.0, 1.0),
        ([APPLE, PEAR, BANANA, KIWI, LEMON], 29 / 35, 0.83),
        ([GRAPE, KIWI, BANANA, PEAR, APPLE], 3 / 7, 0.43),
        ([TOMATO, PEAR, BANANA, KIWI, GRAPE], 13 / 35, 0.37),
        ([LEMON, TOMATO, APPLE, PINEAPPLE, GRAPE], -8 / 35, -0.23),
        ([ORANGE, TOMATO, PINEAPPLE, LEMON, PLUM], -5 / 7, -0.71),
    ],
)
def test_extended_tau_before_scaling_gives_van_der_geers_table(other: list[int], expected: float, printed: float) -> None:
    found = extended_tau_unscaled(pair(FRUITS, other))[0]

    assert found == pytest.approx(expected, abs=1e-15)
    assert round(found, 2) == printed


@pytest.mark.parametrize("length", [1, 2, 5, 10, 50, 300])
def test_extended_tau_of_disjoint_lists_depends_on_the_length_until_it_is_scaled(length: int) -> None:
    alignment = pair(list(range(length)), list(range(length, 2 * length)))

    assert extended_tau_unscaled(alignment)[0] == pytest.approx(-2 * length / (3 * length - 1), abs=1e-15)
    assert extended_tau(alignment)[0] == -1.0


@pytest.mark.parametrize(
    ("one", "other", "expected", "printed"),
    [
        ([PINEAPPLE, APPLE, PEAR, KIWI, GRAPE], [APPLE, PEAR, BANANA, KIWI, ORANGE], 3 / 20, 0.15),
        (FRUITS, [APPLE, PEAR, BANANA, KIWI, ORANGE], 13 / 15, 0.87),
        (FRUITS, [ORANGE, PEAR, BANANA, KIWI, GRAPE], -1 / 5, -0.20),
        (FRUITS, [ORANGE, PEAR, PINEAPPLE, KIWI, GRAPE], -9 / 20, -0.45),
        (FRUITS, [ORANGE, TOMATO, PINEAPPLE, LEMON, PLUM], -5 / 7, -0.71),
        (FRUITS, [GRAPE, KIWI, BANANA, PEAR, APPLE], -1.0, -1.0),
    ],
)
def test_appended_tau_gives_van_der_geers_examples(one: list[int], other: list[int], expected: float, printed: float) -> None:
    found = appended_tau(pair(one, other))[0]

    assert found == pytest.approx(expected, abs=1e-15)
    assert round(found, 2) == printed


def test_appended_tau_takes_a_list_without_the_last_item_for_the_whole() -> None:
    assert appended_tau(pair([1, 2, 3], [1, 2]))[0] == 1.0
    assert appended_tau(pair([1, 2, 3, 4], [1, 2]))[0] < 1.0


def test_plain_tau_of_van_der_geers_example_is_a_third_with_and_without_mismatches() -> None:
    kept = [APPLE, PEAR, BANANA, KIWI], [PEAR, BANANA, APPLE, KIWI]
    mixed = [APPLE, PEAR, BANANA, KIWI, PINEAPPLE], [PEAR, ORANGE, BANANA, APPLE, KIWI]

    assert kendall_tau(pair(*kept))[0] == 2 / 6
    assert kendall_tau(pair(*mixed))[0] == 2 / 6


def test_kendall_distance_counts_the_pairs_in_opposite_order() -> None:
    alignment = pair([1, 2, 3, 9], [8, 3, 1, 2])

    assert kendall_distance(alignment)[0] == 2.0
    assert kendall_distance_normalized(alignment)[0] == 2 / 3
    assert kendall_tau(alignment)[0] == pytest.approx(-1 / 3, abs=1e-15)


def test_tau_b_of_tied_lists_is_worked_by_hand() -> None:
    # 1 2=3 against 1=2 3: of three pairs one is tied in each list, in none is the order opposite, one is in the same order.
    alignment = align(reference_rbo.batch([(tied([1], [2, 3]), tied([1, 2], [3]))]))

    assert kendall_tau(alignment)[0] == pytest.approx(1 / 2, abs=1e-15)


@pytest.mark.parametrize("measure", [kendall_tau, weighted_tau])
def test_taus_of_a_list_that_is_one_tie_are_undefined(measure: Callable[[Alignment], Floats]) -> None:
    assert math.isnan(measure(align(reference_rbo.batch([(tied([1, 2, 3]), tied([1], [2], [3]))])))[0])


@pytest.mark.parametrize(("penalty", "expected"), [(0.0, 5.0), (0.5, 6.0), (1.0, 7.0)])
def test_topk_kendall_takes_each_of_the_four_cases(penalty: float, expected: float) -> None:
    # 1 2 3 against 4 1 5. Case 2: 4 stands above 1, of which only the second list holds 4. Case 3: 2 and 3 against 4 and 5.
    # Case 4: {2, 3} and {4, 5}.
    alignment = pair([1, 2, 3], [4, 1, 5])

    assert topk_kendall(alignment, penalty)[0] == expected
    assert topk_kendall_normalized(alignment, penalty)[0] == expected / (9 + penalty * 6)


def test_topk_kendall_of_uneven_lists_is_worked_by_hand() -> None:
    # 1 against 2 1 3 4: 2 stands above 1 (case 2), {2, 3}, {2, 4} and {3, 4} are unknown to the first list.
    alignment = pair([1], [2, 1, 3, 4])

    assert topk_kendall(alignment, 0.5)[0] == 2.5
    assert topk_kendall_normalized(alignment, 0.5)[0] == 2.5 / (4 + 0.5 * 6)


def test_weighted_tau_of_a_swap_at_the_top_is_worked_by_hand_and_costs_more_than_one_at_the_bottom() -> None:
    # Three items: pairs weigh 3/2, 4/3 and 5/6, together 11/3; the swap costs its 3/2 twice.
    top, bottom = weighted_tau(align(reference.batch([([1, 2, 3], [2, 1, 3]), ([1, 2, 3], [1, 3, 2])])))

    assert top == pytest.approx(1 - 2 * (3 / 2) / (11 / 3), abs=1e-15)
    assert bottom == pytest.approx(1 - 2 * (5 / 6) / (11 / 3), abs=1e-15)


def test_weighted_tau_of_tied_lists_is_worked_by_hand() -> None:
    # 1 2=3 against 1 2 3, ranks by either list 0 1 2: the pairs of 1 agree and weigh 3/2 and 4/3, that of 2 and 3 weighs 5/6
    # and is tied in one list.
    found = weighted_tau(align(reference_rbo.batch([(tied([1], [2, 3]), tied([1], [2], [3]))])))[0]

    assert found == pytest.approx((17 / 6) / math.sqrt(17 / 6 * 11 / 3), abs=1e-15)


def test_weighted_tau_of_a_tie_against_the_reverse_is_worked_by_hand() -> None:
    # 1 2=3 against 3 2 1: nothing agrees; the pairs of 1 weigh 3/2 and 4/3 by the one list, 4/3 and 5/6 by the other.
    found = weighted_tau(align(reference_rbo.batch([(tied([1], [2, 3]), tied([3], [2], [1]))])))[0]
    assert found == pytest.approx(-(math.sqrt(17 / 6) + math.sqrt(13 / 6)) / (2 * math.sqrt(11 / 3)), abs=1e-15)


def test_tau_ap_reads_the_candidate_against_the_baseline() -> None:
    # Candidate 2 1 3: below 2 nothing above 1 is right, above 3 both are. Candidate 3 1 2: 0, then 1 of 2.
    swapped, moved = tau_ap(align(reference.batch([([1, 2, 3], [2, 1, 3]), ([1, 2, 3], [3, 1, 2])])))

    assert swapped == 2 / 2 * (0 + 1) - 1
    assert moved == 2 / 2 * (0 + 1 / 2) - 1


def test_tau_ap_is_not_symmetric_and_its_mean_is() -> None:
    alignment = align(reference.batch([([1, 2, 3, 4], [3, 1, 2, 4]), ([3, 1, 2, 4], [1, 2, 3, 4])]))

    one, other = tau_ap(alignment)

    assert one == pytest.approx(2 / 3 * (0 + 1 / 2 + 1) - 1, abs=1e-15)
    assert other == pytest.approx(2 / 3 * (1 + 0 + 1) - 1, abs=1e-15)
    assert tau_ap_symmetric(alignment).tolist() == [(one + other) / 2] * 2


def test_element_weighted_tau_counts_an_item_of_weight_two_as_two() -> None:
    # 1 1' 2 against 2 1 1', copies tied: of S = 9 + 2 - 2 * 2 = 7 and D = 9 + 2.
    found = element_weighted_tau(weighed([1, 2], [2, 1], {1: 2.0, 2: 1.0}))[0]

    assert found == pytest.approx((2 * 7 + 9 - 11) / (11 + 9), abs=1e-15)


def test_element_weights_make_heavy_items_cost_more() -> None:
    weights = {1: 5.0, 2: 3.0, 3: 1.0}
    heavy, light = weighed([1, 2, 3], [2, 1, 3], weights), weighed([1, 2, 3], [1, 3, 2], weights)

    assert element_weighted_kendall_distance(heavy)[0] == 15.0
    assert element_weighted_kendall_distance(light)[0] == 3.0
    assert element_weighted_kendall_distance_normalized(heavy)[0] == 15 / 23
    assert element_weighted_tau(heavy)[0] < element_weighted_tau(light)[0]


def test_position_weights_make_a_swap_at_the_top_cost_one_and_less_below() -> None:
    # Hyperbolic: a step between ranks 1 and 2 is worth 1/2, between 2 and 3 1/6, a third of it, paid by both items.
    batch = align(reference.batch([([1, 2, 3], [2, 1, 3]), ([1, 2, 3], [1, 3, 2]), ([1, 2, 3], [3, 2, 1])]))

    top, bottom, reverse = position_weighted_kendall_distance(batch, "hyperbolic")

    assert top == 1.0
    assert bottom == pytest.approx(1 / 9, abs=1e-15)
    # 1 and 3 pay (1 + 1/3) / 2 a step, 2 keeps its rank and pays 1: 2/3 + 2/3 + 4/9.
    assert reverse == pytest.approx(16 / 9, abs=1e-15)


def test_dcg_steps_fall_with_the_discount() -> None:
    top, bottom = position_weighted_kendall_distance(
        align(reference.batch([([1, 2, 3], [2, 1, 3]), ([1, 2, 3], [1, 3, 2])])), "dcg"
    )
    step = (1 / math.log2(3) - 1 / 2) / (1 - 1 / math.log2(3))

    assert (top, bottom) == (1.0, pytest.approx(step**2, abs=1e-15))


def test_element_and_position_weights_multiply() -> None:
    found = generalized_kendall_distance(weighed([1, 2, 3], [1, 3, 2], {1: 5.0, 2: 3.0, 3: 2.0}), "hyperbolic")[0]

    assert found == pytest.approx(3 * 2 / 9, abs=1e-15)


def test_measures_of_the_items_in_common_are_undefined_below_two() -> None:
    pairs = [([1, 2], [2, 9]), ([1], [1]), ([1, 2], [8, 9]), ([1], []), ([], [])]
    alignment = align(with_weights(pairs, dict.fromkeys(range(10), 1.0)))

    for measure in (
        kendall_tau,
        kendall_distance,
        kendall_distance_normalized,
        weighted_tau,
        tau_ap,
        tau_ap_symmetric,
        element_weighted_kendall_distance,
        element_weighted_kendall_distance_normalized,
        lambda each: position_weighted_kendall_distance(each, "dcg"),
        lambda each: generalized_kendall_distance(each, "dcg"),
    ):
        assert np.isnan(measure(alignment)).all()


def test_weights_and_scores_are_asked_for_in_words() -> None:
    with pytest.raises(ValueError, match="without weights"):
        element_weighted_tau(pair([1], [2]))
    with pytest.raises(ValueError, match="without scores"):
        rank_tied(pair([1], [2]), np.arange(1))


@pytest.mark.parametrize("length", [2, 3, 10, 49, 120])
def test_the_ends_of_the_range_are_met_exactly(length: int) -> None:
    top = list(range(length))
    weights = {item: 0.1 + item % 7 / 3 for item in range(2 * length)}
    alignment = align(with_weights([(top, top), (top, top[::-1]), (top, list(range(length, 2 * length)))], weights))

    for measure in (kendall_tau, weighted_tau, tau_ap, tau_ap_symmetric, appended_tau):
        assert measure(alignment)[0] == 1.0
        assert -1.0 <= measure(alignment)[1] == pytest.approx(-1.0, abs=1e-14)
    assert kendall_distance_normalized(alignment)[:2].tolist() == [0.0, 1.0]
    assert element_weighted_tau(alignment)[[0, 2]].tolist() == [1.0, -1.0]
    assert element_weighted_kendall_distance_normalized(alignment)[:2].tolist() == pytest.approx([0.0, 1.0], abs=1e-14)
    assert topk_kendall_normalized(alignment, 0.5)[[0, 2]].tolist() == [0.0, 1.0]
