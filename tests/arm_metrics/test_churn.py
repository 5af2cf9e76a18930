"""Churn of lists against the last run's."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.exposure import churn

RANKING = st.lists(st.integers(0, 9), unique=True, max_size=5)
UNKNOWN = -7


def padded(rows: list[list[int]], k: int) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array([row + [-1] * (k - len(row)) for row in rows], dtype=np.int32).reshape(-1, k)
    return codes, np.array([len(row) for row in rows], dtype=np.int32)


def test_churn_of_worked_lists() -> None:
    now = padded([[1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1, 2, 3], []], 3)
    last = padded([[3, 1, 2], [1, 2, 9], [7, 8, 9], [1, 2], [], [1]], 3)

    np.testing.assert_array_equal(churn(*now, *last), [0, 1 / 3, 1, 1 / 2, math.nan, math.nan])


def test_an_item_that_this_run_does_not_hold_counts_in_the_length_of_the_last_list() -> None:
    now = padded([[1, 2, 3]], 3)
    last = padded([[UNKNOWN, 1, -1]], 3)

    assert churn(*now, *last).tolist() == [2 / 3]


def test_the_last_list_is_cut_to_the_present_depth() -> None:
    assert churn(*padded([[1, 2]], 2), *padded([[2, 9, 1]], 3)).tolist() == [1 / 2]


@given(st.lists(st.tuples(RANKING, RANKING), max_size=6), st.integers(1, 6), st.integers(5, 7))
def test_churn_is_its_definition(pairs: list[tuple[list[int], list[int]]], k: int, width: int) -> None:
    now, last = [a[:k] for a, _ in pairs], [b for _, b in pairs]
    # Items 8 and 9 are of the last run alone.
    now = [[item for item in row if item < 8] for row in now]
    coded = [[item if item < 8 else UNKNOWN for item in row] for row in last]

    found = churn(*padded(now, k), *padded(coded, width))

    expected = [
        1 - len(set(a) & set(b[:k])) / max(len(a), len(b[:k])) if a and b else math.nan for a, b in zip(now, last, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
