"""Hashes of lists: the same for the same items at the same places, however ids are coded, and others for all else."""

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from factories import panel, pull
from monitor.kernels.fingerprints import hash_lists, mix
from monitor.pairing.ids import hash_ids
from monitor.pairing.pairs import pair

LISTS = st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), min_size=2, max_size=8)


def test_mixing_is_the_finalizer_of_splitmix64() -> None:
    """Its first numbers for the seed 1234567, as published with its code."""
    states = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(lists=LISTS)
def test_lists_hash_alike_exactly_where_they_are_alike_coded_or_not(lists: list[list[int]]) -> None:
    codes = np.array([items + [-1] * (4 - len(items)) for items in lists], dtype=np.int32)
    plain = hash_lists(codes).tolist()
    assert [plain.index(each) for each in plain] == [lists.index(each) for each in lists]
    order = np.array([3, 0, 5, 1, 4, 2])
    coded = np.where(codes < 0, -1, np.argsort(order)[codes]).astype(np.int32)
    for spelled in (pd.Index(order), pd.Index(order.astype(str)), pd.Index(order.astype(str), dtype=object)):
        assert hash_lists(coded, hash_ids(spelled)).tolist() == plain


Lists = dict[str, list[Any]]


def hashes(baseline: Lists, candidate: Lists) -> list[int]:
    found: list[int] = pair(panel("a", "b"), pull(baseline), pull(candidate), 3).input_hashes.tolist()
    return found


def test_a_user_s_input_is_both_lists_cut_to_k_and_which_arm_has_which() -> None:
    lists: tuple[Lists, Lists] = {"a": ["x", "y"], "b": [7, 8, 9, 1]}, {"a": [7], "b": ["7", "8", "9"]}
    whole = hashes(*lists)
    assert whole == hashes({"b": ["7", "8", "9", "2"], "a": ["x", "y"]}, lists[1])
    for baseline, candidate in ((lists[1], lists[0]), ({**lists[0], "a": []}, lists[1]), ({"b": lists[0]["b"]}, lists[1])):
        other = hashes(baseline, candidate)
        assert other[0] != whole[0]
    assert len({*hashes({}, {"a": []}), *hashes({"a": []}, {}), *hashes({"a": []}, {"a": []})}) == 4
