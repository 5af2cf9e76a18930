"""RBO of lists with ties: the three treatments of Corsi and Urbano."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference, reference_rbo
from kernels.reference_rbo import Tied, cut_into_groups, draw, tied
from monitor.kernels import Alignment, align
from monitor.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.kernels.rbo.untied import rbo

VARIANTS = {"w": rbo_w, "a": rbo_a, "b": rbo_b}

RED, BLUE, GREEN, YELLOW, PINK, WHITE, BLACK, PURPLE = range(8)


def scores(pairs: list[tuple[Tied, Tied]], p: float, k: int | None = None) -> np.ndarray:
    return scores_of(align(reference_rbo.batch(pairs, k)), p)


def scores_of(alignment: Alignment, p: float) -> np.ndarray:
    return np.stack([measure(alignment, p) for measure in VARIANTS.values()])


ITEMS = st.lists(st.integers(0, 14), unique=True, max_size=12)
TIED = st.builds(cut_into_groups, ITEMS, st.lists(st.integers(1, 5), max_size=5))
PAIRS = st.lists(st.tuples(TIED, TIED), min_size=1, max_size=6)
P = st.floats(0.01, 0.99)
few_examples = settings(max_examples=40)


@pytest.mark.usefixtures("way")
def test_the_authors_own_example_is_met() -> None:
    ours = tied([RED], [BLUE, GREEN], [YELLOW], [PINK])
    theirs = tied([BLUE, RED], [WHITE], [YELLOW, BLACK, PURPLE], [GREEN])

    w, a, b = scores([(ours, theirs)], 0.95)[:, 0]

    assert (round(w, 7), round(a, 7), round(b, 7)) == (0.7068257, 0.6922853, 0.7207131)


@pytest.mark.usefixtures("way")
def test_a_tie_at_the_top_against_none_is_worked_by_hand() -> None:
    # {1 2} against 1, 2. w: 2*1/(2+1), then 1. a: 1/2, then 1. b: (1/2) / sqrt(1/4 + 1/4), then 1.
    w, a, b = scores([(tied([1, 2]), tied([1], [2]))], 0.5)[:, 0]

    assert w == pytest.approx(0.5 * 2 / 3 + 0.5, abs=1e-15)
    assert a == 0.75
    assert b == pytest.approx(0.5 * math.sqrt(0.5) + 0.5, abs=1e-15)


@pytest.mark.usefixtures("way")
def test_a_list_with_a_tie_against_itself_is_worked_by_hand() -> None:
    both = tied([1, 2])

    w, a, b = scores([(both, both)], 0.5)[:, 0]

    assert (w, a, b) == (1.0, 0.75, 1.0)  # a: either order of each, 1/2 * (1 + 0.5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
def test_the_three_are_their_definitions(even: bool) -> None:
    for lengths, expected in defined(even).items():
        found = scores(draw(400, 31, lengths, even=even), 0.9)

        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@cache
def defined(even: bool) -> dict[Sequence[int], list[list[float]]]:
    """By definition, once for all ways to align."""
    return {
        lengths: [[reference_rbo.tied_rbo(*pair, 0.9, kind) for pair in draw(400, 31, lengths, even=even)] for kind in VARIANTS]
        for lengths in (range(1, 7), (9, 16), (25, 60))
    }


def test_rbo_a_of_even_lists_is_the_mean_of_rbo_over_all_ways_to_break_the_ties() -> None:
    pairs = draw(400, 34, range(1, 6), even=True)

    found = rbo_a(align(reference_rbo.batch(pairs)), 0.8)

    np.testing.assert_allclose(found, [reference_rbo.averaged(*pair, 0.8) for pair in pairs], rtol=0, atol=1e-12)


def reaches_over_a_depth_below(short: int, long: Tied) -> bool:
    ends = np.cumsum([len(group) for group in reference_rbo.groups(long)])
    return any(
        end - len(group) < depth < end
        for end, group in zip(ends, reference_rbo.groups(long), strict=True)
        for depth in range(short + 1, len(long[0]))
    )


def test_rbo_a_of_uneven_lists_is_that_mean_unless_a_group_reaches_over_a_depth_below_the_shorter_list() -> None:
    pairs = [(a, b) for a, b in draw(1000, 35, range(1, 6), even=False) if 0 < len(a[0]) <= len(b[0])]
    found = rbo_a(align(reference_rbo.batch(pairs)), 0.8)
    mean = np.array([reference_rbo.averaged(*pair, 0.8) for pair in pairs])
    reaches = np.array([reaches_over_a_depth_below(len(a[0]), b) for a, b in pairs])

    np.testing.assert_allclose(found[~reaches], mean[~reaches], rtol=0, atol=1e-12)
    assert (found[reaches] <= mean[reaches] + 1e-12).all()
    assert (found[reaches] < mean[reaches] - 1e-3).any()


@given(pairs=st.lists(st.tuples(ITEMS, ITEMS), min_size=1, max_size=6), p=P)
def test_without_ties_the_three_are_rbo(pairs: list[tuple[list[int], list[int]]], p: float) -> None:
    untied = align(reference_rbo.batch([(tied(*([i] for i in a)), tied(*([i] for i in b))) for a, b in pairs]))

    for found in scores_of(untied, p):
        np.testing.assert_allclose(found, rbo(untied, p), rtol=0, atol=1e-12)


@given(both=TIED.filter(lambda both: bool(both[0])), p=P)
def test_a_list_with_itself_is_one_except_that_a_counts_the_orders_of_its_ties(both: Tied, p: float) -> None:
    w, a, b = scores([(both, both)], p)[:, 0]

    assert (w, b) == (1.0, 1.0)
    assert (a == 1.0) == (len(set(both[1])) == len(both[1]))


@few_examples
@given(pairs=PAIRS, p=P, more=st.integers(1, 60))
def test_order_of_arms_padding_and_neighbours_play_no_part(pairs: list[tuple[Tied, Tied]], p: float, more: int) -> None:
    longest = max(len(items) for pair in pairs for items, _ in pair)
    whole = scores(pairs, p)

    np.testing.assert_array_equal(scores([(b, a) for a, b in pairs], p, k=longest + more), whole)
    np.testing.assert_array_equal(np.concatenate([scores([pair], p) for pair in pairs], axis=1), whole)
    assert (np.isnan(whole) | ((whole >= 0) & (whole <= 1))).all()
    assert (np.isnan(whole[1]) | (whole[1] <= whole[2] + 1e-12)).all()  # b is never below a


@few_examples
@given(pairs=PAIRS, p=P, data=st.data())
def test_the_order_of_items_within_a_tie_plays_no_part(pairs: list[tuple[Tied, Tied]], p: float, data: st.DataObject) -> None:
    def reorder(side: Tied) -> Tied:
        return tied(*(data.draw(st.permutations(group)) for group in reference_rbo.groups(side)))

    np.testing.assert_allclose(scores([(reorder(a), reorder(b)) for a, b in pairs], p), scores(pairs, p), rtol=0, atol=1e-14)


@few_examples
@given(pairs=PAIRS, p=P, depth=st.integers(1, 14))
def test_a_group_that_the_cut_goes_through_is_the_part_above_it(pairs: list[tuple[Tied, Tied]], p: float, depth: int) -> None:
    cut = scores_of(align(reference_rbo.batch(pairs)).cut(depth), p)
    tops = [((a[0][:depth], a[1][:depth]), (b[0][:depth], b[1][:depth])) for a, b in pairs]

    np.testing.assert_array_equal(cut, scores(tops, p))


def test_items_without_a_score_are_tied_with_nothing() -> None:
    unknown = ([1, 2, 3], [math.nan] * 3)
    known = tied([2], [1], [3])

    assert scores([(unknown, known)], 0.9)[:, 0].tolist() == pytest.approx([0.9] * 3, abs=1e-15)


def test_scores_that_were_not_given_are_asked_for() -> None:
    with pytest.raises(ValueError, match="scores, which were not given"):
        rbo_w(align(reference.batch([([1], [1])])), 0.9)
