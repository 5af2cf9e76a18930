"""The RBO of what was seen, and the least and the most that it can become."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbo import RankingSimilarity

from kernels import reference, reference_rbo
from kernels.test_against_references import alignments
from monitor.kernels import Alignment, align
from monitor.kernels.rbo.bounds import rbo_max, rbo_min, rbo_res, rbo_truncated
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.rbo.weight import rbo_weight

MEASURES = (rbo_truncated, rbo_min, rbo, rbo_max, rbo_res)
FILMS = ([1, 2, 3, 4, 5, 6, 78], [2, 4, 5, 1, 3, 6, 78])

RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)
P = st.floats(0.001, 0.999)


def scores(pairs: list[reference.Pair], p: float, k: int | None = None) -> np.ndarray:
    return scores_of(align(reference.batch(pairs, k)), p)


def scores_of(alignment: Alignment, p: float) -> np.ndarray:
    return np.stack([measure(alignment, p) for measure in MEASURES])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("p", "expected"), [(0.9, 0.782775), (0.75, 0.5361328125)])
def test_the_film_examples_numbers_are_the_extrapolated_ones(p: float, expected: float) -> None:
    # Agreement 0, 1/2, 1/3, 3/4, 1, 1, 1 at the seven depths; below them it is taken to stay 1.
    agreement = [0, 1 / 2, 1 / 3, 3 / 4, 1, 1, 1]
    seen = sum((1 - p) * p**i * share for i, share in enumerate(agreement))

    truncated, least, extrapolated, most, _ = scores([FILMS], p)[:, 0]

    assert extrapolated == pytest.approx(expected, abs=1e-15)
    assert truncated == pytest.approx(seen, abs=1e-15)
    assert extrapolated == pytest.approx(seen + p**7, abs=1e-15)
    assert most == pytest.approx(expected, abs=1e-15)
    assert least == pytest.approx(seen + p**7 - (1 - rbo_weight(p, 7)), abs=1e-14)


@pytest.mark.usefixtures("way")
def test_a_swap_at_the_top_is_worked_by_hand() -> None:
    # Agreement 0, then 1: truncated p(1-p) = 1/4; the least adds (1-p)/p * 2 * (ln 2 - 1/2 - 1/8) at p = 1/2.
    truncated, least, extrapolated, most, open_ = scores([([1, 2], [2, 1])], 0.5)[:, 0]

    assert (truncated, extrapolated, most) == (0.25, 0.5, 0.5)
    assert least == pytest.approx(0.25 + 2 * (math.log(2) - 0.625), abs=1e-15)
    assert open_ == most - least


@pytest.mark.usefixtures("way")
def test_one_item_against_two_is_worked_by_hand() -> None:
    # [1] against [2, 1] at p = 1/2. Seen: 0 at depth 1, 1 of 2 at depth 2. Most: the short one goes on with 2: 1 from there.
    truncated, least, extrapolated, most, _ = scores([([1], [2, 1])], 0.5)[:, 0]

    assert truncated == 0.0
    assert least == pytest.approx(math.log(2) - 0.5, abs=1e-15)
    assert extrapolated == 0.25  # agreement 1/2 at depth 2 and taken to stay: 1/2 * 1/4 + 1/2 * 1/4
    assert most == 0.5


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
def test_the_sum_over_the_depths_seen_is_its_definition(even: bool) -> None:
    for alignment, pairs in alignments(1040, 21, even=even):
        expected = [reference_rbo.truncated(*pair, 0.9) for pair in pairs]

        np.testing.assert_allclose(rbo_truncated(alignment, 0.9), expected, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
def test_the_bounds_are_attained_by_lists_that_go_on_so(even: bool) -> None:
    p = 0.6
    for (alignment, _), (least, most) in zip(alignments(1040, 22, even=even), bounds(p, even), strict=True):
        np.testing.assert_allclose(rbo_min(alignment, p), least, rtol=0, atol=1e-12)
        np.testing.assert_allclose(rbo_max(alignment, p), most, rtol=0, atol=1e-12)


@cache
def bounds(p: float, even: bool) -> list[tuple[list[float], list[float]]]:
    """The least and the most by definition, once for all ways to align."""
    depth = 70  # p**70 is below 1e-15
    return [
        ([reference_rbo.least(*pair, p, depth) for pair in pairs], [reference_rbo.most(*pair, p, depth) for pair in pairs])
        for _, pairs in alignments(1040, 22, even=even)
    ]


@pytest.mark.parametrize("even", [True, False])
def test_rbo_and_its_truncation_are_the_rbo_packages(even: bool) -> None:
    for alignment, pairs in alignments(1040, 23, even=even):
        some = [i for i, (a, b) in enumerate(pairs) if a and b]
        theirs = [RankingSimilarity(list(pairs[i][0]), list(pairs[i][1])) for i in some]

        np.testing.assert_allclose(rbo(alignment, 0.9)[some], [t.rbo_ext(p=0.9) for t in theirs], rtol=0, atol=1e-12)
        np.testing.assert_allclose(rbo_truncated(alignment, 0.9)[some], [t.rbo(p=0.9) for t in theirs], rtol=0, atol=1e-12)


@given(pairs=PAIRS, p=P, more=st.lists(st.integers(0, 40), unique=True, max_size=20))
def test_however_lists_go_on_rbo_stays_between_the_bounds(pairs: list[reference.Pair], p: float, more: list[int]) -> None:
    longer: list[reference.Pair] = [
        ([*a, *(i for i in more if i not in a)], [*b, *(i for i in reversed(more) if i not in b)]) for a, b in pairs if a and b
    ]
    _, least, _, most, _ = scores([pair for pair in pairs if all(pair)], p)
    _, least_later, extrapolated_later, most_later, _ = scores(longer, p)

    assert (least <= least_later + 1e-12).all()
    assert (least_later <= extrapolated_later + 1e-12).all()
    assert (extrapolated_later <= most_later + 1e-12).all()
    assert (most_later <= most + 1e-12).all()


@given(pairs=PAIRS, p=P)
def test_the_measures_stand_in_order_and_the_most_is_the_least_and_the_residual(pairs: list[reference.Pair], p: float) -> None:
    truncated, least, extrapolated, most, open_ = scores([pair for pair in pairs if any(pair)], p)

    np.testing.assert_array_equal(most, least + open_)
    for lower, higher in (
        (0, truncated),
        (truncated, least + 1e-12),
        (least, extrapolated + 1e-12),
        (extrapolated, most + 1e-12),
    ):
        assert (lower <= higher).all()
    assert (most <= 1).all()
    assert (open_ >= 0).all()


@given(pairs=PAIRS, p=P)
def test_arms_may_be_exchanged_to_the_last_bit(pairs: list[reference.Pair], p: float) -> None:
    np.testing.assert_array_equal(scores(pairs, p), scores([(b, a) for a, b in pairs], p))


@given(pairs=PAIRS, p=P, more=st.integers(1, 60))
def test_padding_plays_no_part(pairs: list[reference.Pair], p: float, more: int) -> None:
    longest = max(len(ranking) for pair in pairs for ranking in pair)

    np.testing.assert_allclose(scores(pairs, p, k=longest + more), scores(pairs, p), rtol=0, atol=1e-14)


@pytest.mark.parametrize("p", [0.5, 0.75, 0.9])
def test_longer_lists_beside_it_change_no_bit_of_the_least_of_a_pair(p: float) -> None:
    pair, long = (list(range(20)), list(range(20))), (list(range(500)), list(range(500)))
    assert scores([pair, long], p)[1, 0] == scores([pair], p)[1, 0]


@given(pairs=PAIRS, p=P, depth=st.integers(1, 14))
def test_what_stands_below_a_cut_plays_no_part(pairs: list[reference.Pair], p: float, depth: int) -> None:
    cut = scores_of(align(reference.batch(pairs)).cut(depth), p)

    np.testing.assert_array_equal(cut, scores([(a[:depth], b[:depth]) for a, b in pairs], p))


@given(ranking=RANKING.filter(len), p=P, data=st.data())
def test_a_prefix_may_turn_out_the_whole(ranking: list[int], p: float, data: st.DataObject) -> None:
    prefix = ranking[: data.draw(st.integers(1, len(ranking)))]

    truncated, least, extrapolated, most, _ = scores([(prefix, ranking)], p)[:, 0]

    assert (extrapolated, most) == (1.0, 1.0)
    assert truncated == pytest.approx(1 - p ** len(prefix), abs=1e-14)
    assert least == pytest.approx(rbo_weight(p, len(prefix)), abs=1e-14)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("length", [1, 2, 7, 10, 50, 120])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 0.9999])
def test_the_ends_of_the_ranges_are_exact(length: int, p: float) -> None:
    top, others = list(range(length)), list(range(length, 2 * length))

    found = scores([(top, top), (top, others), (top, []), ([], top), ([], [])], p)

    np.testing.assert_array_equal(found[:2, 1:4], np.zeros((2, 3)))
    np.testing.assert_array_equal(found[3, [0, 2, 3]], [1, 1, 1])
    np.testing.assert_array_equal(found[4, 2:4], [1, 1])
    assert np.isnan(found[:, 4]).all()
    assert 0 <= found[3, 1] <= 1
    assert found[4, 0] <= found[4, 1]


def test_no_pairs_give_no_scores() -> None:
    assert scores([], 0.9, k=3).shape == (5, 0)
