"""Where published packages err: each case by name, their number and the right one.

A formula of a package that is no dependency of these tests is written out here, so that what it gives can be read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from rbo import RankingSimilarity

from kernels import reference, reference_rbo
from monitor.kernels import align
from monitor.kernels.rbo.bounds import rbo_truncated
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.sets import average_overlap

Items = Sequence[int]


def ours(a: Items, b: Items, p: float) -> float:
    return float(rbo(align(reference.batch([(a, b)])), p)[0])


def rbo_with_a_tail_of_nothing(a: Items, b: Items, p: float) -> float:
    """ranked-overlap 0.1.0 and the article that it follows: the short list as if it had ended in nothing.

    Agreement X_d / d goes on to the end of the longer list, where what is missing counts as disagreement, and only the tail
    below both lists is extrapolated. Equation 32 takes the agreement at the short list's end to go on instead.
    """
    longest = max(len(a), len(b))
    shares = [reference_rbo.agreement(a, b, d) for d in range(1, longest + 1)]
    return (1 - p) / p * sum(p**d * share for d, share in enumerate(shares, start=1)) + shares[-1] * p**longest


def rbo_with_agreement_by_mean_length(a: Items, b: Items, p: float) -> float:
    """dlukes/rbo on GitHub: equation 32 with equation 28's agreement, 2 X_d / (|S_d| + |T_d|), below the shorter list.

    That agreement is meant for ties; below a list's end it divides by the mean of the lengths and not by d, and what equation
    32 adds there comes on top. (The package `rbo` on PyPI is another, changyaochen/rbo.)
    """
    s, l = sorted((len(a), len(b)))  # noqa: E741 - the paper's letters

    def agreement(d: int) -> float:
        return 2 * len(set(a[:d]) & set(b[:d])) / (len(a[:d]) + len(b[:d]))

    overlap = {d: agreement(d) * min(d, s) for d in (s, l)}
    seen = sum(p**d * agreement(d) for d in range(1, l + 1))
    assumed = sum(p**d * overlap[s] * (d - s) / (s * d) for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + assumed) + p**l * ((overlap[l] - overlap[s]) / l + overlap[s] / s)


def test_the_rbo_package_s_plain_rbo_is_truncated_and_scores_identical_lists_under_one() -> None:
    top = list(range(5))

    theirs = RankingSimilarity(top, top).rbo(p=0.9)

    assert theirs == pytest.approx(1 - 0.9**5, abs=1e-12)
    assert rbo_truncated(align(reference.batch([(top, top)])), 0.9)[0] == pytest.approx(theirs, abs=1e-12)
    assert ours(top, top, 0.9) == 1.0


def test_the_rbo_package_scores_two_empty_lists_as_the_same() -> None:
    assert RankingSimilarity([], []).rbo_ext(p=0.9) == 1

    assert math.isnan(ours([], [], 0.9))


def rbo_made_to_sum_to_one(a: Items, b: Items, p: float, depth: int = 10) -> float:
    """lenskit's rank_biased_overlap: truncated at ``depth``, divided by the weights that it saw, however short the lists."""
    weights = [p ** (d - 1) for d in range(1, depth + 1)]
    return sum(w * reference_rbo.agreement(a, b, d) for d, w in enumerate(weights, start=1)) / sum(weights)


def rbo_with_the_wrong_overlap_assumed(a: Items, b: Items, p: float) -> float:
    """ragrawal/measures, widely ported: equation 32's second sum with X_d where X_s, the overlap at the short end, belongs."""
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's letters
    x = [0.0, *(d * reference_rbo.agreement(short, long, d) for d in range(1, l + 1))]
    seen = sum(x[d] / d * p**d for d in range(1, l + 1))
    assumed = sum(x[d] * (d - s) / (d * s) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + assumed) + ((x[l] - x[s]) / l + x[s] / s) * p**l


FIVE, TEN = range(5), range(10)


@pytest.mark.parametrize(
    ("formula", "a", "b", "p", "theirs", "right"),
    [
        # The often copied 0.885, a list against its own first item, and an error of 0.9.
        (rbo_with_a_tail_of_nothing, [1, 2, 3, 4, 5, 6, 7], [1, 3, 2, 4, 5, 7, 6, 8], 0.9, 0.8853713875, 0.9451585),
        (rbo_with_a_tail_of_nothing, [1], range(1, 101), 0.9, 0.2558428107, 1.0),
        (rbo_with_a_tail_of_nothing, [0], range(20), 0.98, 1 - 0.9006424, 1.0),
        # More than one, and a prefix less than one too.
        (rbo_with_agreement_by_mean_length, [1, 2, 3], [1], 0.4, 1.0453333333, 1.0),
        (rbo_with_agreement_by_mean_length, [1], [1, 2], 0.98, 0.8432, 1.0),
        # Identical lists at 0.899, and not RBO on lists as long as its depth either.
        (rbo_made_to_sum_to_one, FIVE, FIVE, 0.85, 0.8993607586, 1.0),
        (rbo_made_to_sum_to_one, TEN, [1, 0, *range(2, 10)], 0.85, 1 - 0.15 / (1 - 0.85**10), 0.85),
        (rbo_with_the_wrong_overlap_assumed, [9], [*range(9), 9, *range(10, 40)], 0.98, 0.3991899, 0.0306429),
    ],
)
def test_a_published_rbo_errs_where_ours_is_right(
    formula: Callable[..., float], a: Items, b: Items, p: float, theirs: float, right: float
) -> None:
    assert formula(a, b, p) == pytest.approx(theirs, abs=1e-7)
    assert ours(a, b, p) == pytest.approx(right, abs=1e-7)


@pytest.mark.parametrize("formula", [rbo_with_a_tail_of_nothing, rbo_with_agreement_by_mean_length])
def test_a_published_rbo_that_errs_on_uneven_lists_is_right_on_even_ones(formula: Callable[..., float]) -> None:
    lists = list(itertools.permutations(range(4), 3))
    pairs: list[reference.Pair] = [(a, b) for a in lists for b in lists]

    assert rbo(align(reference.batch(pairs)), 0.9) == pytest.approx([formula(*pair, 0.9) for pair in pairs], abs=1e-12)


def tau_ap_in_order_of_arrival(x: Sequence[float], y: Sequence[float]) -> float:
    """tau-ap 0.1.0 on PyPI: it walks through the items as they come, where the definition walks down a ranking."""
    terms = [sum(np.sign(x[i] - x[j]) == np.sign(y[i] - y[j]) for j in range(i)) / i for i in range(1, len(x))]
    return float(2 / (len(x) - 1) * sum(terms) - 1)


def test_tau_ap_s_value_depends_on_the_order_in_which_items_are_handed_over() -> None:
    ranks = np.array([[0, 1, 2, 3], [1, 0, 2, 3]])

    by_rank = tau_ap_in_order_of_arrival(*ranks)
    backwards = tau_ap_in_order_of_arrival(*ranks[:, ::-1])

    assert by_rank == pytest.approx(2 / 3 * (0 + 1 + 1) - 1, abs=1e-12)
    assert backwards == pytest.approx(2 / 3 * (1 + 1 + 2 / 3) - 1, abs=1e-12)


def test_average_overlap_at_p_one_of_the_rbo_package_stops_at_the_shorter_list() -> None:
    assert RankingSimilarity([1], [1, 2]).rbo(p=1.0) == 1.0

    assert average_overlap(align(reference.batch([([1], [1, 2])])))[0] == 0.75
