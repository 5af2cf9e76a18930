import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.attribution.item_shifts import compare_exposure
from monitor.kernels.relevance import rank_discounts

Lists = list[list[int]]

lists = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=5), max_size=8)


def codes(drawn: Lists, k: int = 5) -> np.ndarray:
    return reference.batch([(ranking, []) for ranking in drawn], k).baseline


def test_ranks_weigh_as_in_discounted_gain() -> None:
    assert rank_discounts(4) == pytest.approx([1, 0.63092975, 0.5, 0.43067656])


def test_exposure_moves_as_by_hand() -> None:
    """7 leaves the top of one list of two; 8 comes in its place, and 9 swaps places with 5 in the other list."""
    found = compare_exposure(codes([[7, 1], [9, 5]]), codes([[8, 1], [5, 9]]), 10)
    second = 1 / math.log2(3)
    assert [item.item for item in (*found.gained, *found.lost)] == ["8", "5", "7", "9"]
    assert [item.after - item.before for item in found.gained] == pytest.approx([0.5, (1 - second) / 2])
    assert [item.after - item.before for item in found.lost] == pytest.approx([-0.5, (second - 1) / 2])
    assert (found.entered, found.left) == (1, 1)
    assert (found.lost[0].share_before, found.lost[0].share_after) == (0.5, 0)


def test_only_the_top_is_told_and_equals_go_by_code() -> None:
    found = compare_exposure(codes([[1], [2], [3]]), codes([[6], [5], [4]]), 2)
    assert [item.item for item in found.gained] == ["4", "5"]
    assert [item.item for item in found.lost] == ["1", "2"]
    assert (found.entered, found.left) == (3, 3)


def test_exposure_is_per_list_so_that_more_users_change_nothing() -> None:
    found = compare_exposure(codes([[1, 2]]), codes([[1, 2]] * 3), 5)
    assert (found.gained, found.lost, found.entered, found.left) == ((), (), 0, 0)


@pytest.mark.parametrize(("before", "after"), [([], []), ([[]], [[]]), ([], [[1]]), ([[1]], [])])
def test_a_side_without_lists_exposes_nothing(before: Lists, after: Lists) -> None:
    found = compare_exposure(codes(before), codes(after), 3)
    assert len(found.gained) == (after == [[1]])
    assert len(found.lost) == (before == [[1]])


@given(lists, lists)
def test_exposure_agrees_with_adding_up_place_by_place(before: Lists, after: Lists) -> None:
    change: Counter[int] = Counter()
    for sign, drawn in ((-1, before), (1, after)):
        for ranking in drawn:
            for rank, item in enumerate(ranking, 1):
                change[item] += sign / math.log2(rank + 1) / len(drawn)  # type: ignore[assignment]
    found = compare_exposure(codes(before), codes(after), 20)
    told = {int(item.item): item.after - item.before for item in (*found.gained, *found.lost)}
    expected = {item: amount for item, amount in change.items() if abs(amount) > 1e-12}
    assert told == pytest.approx(expected, abs=1e-12)
    ours, theirs = ({item for ranking in drawn for item in ranking} for drawn in (before, after))
    assert (found.entered, found.left) == (len(theirs - ours), len(ours - theirs))
    amounts = [item.after - item.before for item in found.gained]
    assert amounts == sorted(amounts, reverse=True)


@given(lists, st.randoms())
def test_the_order_of_lists_changes_no_bit(drawn: Lists, random: Random) -> None:
    shuffled = random.sample(drawn, len(drawn))
    assert compare_exposure(codes([[1]]), codes(drawn), 20) == compare_exposure(codes([[1]]), codes(shuffled), 20)
