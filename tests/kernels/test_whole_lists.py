"""Lists as wholes: shared, unchanged, reordered."""

from collections import Counter
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.whole_lists import first_differs, is_top_reversed, is_unchanged, largest_group, number_repeated

RANKING = st.lists(st.integers(0, 4), unique=True, max_size=4)


def padded(rows: list[list[int]], k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array([row + [-1] * (k - len(row)) for row in rows], dtype=np.int32).reshape(-1, k)
    return codes, np.array([len(row) for row in rows], dtype=np.int32)


@given(st.lists(RANKING, max_size=12))
def test_the_largest_group_is_that_of_the_most_common_list(rows: list[list[int]]) -> None:
    numbers = number_repeated(padded(rows)[0])
    counts = Counter(tuple(row) for row in rows if row)

    assert largest_group(numbers) == max(counts.values(), default=1)
    assert [number >= 0 for number in numbers] == [counts[tuple(row)] > 1 for row in rows]


def test_lists_are_told_apart_by_order_and_length_and_many_random_ones_by_their_hash() -> None:
    many = np.random.default_rng(1).integers(0, 12, (100_000, 4), dtype=np.int32)
    counts = Counter(map(tuple, many.tolist()))
    assert largest_group(number_repeated(many)) == max(counts.values())
    assert number_repeated(padded([[1, 2], [2, 1], [1], [0, 1], [1, 2, 3], []])[0]).max() == -1


def test_a_list_is_unchanged_item_by_item_and_cut_to_the_present_depth() -> None:
    now = padded([[1, 2], [1, 2], [1, 2], [1], [1, 2], [], [1]], 2)
    last = padded([[1, 2, 3], [2, 1], [1, -7], [1, 2], [], [1], [1]], 3)

    np.testing.assert_array_equal(is_unchanged(*now, *last), [1, 0, 0, 0, np.nan, np.nan, 1])
    narrow = padded([[1], [1]], 1)
    np.testing.assert_array_equal(is_unchanged(*padded([[1, 2], [1]], 2), *narrow), [0, 1])


@given(st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=8))
def test_first_items_are_compared_by_their_definition(pairs: list[tuple[list[int], list[int]]]) -> None:
    baseline, candidate = (padded(list(rows))[0] for rows in zip(*pairs, strict=True))
    reversed_, first = [], []
    for one, other in ((a[:3], b[:3]) for a, b in pairs):
        swapped = sum(other.index(x) > other.index(y) for x, y in combinations(one, 2)) if set(one) == set(other) else 0
        reversed_.append(float(swapped >= 2) if len(one) == 3 and set(one) == set(other) else np.nan)
        first.append(float(one[0] != other[0]) if one and other else np.nan)

    np.testing.assert_array_equal(is_top_reversed(baseline, candidate), reversed_)
    np.testing.assert_array_equal(first_differs(baseline, candidate), first)
    assert np.isnan(is_top_reversed(baseline[:, :2], candidate[:, :2])).all()
