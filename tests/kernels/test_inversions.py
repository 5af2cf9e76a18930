"""Inversions, counted two by two or by merging."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.conftest import limit_all_pairs
from monitor.kernels.engines.positions import inversions


@pytest.mark.parametrize("longest", [0, 255])
@given(columns=st.integers(1, 40).flatmap(lambda k: st.lists(st.lists(st.integers(0, k), min_size=k, max_size=k), min_size=1)))
def test_inversions_are_pairs_in_wrong_order_and_ties_are_none(longest: int, columns: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        limit_all_pairs(patch, longest)
        found = inversions(np.array(columns, dtype=np.uint8).T.copy())

    assert found.tolist() == [sum(x > y for i, y in enumerate(ranks) for x in ranks[:i]) for ranks in columns]


@pytest.mark.parametrize("k", [255, 256, 257, 1000, 2500, 2501])
def test_a_long_list_reversed_inverts_every_pair(k: int) -> None:
    ranks = np.arange(k, 0, -1, dtype=np.min_scalar_type(k)).reshape(-1, 1)

    assert inversions(ranks).tolist() == [k * (k - 1) // 2]
