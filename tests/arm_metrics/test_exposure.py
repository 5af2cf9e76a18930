"""Exposure and distance kernels: worked values, definitions, and scipy."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.exposure import catalogue_coverage, compact_codes, count_items, entropy, gini, kolmogorov_smirnov

COUNTS = st.lists(st.integers(1, 50), min_size=1, max_size=20)


def gini_by_definition(exposure: list[int]) -> float:
    """Mean absolute difference of all pairs, by twice the mean."""
    n = len(exposure)
    return sum(abs(x - y) for x in exposure for y in exposure) / (2 * n * n * (sum(exposure) / n))


def test_gini_of_worked_exposures() -> None:
    assert gini(np.array([5, 5, 5]), 3) == 0
    assert gini(np.array([7]), 4) == 1 - 1 / 4
    assert gini(np.array([1, 3]), 2) == 0.25
    assert gini(np.array([3, 1]), 4) == pytest.approx((6 * 1 + 8 * 3 - 5 * 4) / (4 * 4), abs=1e-15)


@given(counts=COUNTS, unlisted=st.integers(0, 30))
def test_gini_is_its_definition_with_items_never_listed_as_zeros(counts: list[int], unlisted: int) -> None:
    found = gini(np.array(counts), len(counts) + unlisted)

    assert found == pytest.approx(gini_by_definition(counts + [0] * unlisted), abs=1e-12)
    assert -1e-15 <= found <= 1 - 1 / (len(counts) + unlisted) + 1e-15


def test_gini_of_a_huge_catalogue_costs_no_memory() -> None:
    assert gini(np.array([1, 1]), 10**12) == pytest.approx(1 - 2e-12, abs=1e-15)


def test_entropy_of_worked_exposures_is_in_bits() -> None:
    assert entropy(np.array([4])) == 0
    assert entropy(np.array([3, 3, 3, 3])) == 2
    assert entropy(np.array([2, 1, 1])) == 1.5


@given(counts=COUNTS)
def test_entropy_is_scipys(counts: list[int]) -> None:
    assert entropy(np.array(counts)) == pytest.approx(scipy.stats.entropy(counts, base=2), abs=1e-12)


def test_coverage_is_the_share_of_the_catalogue() -> None:
    assert catalogue_coverage(np.array([9, 1]), 8) == 0.25


def test_samples_that_are_equal_are_at_zero_and_separate_ones_at_one() -> None:
    low, high = np.array([1.0, 2.0, 2.0]), np.array([3.0, math.inf])

    assert kolmogorov_smirnov(low, low[::-1]) == 0
    assert kolmogorov_smirnov(low, high) == kolmogorov_smirnov(high, low) == 1
    assert kolmogorov_smirnov(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 6.0])) == 0.5


@given(*[st.lists(st.integers(-5, 5).map(float), min_size=3, max_size=30)] * 2)
def test_the_distance_is_scipys(baseline: list[float], candidate: list[float]) -> None:
    expected = scipy.stats.ks_2samp(baseline, candidate, method="asymp").statistic

    assert kolmogorov_smirnov(np.array(baseline), np.array(candidate)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", [1, 100_000_000])
def test_codes_are_numbered_over_both_arms_whether_dense_or_not(scale: int) -> None:
    baseline = np.array([[7, 3, -1], [20, -1, -1]], dtype=np.int32)
    candidate = np.array([[3, 5, 7], [-1, -1, -1]], dtype=np.int32)
    wide = [np.where(codes < 0, codes, codes * scale) for codes in (baseline, candidate)]

    ours, theirs, items = compact_codes(wide[0], wide[1])

    assert items.tolist() == [3 * scale, 5 * scale, 7 * scale, 20 * scale]
    assert ours.tolist() == [[2, 0, -1], [3, -1, -1]]
    assert theirs.tolist() == [[0, 1, 2], [-1, -1, -1]]


@pytest.mark.parametrize("items", [4, 1_000_000])
def test_items_are_counted_whether_there_are_few_or_many(items: int) -> None:
    found, counts = count_items(np.array([[3, 0], [2, 2], [3, -1]], dtype=np.int32), np.array([0, 2]), items)

    assert (found.tolist(), counts.tolist()) == ([0, 3], [1, 2])


def test_no_lists_list_nothing() -> None:
    nothing = np.empty((0, 3), dtype=np.int32)

    assert [len(part) for part in compact_codes(nothing, nothing)] == [0, 0, 0]
    assert [len(part) for part in count_items(nothing, np.arange(0), 5)] == [0, 0]
    assert [len(part) for part in count_items(np.full((1, 3), -1, dtype=np.int32), np.arange(1), 1)] == [0, 0]
