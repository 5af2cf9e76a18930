"""Both ways of counting inversions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.kernels.engines.inversions import inversions, inversions_by_all_pairs, inversions_by_merging


@pytest.mark.parametrize("count", [inversions_by_all_pairs, inversions_by_merging])
@given(columns=st.integers(1, 40).flatmap(lambda k: st.lists(st.lists(st.integers(0, k), min_size=k, max_size=k), min_size=1)))
def test_inversions_are_pairs_in_wrong_order_and_ties_are_none(count, columns) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 - drawn
    found = count(np.array(columns, dtype=np.uint8).T.copy())

    assert found.tolist() == [sum(x > y for i, y in enumerate(ranks) for x in ranks[:i]) for ranks in columns]


def test_the_most_inversions_that_bytes_must_hold_do_not_overflow() -> None:
    ranks = np.arange(255, 0, -1, dtype=np.uint8).reshape(-1, 1)

    assert inversions(ranks).tolist() == [255 * 254 // 2]


@pytest.mark.parametrize("k", [256, 257, 1000, 2500, 2501])
def test_a_long_list_reversed_inverts_every_pair(k: int) -> None:
    ranks = np.arange(k, 0, -1, dtype=np.uint16).reshape(-1, 1)

    assert inversions(ranks).tolist() == [k * (k - 1) // 2]
