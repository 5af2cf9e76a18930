"""Metrics of one arm's lists from graded items: gains, recall, reciprocal rank, precision."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from monitor.measures.kernels.alignment import Alignment, divide, sum_ranks
from monitor.model.arrays import Codes, Floats
from monitor.model.rankings import Arm, Labels

DIFFERENCE = "difference"
RELEVANCE_SIDES = (DIFFERENCE, Arm.BASELINE.value, Arm.CANDIDATE.value)
LINEAR = "linear"
EXPONENTIAL = "exponential"
GAINS = (LINEAR, EXPONENTIAL)

Gain: TypeAlias = Callable[[Floats, Labels], Floats]


def of_arm(alignment: Alignment, arm: str, score: Gain) -> Floats:
    """``score(grades, labels)`` of one arm's lists, or the difference of both arms: float64 (n,).

    The difference is the candidate's score minus the baseline's score. It is exactly 0 for
    identical lists. The result is NaN if the user has no relevant item, or if both lists are empty.
    A single empty list is scored as a list without a relevant item.
    """
    labels = alignment.labels
    if labels is None:
        raise ValueError("the alignment has no labels: give the batch relevance")
    # A gain may be so large that it becomes infinite. The difference of two infinite scores is NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        if arm == DIFFERENCE:
            values = score(labels.grades.candidate, labels) - score(labels.grades.baseline, labels)
        else:
            values = score(labels.grades.of(arm), labels)
    return np.where((labels.relevant == 0) | (alignment.long == 0), np.nan, values)


def cg(grades: Floats) -> Floats:
    """Cumulated gain, the sum of the grades of the listed items: float64 (n,), at least 0.

    The order of the items is ignored.
    Source: Järvelin and Kekäläinen, TOIS 20(4), 2002, equation 1.
    """
    return sum_ranks(grades)


def dcg(grades: Floats, gain: str) -> Floats:
    """Discounted cumulative gain: float64 (n,), at least 0.

    It is the sum of ``gain(grade_r) / log2(r + 1)`` over the ranks r = 1, 2 and so on. With
    ``linear`` gain, the gain of a grade g is g. With ``exponential`` gain, it is 2**g - 1, and
    infinite for g of 1024 or more (Burges et al., Learning to rank using gradient descent, ICML
    2005). This discount is the usual one today. Järvelin and Kekäläinen (2002), equation 2, do not
    discount the ranks 1 and 2. They divide by log2(r) at lower ranks.

    The grades 3 2 3 0 1 2 give 6.861 with linear gain and 13.848 with exponential gain. A widely
    copied table has the sum 16.047, which is wrong. At rank 5 it adds the discount 2.585, but must
    add (2**1 - 1) / 2.585.
    """
    if gain == LINEAR:
        return sum_ranks(grades * rank_discounts(len(grades))[:, None])
    with np.errstate(over="ignore"):
        return sum_ranks((np.exp2(grades) - 1) * rank_discounts(len(grades))[:, None])


def ndcg(grades: Floats, ideal: Floats, gain: str) -> Floats:
    """DCG divided by the DCG of the ideal list: float64 (n,) in [0, 1], NaN if nothing is relevant.

    ``ideal`` (depth, n) has the user's highest grades in descending order. *It includes items that
    are not listed.* So a list without the best items does not score 1, and both arms have the same
    ideal list. ``ideal`` may be deeper than ``grades``, so a short list does not score more. The
    grades 3 2 3 0 1 2 score 0.961 if the user graded only these six items. If the user also gave 3
    and 2 to items that are not listed, the ideal list is 3 3 3 2 2 2. Then the same list scores
    0.785.
    Source: Järvelin and Kekäläinen (2002), section 2.3, with the discount and gains of `dcg`. For
    linear gains this is trec_eval's ndcg_cut.
    """
    if gain == EXPONENTIAL:
        # The gains are scaled by 2**-(highest grade). So no grade is too large.
        highest = ideal[0]
        grades = _scale_gains(grades, highest)
        ideal = _scale_gains(ideal, highest)
    return np.minimum(divide(dcg(grades, LINEAR), dcg(ideal, LINEAR)), 1.0)


def recall(grades: Floats, relevant: Codes) -> Floats:
    """The share of the user's relevant items that are listed: float64 (n,) in [0, 1].

    Let R be the number of the user's relevant items. The value is NaN if R is 0. It is at most
    k / R for a list of k items.
    """
    return divide((grades > 0).sum(axis=0), relevant)


def reciprocal_rank(grades: Floats) -> Floats:
    """1 / rank of the first relevant item: float64 (n,) in [0, 1].

    It is 0 if no relevant item is listed.
    Source: Voorhees, TREC-8 question answering, 1999.
    """
    is_relevant = grades > 0
    return np.where(is_relevant.any(axis=0), 1.0 / (is_relevant.argmax(axis=0) + 1), 0.0)


def average_precision(grades: Floats, relevant: Codes) -> Floats:
    """The sum of the precisions at the ranks of relevant items, divided by R: float64 (n,), <= 1.

    R is the number of the user's relevant items, as in trec_eval's map and map_cut. So a list of k
    items scores at most k / R. Other programs divide by min(R, k) instead. The value is NaN if R is
    0. All grades above 0 have the same effect.
    Source: Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000; trec_eval,
    m_map_cut.c.
    """
    is_relevant = grades > 0
    precision = is_relevant.cumsum(axis=0) / np.arange(1.0, len(grades) + 1)[:, None]
    return divide(sum_ranks(precision * is_relevant), relevant)


def ndcg_vs_baseline(alignment: Alignment, gain: str) -> Floats:
    """NDCG of the candidate's list with grades from the baseline's ranks: float64 (n,) in [0, 1].

    The baseline's list has l items. Its item at rank r has the grade l - r + 1. Any other item has
    the grade 0. The ideal list is the baseline's list. The gain is the grade (``linear``) or
    2**grade - 1 (``exponential``), discounted as in `dcg`. Identical lists score exactly 1.
    Disjoint lists and one empty list score exactly 0. For two empty lists, the score is NaN. The
    metric is *asymmetric*, because the grades come from the baseline. A candidate item that is not
    in the baseline's list adds nothing and moves the items after it down.
    """
    lengths = alignment.baseline_lengths
    if alignment.is_full:  # all pairs have the same grades
        lengths = np.array([alignment.k])
    gains = _gains_by_rank(lengths, alignment.k, gain)
    discounts = rank_discounts(alignment.k)
    ideal = np.broadcast_to(sum_ranks(gains * discounts[:, None]), alignment.long.shape)
    gained = sum_ranks(gains * np.append(discounts, 0.0).take(alignment.positions))
    score: Floats = np.where(alignment.long > 0, 0.0, np.nan)
    np.divide(gained, ideal, out=score, where=ideal > 0)
    return np.minimum(score, 1.0, out=score)


def expected_ndcg_vs_baseline(k: int, catalogue: int, gain: str) -> float:
    """The mean `ndcg_vs_baseline` of two random lists of k items.

    A given item is at a given rank with probability 1 / catalogue.
    """
    gains = _gains_by_rank(np.array([k]), k, gain)[:, 0]
    discounts = rank_discounts(k)
    return float(gains.sum() * discounts.sum() / (catalogue * (gains * discounts).sum()))


def _gains_by_rank(lengths: Codes, k: int, gain: str) -> Floats:
    """The gain at each rank of lists of these lengths: (k, len(lengths)).

    It is 0 below the end of a list. Exponential gains are scaled by 2**-length.
    """
    grades: Floats = np.maximum(lengths - np.arange(k)[:, None], 0).astype(np.float64)
    if gain == LINEAR:
        return grades
    return _scale_gains(grades, lengths.astype(np.float64))


def _scale_gains(grades: Floats, highest: Floats) -> Floats:
    """(2**grade - 1) / 2**highest. Each column has its own highest grade."""
    # The result is finite for all grades, because the gains are scaled before the subtraction.
    scaled: Floats = np.exp2(grades - highest) - np.exp2(-highest)
    return scaled


@lru_cache(maxsize=32)
def rank_discounts(places: int) -> Floats:
    """The discounts of DCG, 1 / log2(rank + 1) for the ranks 1, 2, 3 and so on: 1, 0.631, 0.5, ...

    Callers share the array and must not change it.
    """
    discounts: Floats = 1.0 / np.log2(np.arange(2.0, places + 2))
    return discounts
