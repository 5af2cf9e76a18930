"""What holds for any two lists."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.kernels import Alignment, align, alignment
from monitor.kernels.kendall.extended import extended_tau
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.sets import overlap

RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)
P = st.floats(0.001, 0.999)


def scores(pairs: list[tuple[list[int], list[int]]], p: float = 0.9, k: int | None = None) -> np.ndarray:
    return scores_of(align(reference.batch(pairs, k)), p)


def scores_of(alignment: Alignment, p: float = 0.9) -> np.ndarray:
    return np.stack([extended_tau(alignment), rbo(alignment, p), overlap(alignment)])


@given(pairs=PAIRS, p=P)
def test_scores_keep_their_range(pairs: list[tuple[list[int], list[int]]], p: float) -> None:
    tau, overlap_bias, share = scores(pairs, p)

    assert (np.isnan(tau) | ((tau >= -1) & (tau <= 1))).all()
    assert all((np.isnan(s) | ((s >= 0) & (s <= 1))).all() for s in (overlap_bias, share))


@given(pairs=PAIRS, p=P)
def test_scores_are_symmetric_to_the_last_bit(pairs: list[tuple[list[int], list[int]]], p: float) -> None:
    np.testing.assert_array_equal(scores(pairs, p), scores([(b, a) for a, b in pairs], p))


@given(ranking=RANKING.filter(len), p=P)
def test_a_list_is_identical_to_itself(ranking: list[int], p: float) -> None:
    assert scores([(ranking, ranking)], p).tolist() == [[1.0], [1.0], [1.0]]


@given(ranking=RANKING.filter(len), p=P, data=st.data())
def test_a_prefix_has_rbo_one_and_less_of_everything_else(ranking: list[int], p: float, data: st.DataObject) -> None:
    prefix = ranking[: data.draw(st.integers(1, len(ranking)))]

    (tau,), (overlap_bias,), (share,) = scores([(prefix, ranking)], p)

    assert overlap_bias == 1.0
    assert share == len(prefix) / len(ranking)
    assert (tau < 1) == (len(prefix) < len(ranking))


@given(pairs=PAIRS, p=P, names=st.permutations(range(15)), shift=st.sampled_from([0, 70_000, 2**31 - 20]))
def test_names_of_items_play_no_part(pairs: list[tuple[list[int], list[int]]], p: float, names: list[int], shift: int) -> None:
    renamed = [([names[i] + shift for i in a], [names[i] + shift for i in b]) for a, b in pairs]

    np.testing.assert_array_equal(scores(pairs, p), scores(renamed, p))


@given(pairs=PAIRS, p=P, more=st.integers(1, 60))
def test_padding_and_neighbours_play_no_part(pairs: list[tuple[list[int], list[int]]], p: float, more: int) -> None:
    whole = scores(pairs, p)
    longest = max(len(ranking) for pair in pairs for ranking in pair)

    np.testing.assert_array_equal(whole, scores(pairs, p, k=longest + more))
    np.testing.assert_array_equal(whole, np.concatenate([scores([pair], p) for pair in pairs], axis=1))


@given(pairs=PAIRS, p=P, depth=st.integers(1, 14))
def test_a_cut_alignment_is_the_alignment_of_cut_lists(pairs: list[tuple[list[int], list[int]]], p: float, depth: int) -> None:
    alignment = align(reference.batch(pairs))

    np.testing.assert_array_equal(scores_of(alignment.cut(depth), p), scores([(a[:depth], b[:depth]) for a, b in pairs], p))


@pytest.mark.parametrize("rank", range(9))
def test_replacing_a_common_item_lowers_every_score_and_the_top_costs_most(rank: int) -> None:
    top = list(range(10))
    replaced = [[*top[:r], 99, *top[r + 1 :]] for r in (rank, rank + 1)]

    found = scores([(top, other) for other in replaced])

    assert (found < 1).all()
    assert (np.diff(found[:2]) > 0).all()


@pytest.mark.parametrize(("cells", "k", "bounds"), [(1, 3, [0, 1, 2, 3]), (6, 3, [0, 2, 3]), (2, 1, [0, 2, 3])])
def test_blocks_are_all_rows_in_order(cells: int, k: int, bounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "BLOCK_CELLS", cells)

    found = [rows for rows, _ in alignment.blocks(reference.batch([([1], [1])] * 3, k=k))]

    assert found == list(itertools.starmap(slice, itertools.pairwise(bounds)))


def test_items_whose_codes_differ_in_their_high_bytes_alone_are_others() -> None:
    for one, other in (([65_537, 65_535], [1]), (list(range(64)), [2**25 + item for item in range(64)])):
        assert overlap(align(reference.batch([(one, other)])))[0] == 0.0


def test_positions_are_those_of_the_definition() -> None:
    alignment = align(reference.batch([([5, 6, 7], [7, 9, 5]), ([1], [2, 1])], k=3))

    assert alignment.positions.T.tolist() == [[2, 3, 0], [1, 3, 3]]
