"""Where published packages err: the right number in each case by name, and theirs where the package is at hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rbo import RankingSimilarity

from kernels import reference
from monitor.kernels import align
from monitor.kernels.rbo.untied import rbo, rbo_truncated
from monitor.kernels.sets import average_overlap

Items = Sequence[int]
FIVE, TEN = range(5), range(10)


def ours(a: Items, b: Items, p: float) -> float:
    return float(rbo(align(reference.batch([(a, b)])), p)[0])


def test_the_rbo_package_s_plain_rbo_is_truncated_and_scores_identical_lists_under_one() -> None:
    top = list(range(5))

    theirs = RankingSimilarity(top, top).rbo(p=0.9)

    assert theirs == pytest.approx(1 - 0.9**5, abs=1e-12)
    assert rbo_truncated(align(reference.batch([(top, top)])), 0.9)[0] == pytest.approx(theirs, abs=1e-12)
    assert ours(top, top, 0.9) == 1.0


def test_the_rbo_package_scores_two_empty_lists_as_the_same() -> None:
    assert RankingSimilarity([], []).rbo_ext(p=0.9) == 1

    assert math.isnan(ours([], [], 0.9))


def test_average_overlap_at_p_one_of_the_rbo_package_stops_at_the_shorter_list() -> None:
    assert RankingSimilarity([1], [1, 2]).rbo(p=1.0) == 1.0

    assert average_overlap(align(reference.batch([([1], [1, 2])])))[0] == 0.75


@pytest.mark.parametrize(
    ("a", "b", "p", "right"),
    [
        # ranked-overlap 0.1.0 takes the short list as if it had ended in nothing: the often copied 0.885, 0.256 and 0.099.
        ([1, 2, 3, 4, 5, 6, 7], [1, 3, 2, 4, 5, 7, 6, 8], 0.9, 0.9451585),
        ([1], range(1, 101), 0.9, 1.0),
        ([0], range(20), 0.98, 1.0),
        # dlukes/rbo divides by the mean of the lengths below the shorter list: 1.045 and 0.843.
        ([1, 2, 3], [1], 0.4, 1.0),
        ([1], [1, 2], 0.98, 1.0),
        # lenskit divides what it truncates by the weights that it saw: 0.899 for identical lists, and 0.813.
        (FIVE, FIVE, 0.85, 1.0),
        (TEN, [1, 0, *range(2, 10)], 0.85, 0.85),
        # ragrawal/measures, widely ported, has the wrong overlap in equation 32's second sum: 0.399.
        ([9], [*range(9), 9, *range(10, 40)], 0.98, 0.0306429),
    ],
)
def test_a_published_rbo_errs_where_ours_is_right(a: Items, b: Items, p: float, right: float) -> None:
    assert ours(a, b, p) == pytest.approx(right, abs=1e-7)
