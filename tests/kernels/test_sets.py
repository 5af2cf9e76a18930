"""Measures of membership: worked values, definitions, what holds for any lists, and what chance gives."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rbo import RankingSimilarity
from scipy.stats import hypergeom

from kernels import reference
from kernels.test_against_references import alignments
from monitor.kernels import Alignment, align
from monitor.kernels.chance import common_by_chance
from monitor.kernels.sets import average_overlap, jaccard

A, B, C, D, E = range(5)

RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)


def scores_of(alignment: Alignment) -> np.ndarray:
    return np.stack([jaccard(alignment), average_overlap(alignment)])


def scores(pairs: list[reference.Pair], k: int | None = None) -> np.ndarray:
    return scores_of(align(reference.batch(pairs, k)))


def jaccard_by_sets(a: list[int], b: list[int]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a or b else math.nan


def mean_of_overlaps(a: list[int], b: list[int]) -> float:
    longest = max(len(a), len(b))
    return sum(reference.overlap(a[:d], b[:d]) for d in range(1, longest + 1)) / longest if longest else math.nan


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("other", "expected"), [([B, A, C, D, E], 0.8), ([A, B, C, E, D], 0.95), ([A, B, C, D, E], 1.0)])
def test_average_overlap_tells_a_swap_at_the_top_from_one_at_the_bottom(other: list[int], expected: float) -> None:
    assert scores([([A, B, C, D, E], other)])[1, 0] == pytest.approx(expected, abs=1e-15)


@pytest.mark.usefixtures("way")
def test_average_overlap_of_uneven_lists_is_worked_by_hand() -> None:
    # [a, b] against [a, c, b, d]: 1, 1/2, 2/3, 2/4.
    assert scores([([A, B], [A, C, B, D])])[1, 0] == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4, abs=1e-15)


@pytest.mark.usefixtures("way")
def test_jaccard_is_worked_by_hand() -> None:
    found = scores([([A, B, C], [C, D, E]), ([A, B], [B, A, C, D]), ([A, B], [B, A])])[0]

    assert found.tolist() == [1 / 5, 2 / 4, 1.0]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
def test_both_are_their_definitions(even: bool) -> None:
    for alignment, pairs in alignments(1040, 41, even=even):
        expected = [[measure(list(a), list(b)) for a, b in pairs] for measure in (jaccard_by_sets, mean_of_overlaps)]

        np.testing.assert_allclose(scores_of(alignment), expected, rtol=0, atol=1e-12)


def test_average_overlap_of_even_lists_is_the_rbo_packages_at_p_one() -> None:
    for alignment, pairs in alignments(1040, 42, even=True):
        expected = [RankingSimilarity(list(a), list(b)).rbo(p=1.0) for a, b in pairs]

        np.testing.assert_allclose(average_overlap(alignment), expected, rtol=0, atol=1e-12)


@given(pairs=PAIRS, more=st.integers(1, 60), names=st.permutations(range(15)))
def test_order_of_arms_padding_and_names_play_no_part(pairs: list[reference.Pair], more: int, names: list[int]) -> None:
    whole = scores(pairs)
    longest = max(len(ranking) for pair in pairs for ranking in pair)

    np.testing.assert_array_equal(scores([(b, a) for a, b in pairs]), whole)
    np.testing.assert_array_equal(scores([([names[i] for i in a], [names[i] for i in b]) for a, b in pairs]), whole)
    np.testing.assert_allclose(scores(pairs, k=longest + more), whole, rtol=0, atol=1e-14)
    assert (np.isnan(whole) | ((whole >= 0) & (whole <= 1))).all()


@given(ranking=RANKING.filter(len), data=st.data())
def test_a_prefix_scores_one_only_when_it_is_the_whole(ranking: list[int], data: st.DataObject) -> None:
    prefix = ranking[: data.draw(st.integers(1, len(ranking)))]

    share, average = scores([(prefix, ranking)])[:, 0]

    assert share == len(prefix) / len(ranking)
    assert (average == 1.0) == (len(prefix) == len(ranking))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 50, 100, 255])
def test_the_ends_of_the_ranges_are_exact(length: int) -> None:
    top, others = list(range(length)), list(range(length, 2 * length))

    found = scores([(top, top), (top, others), (top, []), ([], top), ([], [])], k=length + 3)

    np.testing.assert_array_equal(found, [[1, 0, 0, 0, np.nan]] * 2)
    assert scores([(top, top)]).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(("k", "catalogue"), [(1, 1), (1, 7), (5, 5), (5, 7), (10, 50), (100, 150), (100, 10_000)])
def test_the_chances_of_common_items_are_scipys(k: int, catalogue: int) -> None:
    expected = hypergeom(catalogue, k, k).pmf(np.arange(k + 1))

    np.testing.assert_allclose(common_by_chance(k, catalogue), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("k", "catalogue"), [(1000, 1500), (1000, 10**9), (10, 10**15)])
def test_the_chances_of_common_items_keep_their_mean_where_counts_overflow(k: int, catalogue: int) -> None:
    chances = common_by_chance(k, catalogue)

    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances @ np.arange(k + 1) == pytest.approx(k * k / catalogue, rel=1e-9)
