"""Relevance metrics of one arm, from graded items: gains, recall, reciprocal rank, precision."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from monitor.kernels.alignment import Alignment, divide, sum_ranks
from monitor.model.arrays import Codes, Floats
from monitor.model.rankings import Arm, Labels

DIFFERENCE = "difference"
ARMS = (DIFFERENCE, Arm.BASELINE.value, Arm.CANDIDATE.value)
LINEAR = "linear"
EXPONENTIAL = "exponential"
GAINS = (LINEAR, EXPONENTIAL)

Gain: TypeAlias = Callable[[Floats, Labels], Floats]


def of_arm(alignment: Alignment, arm: str, score: Gain) -> Floats:
    """``score(grades, labels)`` of one arm's lists, or candidate minus baseline: float64 (n,).

    The result is NaN for a user without a relevant item, and if both lists are empty. One empty
    list contains no relevant item. Identical lists differ by exactly 0.
    """
    labels = alignment.labels
    if labels is None:
        raise ValueError("these lists were aligned without labels")
    # Gains may overflow to infinity. The difference of two infinite gains is undefined.
    with np.errstate(over="ignore", invalid="ignore"):
        if arm == DIFFERENCE:
            values = score(labels.grades.candidate, labels) - score(labels.grades.baseline, labels)
        else:
            values = score(labels.grades.of(arm), labels)
    return np.where((labels.relevant == 0) | (alignment.long == 0), np.nan, values)


def cg(grades: Floats) -> Floats:
    """Cumulated gain, the sum of the grades: float64 (n,), at least 0. The order is ignored.

    Source: Järvelin and Kekäläinen, TOIS 20(4), 2002, equation 1.
    """
    return sum_ranks(grades)


def dcg(grades: Floats, gain: str) -> Floats:
    """Discounted cumulative gain: float64 (n,), at least 0.

    It is the sum over ranks r from 1 of ``gain(grade_r) / log2(r + 1)``. The gain of a grade g is g
    if ``linear``. It is 2**g - 1 if ``exponential``, and infinite from g = 1024 on (Burges et al.,
    Learning to rank using gradient descent, ICML 2005). The discount is the usual one today.
    Järvelin and Kekäläinen (2002), equation 2, do not discount ranks 1 and 2, and divide by log2(r)
    after them.

    Grades 3 2 3 0 1 2 give 6.861, and 13.848 if exponential. A widely copied table sums to 16.047.
    It adds 2.585, the discount at rank 5, in place of (2**1 - 1) / 2.585.
    """
    if gain == LINEAR:
        return sum_ranks(grades * rank_discounts(len(grades))[:, None])
    with np.errstate(over="ignore"):
        return sum_ranks((np.exp2(grades) - 1) * rank_discounts(len(grades))[:, None])


def ndcg(grades: Floats, ideal: Floats, gain: str) -> Floats:
    """DCG divided by the DCG of the ideal list: float64 (n,) in [0, 1], NaN if nothing is relevant.

    ``ideal`` (depth, n): the user's highest grades in descending order, *whether listed or not*. So
    a list without the best items does not score 1, and both arms have the same ideal. ``depth`` is
    that of the metric and may exceed that of ``grades``, so a short list gains nothing. Grades 3 2
    3 0 1 2 give 0.961 if these six are all grades. If a 3 and a 2 were not listed, the ideal is 3 3
    3 2 2 2 and the same list scores 0.785.
    Source: Järvelin and Kekäläinen (2002), section 2.3, with the discount and gains of `dcg`;
    trec_eval's ndcg_cut for linear gains.
    """
    if gain == EXPONENTIAL:
        # Scaled by 2**-(highest grade), so no grade is too large.
        grades = _scaled(grades, ideal[0])
        ideal = _scaled(ideal, ideal[0])
    return np.minimum(divide(dcg(grades, LINEAR), dcg(ideal, LINEAR)), 1.0)


def recall(grades: Floats, relevant: Codes) -> Floats:
    """Relevant items listed divided by the number R of relevant items: float64 (n,) in [0, 1].

    It is NaN if R = 0, and at most k / R for k items.
    """
    return divide((grades > 0).sum(axis=0), relevant)


def reciprocal_rank(grades: Floats) -> Floats:
    """1 / rank of the first relevant item, 0 without one: float64 (n,) in [0, 1].

    Source: Voorhees, TREC-8 question answering, 1999.
    """
    is_relevant = grades > 0
    return np.where(is_relevant.any(axis=0), 1.0 / (is_relevant.argmax(axis=0) + 1), 0.0)


def average_precision(grades: Floats, relevant: Codes) -> Floats:
    """Sum of the precisions at the ranks of relevant items, divided by R: float64 (n,) in [0, 1].

    R is the number of the user's relevant items, as in trec_eval's map and map_cut. So k items
    score at most k / R. The other convention is this value times R / min(R, k). The value is NaN if
    R = 0. All grades above 0 count the same.
    Source: Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000; trec_eval,
    m_map_cut.c.
    """
    is_relevant = grades > 0
    precision = is_relevant.cumsum(axis=0) / np.arange(1.0, len(grades) + 1)[:, None]
    return divide(sum_ranks(precision * is_relevant), relevant)


def ndcg_vs_baseline(alignment: Alignment, gain: str) -> Floats:
    """NDCG of the candidate's list with the baseline's ranks as grades: float64 (n,) in [0, 1].

    The item at rank r of a baseline's list of l items has grade l - r + 1, any other item 0. The
    ideal is the baseline's list. Gains are ``linear`` (the grade) or ``exponential``
    (2**grade - 1). Discounts are those of `dcg`. Identical lists score exactly 1. Disjoint lists
    and one empty list score exactly 0. Two empty lists score NaN. The metric is *asymmetric*,
    because the baseline is the judge. Candidate items beyond the baseline's length only push other
    items down.
    """
    lengths = alignment.baseline_lengths
    if alignment.is_full:
        lengths = np.array([alignment.k])
    gains = _gains_by_rank(lengths, alignment.k, gain)
    discounts = rank_discounts(alignment.k)
    ideal = np.broadcast_to(sum_ranks(gains * discounts[:, None]), alignment.long.shape)
    gained = sum_ranks(gains * np.append(discounts, 0.0).take(alignment.positions))
    score: Floats = np.where(alignment.long > 0, 0.0, np.nan)
    np.divide(gained, ideal, out=score, where=ideal > 0)
    return np.minimum(score, 1.0, out=score)


def expected_ndcg_vs_baseline(k: int, catalogue: int, gain: str) -> float:
    """Mean `ndcg_vs_baseline` of two random lists of k items.

    Each item is at each rank with probability 1 / catalogue.
    """
    gains = _gains_by_rank(np.array([k]), k, gain)[:, 0]
    discounts = rank_discounts(k)
    return float(gains.sum() * discounts.sum() / (catalogue * (gains * discounts).sum()))


def _gains_by_rank(lengths: Codes, k: int, gain: str) -> Floats:
    """(k, len(lengths)): gain at each rank of lists of these lengths, 0 below them.

    Exponential gains are scaled by 2**-length.
    """
    grades: Floats = np.maximum(lengths - np.arange(k)[:, None], 0).astype(np.float64)
    if gain == LINEAR:
        return grades
    return _scaled(grades, lengths.astype(np.float64))


def _scaled(grades: Floats, highest: Floats) -> Floats:
    """(2**grade - 1) / 2**highest, column by column."""
    # Scaled before the subtraction, so the result is finite for all grades.
    scaled: Floats = np.exp2(grades - highest) - np.exp2(-highest)
    return scaled


@lru_cache(maxsize=32)
def rank_discounts(places: int) -> Floats:
    """The discount of DCG, 1 / log2(rank + 1) for rank 1 on: 1, 0.631, 0.5, ...

    The array is shared: callers must not change it.
    """
    discounts: Floats = 1.0 / np.log2(np.arange(2.0, places + 2))
    return discounts
