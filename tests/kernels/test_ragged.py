"""pad: cut, drop duplicates, pad."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from monitor.measures.kernels import pad, ragged


@given(
    all_pairs_max_k=st.sampled_from([0, 40]),
    block_cells=st.sampled_from([1, 13, 1 << 18]),
    lists=st.lists(st.lists(st.integers(0, 6), max_size=9), max_size=9),
    k=st.integers(1, 8),
    kind=st.sampled_from([(np.int32, 6), (np.int32, 2**31 - 1), (np.int64, 2**31 - 1)]),
)
def test_pad_equals_plain_python_and_leaves_the_codes_as_they_are(
    all_pairs_max_k, block_cells, lists, k, kind
):
    dtype, highest = kind
    lists = [[highest - item for item in row] for row in lists]
    offsets = np.cumsum([0, *map(len, lists)])
    codes = np.array([*itertools.chain(*lists)], dtype=dtype)
    before = codes.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "_LOOP_MAX_K", all_pairs_max_k)
        patch.setattr(ragged, "BLOCK_CELLS", block_cells)
        padded, lengths, had_duplicates = pad(codes, offsets, k)

    kept = [list(dict.fromkeys(row[:k])) for row in lists]
    assert [padded.dtype, lengths.dtype, had_duplicates.dtype] == ["int32", "int32", "bool"]
    assert padded.shape == (len(lists), k)
    assert padded.tolist() == [row + [-1] * (k - len(row)) for row in kept]
    assert lengths.tolist() == [len(row) for row in kept]
    assert had_duplicates.tolist() == [len(set(row[:k])) < len(row[:k]) for row in lists]
    np.testing.assert_array_equal(codes, before)


def test_taken_lists_of_any_lengths_and_of_one_are_the_lists_of_those_rows():
    for lists, rows in json.loads(
        "[[[[1], [], [2, 3, 4]], [2, 1, 0, 2]], [[[1, 2], [3, 4]], [1, 0, 1]]]"
    ):
        codes = np.array([9, *itertools.chain(*lists), 9])
        offsets = np.cumsum([1, *map(len, lists)])
        taken, found = ragged.take_lists(codes, offsets, np.array(rows))
        parts = [part.tolist() for part in np.split(taken, found[1:-1])]
        assert parts == [lists[row] for row in rows]
