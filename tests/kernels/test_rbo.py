"""RBO by ranks: what was seen, the least and the most that it can become.

And ties, as Corsi and Urbano treat them.
"""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference, reference_rbo
from kernels.reference_rbo import Tied, draw, tied
from monitor.errors import MetricError
from monitor.kernels import Alignment, align
from monitor.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.kernels.rbo.untied import (
    rbo,
    rbo_max,
    rbo_min,
    rbo_persistence,
    rbo_res,
    rbo_truncated,
    rbo_weight,
)

MEASURES = (rbo_truncated, rbo_min, rbo, rbo_max, rbo_res)
BAD_DEPTHS, BAD_SHARES = (
    [0, -1, 1.5, 1_000_001, math.nan, math.inf],
    [0.0, 1.0, -0.1, 1.1, math.nan],
)
FILMS = ([1, 2, 3, 4, 5, 6, 78], [2, 4, 5, 1, 3, 6, 78])

RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)
P = st.floats(0.001, 0.999)
about = partial(pytest.approx, abs=1e-15)


def scores(pairs: list[reference.Pair], p: float) -> np.ndarray:
    alignment = align(reference.batch(pairs))
    return np.stack([measure(alignment, p) for measure in MEASURES])


@pytest.mark.parametrize(
    ("pair", "p", "expected"),
    [
        # The film example: agreement 0, 1/2, 1/3, 3/4, 1, 1, 1 at the seven depths; below them it
        # is taken to stay 1.
        (FILMS, 0.9, [0.782775 - 0.9**7, 0.782775 - 1 + rbo_weight(0.9, 7), 0.782775, 0.782775]),
        # Agreement 0, then 1: truncated p(1-p) = 1/4; the least adds (1-p)/p * 2 * (ln 2 - 1/2 -
        # 1/8) at p = 1/2.
        (([1, 2], [2, 1]), 0.5, [0.25, 0.25 + 2 * (math.log(2) - 0.625), 0.5, 0.5]),
        # Seen: 0 at depth 1, 1 of 2 at depth 2, which is taken to stay: 1/2 * 1/4 + 1/2 * 1/4.
        # Most: the short one goes on with 2, and it is 1 from there.
        (([1], [2, 1]), 0.5, [0.0, math.log(2) - 0.5, 0.25, 0.5]),
    ],
)
def test_what_was_seen_the_least_the_extrapolated_and_the_most_are_worked_by_hand(
    pair, p, expected
):
    *found, residual = scores([pair], p)[:, 0].tolist()

    assert found == pytest.approx(expected, abs=1e-14)
    assert residual == found[3] - found[1]


@given(pairs=PAIRS, p=P, more=st.lists(st.integers(0, 40), unique=True, max_size=20))
def test_however_lists_go_on_rbo_stays_between_the_bounds(pairs, p, more):
    pairs = [pair for pair in pairs if all(pair)]
    longer: list[reference.Pair] = []
    for a, b in pairs:
        longer.append(
            ([*a, *(i for i in more if i not in a)], [*b, *(i for i in more[::-1] if i not in b)])
        )
    _, least, _, most, residual = scores(pairs, p)
    _, least_later, extrapolated_later, most_later, _ = scores(longer, p)

    rising = [least, least_later, extrapolated_later, most_later, most]
    assert (np.diff(rising, axis=0) > -1e-12).all()
    np.testing.assert_array_equal(most, least + residual)


def test_longer_lists_beside_it_change_no_bit_of_the_least_of_a_pair():
    short, long = ((list(range(length)),) * 2 for length in (20, 500))
    for p in (0.5, 0.75, 0.9):
        assert scores([short, long], p)[1, 0] == scores([short], p)[1, 0]


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_the_weights_of_all_ranks_are_what_they_are_by_definition(d):
    # Rank i belongs to every depth from i on, a share of 1/e of depth e.
    p = 0.8
    ranks = [sum((1 - p) * p ** (e - 1) / e for e in range(i, 400)) for i in range(1, d + 1)]

    assert rbo_weight(p, d) == pytest.approx(sum(ranks), abs=1e-13)


@given(top=st.integers(1, 300), share=st.floats(1e-6, 1 - 1e-6))
def test_the_persistence_gives_the_share_it_was_asked_for(top, share):
    p = rbo_persistence(top, share)

    assert 0 < p < 1
    assert rbo_weight(p, top) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        (
            lambda top: rbo_persistence(top, 0.5),
            BAD_DEPTHS,
            "whole number of ranks from 1 to 1000000",
        ),
        (lambda top: rbo_weight(0.9, top), BAD_DEPTHS, "whole number of ranks from 1 to 1000000"),
        (lambda share: rbo_persistence(10, share), BAD_SHARES, "share must be between 0 and 1"),
        (lambda p: rbo_weight(p, 10), BAD_SHARES, "p must be between 0 and 1"),
        (
            lambda share: rbo_persistence(1, share),
            [1e-20],
            "no p gives the top 1 ranks a share as small as 1e-20",
        ),
    ],
)
def test_a_depth_a_share_or_a_persistence_beyond_its_range_is_refused(call, wrong, message):
    for value in wrong:
        with pytest.raises(MetricError, match=message):
            call(value)


RED, BLUE, GREEN, YELLOW, PINK, WHITE, BLACK, PURPLE = range(8)


def tied_scores(pairs: list[tuple[Tied, Tied]], p: float, k: int | None = None) -> np.ndarray:
    return scores_of(align(reference_rbo.batch(pairs, k)), p)


def scores_of(alignment: Alignment, p: float) -> np.ndarray:
    return np.stack([measure(alignment, p) for measure in (rbo_w, rbo_a, rbo_b)])


@pytest.mark.parametrize(
    ("one", "other", "p", "expected"),
    [
        # The authors' own example.
        (
            tied([RED], [BLUE, GREEN], [YELLOW], [PINK]),
            tied([BLUE, RED], [WHITE], [YELLOW, BLACK, PURPLE], [GREEN]),
            0.95,
            [pytest.approx(value, abs=5e-8) for value in (0.7068257, 0.6922853, 0.7207131)],
        ),
        # w: 2*1/(2+1), then 1. a: 1/2, then 1. b: (1/2) / sqrt(1/4 + 1/4), then 1.
        (
            tied([1, 2]),
            tied([1], [2]),
            0.5,
            [about(0.5 * 2 / 3 + 0.5), 0.75, about(0.5 * math.sqrt(0.5) + 0.5)],
        ),
        # a: either order of each, 1/2 * (1 + 0.5).
        (tied([1, 2]), tied([1, 2]), 0.5, [1.0, 0.75, 1.0]),
        # Items without a score are tied with nothing.
        (([1, 2, 3], [math.nan] * 3), tied([2], [1], [3]), 0.9, [about(0.9)] * 3),
    ],
)
def test_values_of_ties_are_those_worked_by_hand(one, other, p, expected):
    assert tied_scores([(one, other)], p)[:, 0].tolist() == expected


@pytest.mark.parametrize("depth", [1, 2, 3, 6, 14])
def test_a_group_that_the_cut_goes_through_is_the_part_above_it(depth):
    pairs = draw(100, 36, even=False)
    tops = [((a[0][:depth], a[1][:depth]), (b[0][:depth], b[1][:depth])) for a, b in pairs]

    cut = scores_of(align(reference_rbo.batch(pairs)).cut(depth), 0.9)

    np.testing.assert_array_equal(cut, tied_scores(tops, 0.9))


def test_scores_that_were_not_given_are_asked_for():
    with pytest.raises(ValueError, match="scores, which were not given"):
        rbo_w(align(reference.batch([([1], [1])])), 0.9)
