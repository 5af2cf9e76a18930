"""Values worked out by hand or printed in the sources."""

import math

import numpy as np
import pytest

from kernels import reference
from monitor.kernels import align
from monitor.kernels.kendall.extended import extended_tau
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.sets import overlap

APPLE, PEAR, BANANA, KIWI, GRAPE, LEMON, TOMATO, PINEAPPLE, ORANGE, FIG = range(10)
FRUITS = [APPLE, PEAR, BANANA, KIWI, GRAPE]

pytestmark = pytest.mark.usefixtures("way")


def tau(a: list[int], b: list[int]) -> float:
    return float(extended_tau(align(reference.batch([(a, b)])))[0])


def rbo_of(a: list[int], b: list[int], p: float) -> float:
    return float(rbo(align(reference.batch([(a, b)])), p)[0])


def overlap_of(a: list[int], b: list[int]) -> float:
    return float(overlap(align(reference.batch([(a, b)])))[0])


def unscaled(scaled: float, length: int) -> float:
    low = -2 * length / (3 * length - 1)
    return low + (scaled + 1) * (1 - low) / 2


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (FRUITS, 1.0),
        ([APPLE, PEAR, BANANA, KIWI, LEMON], 0.83),
        ([GRAPE, KIWI, BANANA, PEAR, APPLE], 0.43),
        ([LEMON, PEAR, BANANA, KIWI, GRAPE], 0.37),
        ([LEMON, TOMATO, APPLE, PINEAPPLE, GRAPE], -0.23),
        ([LEMON, TOMATO, PINEAPPLE, ORANGE, FIG], -0.71),
    ],
)
def test_extended_tau_gives_van_der_geers_table(other: list[int], expected: float) -> None:
    assert round(unscaled(tau(FRUITS, other), 5), 2) == expected


def test_extended_tau_of_a_reversed_top_ten_is_0_2653() -> None:
    top = list(range(10))

    assert tau(top, top[::-1]) == pytest.approx((55 / 145 + 20 / 29) * 2 / (1 + 20 / 29) - 1, abs=1e-15)
    assert round(tau(top, top[::-1]), 4) == 0.2653


def test_extended_tau_of_single_items_is_one_or_minus_one() -> None:
    assert (tau([3], [3]), tau([3], [4])) == (1.0, -1.0)


def test_extended_tau_of_one_item_against_two_is_worked_by_hand() -> None:
    # Universe of 3: ranks 0 1 1 against 0 1 2. S = 2 of D = sqrt(2 * 3); disjoint S = -2.
    low, value = -2 / math.sqrt(6), 2 / math.sqrt(6)

    assert tau([1], [1, 2]) == pytest.approx(2 * (value - low) / (1 - low) - 1, abs=1e-15)


@pytest.mark.parametrize(("p", "expected"), [(0.9, 0.782775), (0.75, 0.5361328125)])
def test_rbo_gives_the_film_example(p: float, expected: float) -> None:
    assert rbo_of([1, 2, 3, 4, 5, 6, 78], [2, 4, 5, 1, 3, 6, 78], p) == pytest.approx(expected, abs=1e-12)


def test_rbo_of_uneven_lists_follows_equation_32() -> None:
    assert rbo_of([1, 2, 3, 4, 5, 6, 7], [1, 3, 2, 4, 5, 7, 6, 8], 0.9) == pytest.approx(0.9451585, abs=1e-7)


def test_rbo_of_a_swap_at_the_top_is_worked_by_hand() -> None:
    # Agreement is 0 at depth 1 and 1 from depth 2 on, so only the first rank's weight 1 - p is lost.
    assert rbo_of([1, 2], [2, 1], 0.9) == pytest.approx(0.9, abs=1e-15)


def test_overlap_is_shared_items_by_the_longer_length() -> None:
    assert overlap_of([1, 2, 3, 4], [4, 9, 1, 8]) == 0.5
    assert overlap_of([1, 2], [1, 2, 3, 4]) == 0.5
    assert overlap_of([1, 2], [2, 1]) == 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 50, 100, 120])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 0.98, 0.9999])
def test_identical_and_disjoint_lists_score_exactly_the_ends_of_the_range(length: int, p: float) -> None:
    top = list(range(length))
    others = list(range(length, 2 * length))
    alignment = align(reference.batch([(top, top), (top, others), (top[:1], top), (others[: length // 2 + 1], top)]))

    assert extended_tau(alignment)[[0, 1, 3]].tolist() == [1.0, -1.0, -1.0]
    assert overlap(alignment)[[0, 1, 3]].tolist() == [1.0, 0.0, 0.0]
    assert rbo(alignment, p).tolist() == [1.0, 0.0, 1.0, 0.0]
    assert rbo(align(reference.batch([(top, top)])), p).tolist() == [1.0]


def test_empty_lists_have_their_stated_values() -> None:
    alignment = align(reference.batch([([1, 2], []), ([], [1]), ([], [])]))

    np.testing.assert_array_equal(extended_tau(alignment), [-1, -1, np.nan])
    np.testing.assert_array_equal(rbo(alignment, 0.9), [0, 0, np.nan])
    np.testing.assert_array_equal(overlap(alignment), [0, 0, np.nan])


def test_a_batch_of_nothing_but_empty_lists_is_undefined_throughout() -> None:
    alignment = align(reference.batch([([], []), ([], [])], k=3))

    assert np.isnan([extended_tau(alignment), rbo(alignment, 0.9), overlap(alignment)]).all()


def test_no_pairs_give_no_scores() -> None:
    alignment = align(reference.batch([], k=3))

    assert [len(extended_tau(alignment)), len(rbo(alignment, 0.9)), len(overlap(alignment))] == [0, 0, 0]
