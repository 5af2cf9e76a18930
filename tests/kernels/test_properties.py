"""What holds for any two lists, beside what is checked for every metric in tests/metrics."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.kernels import align, alignment
from monitor.kernels.kendall.unweighted import extended_tau
from monitor.kernels.rbo.bounds import rbo, rbo_max, rbo_min, rbo_truncated
from monitor.kernels.rbo.weight import rbo_weight
from monitor.kernels.sets import average_overlap, jaccard, overlap


@given(ranking=st.lists(st.integers(0, 14), unique=True, min_size=1, max_size=12), p=st.floats(0.001, 0.999), data=st.data())
def test_a_prefix_may_turn_out_the_whole(ranking: list[int], p: float, data: st.DataObject) -> None:
    seen = data.draw(st.integers(1, len(ranking)))
    pair = align(reference.batch([(ranking[:seen], ranking)]))

    assert rbo(pair, p)[0] == rbo_max(pair, p)[0] == 1.0
    assert rbo_truncated(pair, p)[0] == pytest.approx(1 - p**seen, abs=1e-14)
    assert rbo_min(pair, p)[0] == pytest.approx(rbo_weight(p, seen), abs=1e-14)
    assert overlap(pair)[0] == jaccard(pair)[0] == seen / len(ranking)
    for measure in (extended_tau, average_overlap):
        assert (measure(pair)[0] < 1) == (seen < len(ranking))


@pytest.mark.parametrize(("cells", "k", "bounds"), [(1, 3, [0, 1, 2, 3]), (6, 3, [0, 2, 3]), (2, 1, [0, 2, 3])])
def test_blocks_are_all_rows_in_order(cells: int, k: int, bounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "BLOCK_CELLS", cells)

    found = [rows for rows, _ in alignment.blocks(reference.batch([([1], [1])] * 3, k=k))]

    assert found == list(itertools.starmap(slice, itertools.pairwise(bounds)))


def test_items_whose_codes_differ_in_their_high_bytes_alone_are_others() -> None:
    for one, other in (([65_537, 65_535], [1]), (list(range(64)), [2**25 + item for item in range(64)])):
        assert overlap(align(reference.batch([(one, other)])))[0] == 0.0
