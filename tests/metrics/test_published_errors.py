"""Where published packages err: each case by name, their number and the right one.

A formula of a package that is no dependency of these tests is written out here, so that what it gives can be read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from rbo import RankingSimilarity

from kernels import reference, reference_rbo
from monitor.kernels import align
from monitor.kernels.kendall.extended import extended_tau_unscaled
from monitor.kernels.rbo.bounds import rbo_truncated
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.rbo.weight import rbo_weight
from monitor.kernels.sets import average_overlap
from monitor.metrics.weighted_kendall import TauAp

Items = Sequence[int]

SHORT, LONG = [1, 2, 3, 4, 5, 6, 7], [1, 3, 2, 4, 5, 7, 6, 8]


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


def test_the_often_copied_0_885_treats_the_short_list_as_if_it_had_ended_in_nothing() -> None:
    assert rbo_with_a_tail_of_nothing(SHORT, LONG, 0.9) == pytest.approx(0.8853713875, abs=1e-12)

    assert ours(SHORT, LONG, 0.9) == pytest.approx(0.9451585, abs=1e-12)


def test_ranked_overlap_scores_a_list_against_its_own_first_item_0_26() -> None:
    assert rbo_with_a_tail_of_nothing([1], range(1, 101), 0.9) == pytest.approx(0.2558428107, abs=1e-10)

    assert ours([1], range(1, 101), 0.9) == 1.0


def test_ranked_overlap_errs_by_as_much_as_0_9_on_uneven_lists() -> None:
    first, whole = [0], range(20)

    error = ours(first, whole, 0.98) - rbo_with_a_tail_of_nothing(first, whole, 0.98)

    assert error == pytest.approx(0.9006424, abs=1e-7)


def test_ranked_overlap_is_right_on_even_lists() -> None:
    for a, b in itertools.product(itertools.permutations(range(4), 3), repeat=2):
        assert ours(a, b, 0.9) == pytest.approx(rbo_with_a_tail_of_nothing(a, b, 0.9), abs=1e-12)


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


def test_dlukes_rbo_scores_more_than_one_on_uneven_lists() -> None:
    assert rbo_with_agreement_by_mean_length([1, 2, 3], [1], 0.4) == pytest.approx(1.0453333333333334, abs=1e-15)

    assert ours([1, 2, 3], [1], 0.4) == 1.0


def test_dlukes_rbo_scores_a_prefix_less_than_one_too() -> None:
    assert rbo_with_agreement_by_mean_length([1], [1, 2], 0.98) == pytest.approx(0.8432, abs=1e-12)

    assert ours([1], [1, 2], 0.98) == 1.0


def test_dlukes_rbo_is_right_on_even_lists() -> None:
    for a, b in itertools.product(itertools.permutations(range(4), 3), repeat=2):
        assert ours(a, b, 0.9) == pytest.approx(rbo_with_agreement_by_mean_length(a, b, 0.9), abs=1e-12)


def test_the_rbo_package_s_plain_rbo_is_truncated_and_scores_identical_lists_under_one() -> None:
    top = list(range(5))

    theirs = RankingSimilarity(top, top).rbo(p=0.9)

    assert theirs == pytest.approx(1 - 0.9**5, abs=1e-12)
    assert rbo_truncated(align(reference.batch([(top, top)])), 0.9)[0] == pytest.approx(theirs, abs=1e-12)
    assert ours(top, top, 0.9) == 1.0


def test_the_rbo_package_scores_two_empty_lists_as_the_same() -> None:
    assert RankingSimilarity([], []).rbo_ext(p=0.9) == 1

    assert math.isnan(ours([], [], 0.9))


def rbo_made_to_sum_to_one(a: Items, b: Items, p: float = 0.85, depth: int = 10) -> float:
    """lenskit's rank_biased_overlap: truncated at ``depth``, divided by the weights that it saw, however short the lists."""
    weights = [p ** (d - 1) for d in range(1, depth + 1)]
    return sum(w * reference_rbo.agreement(a, b, d) for d, w in enumerate(weights, start=1)) / sum(weights)


def test_lenskit_scores_identical_five_item_lists_0_899() -> None:
    top = list(range(5))

    assert rbo_made_to_sum_to_one(top, top) == pytest.approx(0.8993607586, abs=1e-10)
    assert ours(top, top, 0.85) == 1.0


def test_lenskit_is_not_rbo_on_lists_as_long_as_its_depth_either() -> None:
    top, swapped = list(range(10)), [1, 0, *range(2, 10)]

    assert rbo_made_to_sum_to_one(top, swapped) == pytest.approx(1 - 0.15 / (1 - 0.85**10), abs=1e-12)
    assert ours(top, swapped, 0.85) == pytest.approx(0.85, abs=1e-12)


def rbo_with_the_wrong_overlap_assumed(a: Items, b: Items, p: float) -> float:
    """ragrawal/measures, widely ported: equation 32's second sum with X_d where X_s, the overlap at the short end, belongs."""
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's letters
    x = [0.0, *(d * reference_rbo.agreement(short, long, d) for d in range(1, l + 1))]
    seen = sum(x[d] / d * p**d for d in range(1, l + 1))
    assumed = sum(x[d] * (d - s) / (d * s) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + assumed) + ((x[l] - x[s]) / l + x[s] / s) * p**l


def test_ragrawals_rbo_scores_uneven_lists_too_high() -> None:
    first, whole = [9], [*range(9), 9, *range(10, 40)]

    assert rbo_with_the_wrong_overlap_assumed(first, whole, 0.98) == pytest.approx(0.3991899, abs=1e-7)
    assert ours(first, whole, 0.98) == pytest.approx(0.0306429, abs=1e-7)


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


def test_our_tau_ap_walks_down_the_ranking_whatever_items_are_called() -> None:
    swapped = [([0, 1, 2, 3], [1, 0, 2, 3]), ([3, 2, 1, 0], [2, 3, 1, 0])]

    assert TauAp().measure(align(reference.batch(swapped))).tolist() == pytest.approx([1 / 3, 1 / 3], abs=1e-12)


def test_average_overlap_at_p_one_of_the_rbo_package_stops_at_the_shorter_list() -> None:
    assert RankingSimilarity([1], [1, 2]).rbo(p=1.0) == 1.0

    assert average_overlap(align(reference.batch([([1], [1, 2])])))[0] == 0.75


def test_the_top_four_weigh_0_8640_at_p_0_75_where_the_weight_of_the_top_ten_at_0_9_is_printed() -> None:
    assert rbo_weight(0.75, 4) == pytest.approx(0.8640174815, abs=1e-10)

    assert round(rbo_weight(0.9, 10), 4) == 0.8556


def test_an_inverted_list_of_five_has_an_unscaled_extended_tau_of_3_by_7_and_not_the_articles_0_45() -> None:
    upside_down = [([1, 2, 3, 4, 5], [5, 4, 3, 2, 1])]

    # 10 pairs of the list in opposite order, the 25 of an item and a dummy in the same one: (25 - 10) / 35.
    assert extended_tau_unscaled(align(reference.batch(upside_down)))[0] == pytest.approx(3 / 7, abs=1e-15)
