"""Measures of relevance of one arm, taken from graded items: gains, recall, reciprocal rank, average precision."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from monitor.kernels.alignment import Alignment, divide, sum_ranks
from monitor.model.arrays import Codes, Floats
from monitor.model.rankings import Arm, Labels

DIFFERENCE = "difference"
ARMS = (DIFFERENCE, Arm.BASELINE.value, Arm.CANDIDATE.value)
LINEAR, EXPONENTIAL = "linear", "exponential"
GAINS = (LINEAR, EXPONENTIAL)

Gain: TypeAlias = Callable[[Floats, Labels], Floats]


def of_arm(alignment: Alignment, arm: str, score: Gain) -> Floats:
    """``score(grades, labels)`` of one arm's lists, or the candidate's less the baseline's: float64 (n,).

    NaN for a user without a known relevant item, and where both lists are empty; one empty list holds none. Identical lists
    differ by exactly 0.
    """
    labels = alignment.labels
    if labels is None:
        raise ValueError("these lists were aligned without labels")
    # Gains may sum up to infinity, and what is infinite in both arms differs by nothing known.
    with np.errstate(over="ignore", invalid="ignore"):
        if arm == DIFFERENCE:
            found = score(labels.grades.candidate, labels) - score(labels.grades.baseline, labels)
        else:
            found = score(labels.grades.of(arm), labels)
    return np.where((labels.relevant == 0) | (alignment.long == 0), np.nan, found)


def cg(grades: Floats) -> Floats:
    """Sum of the grades, float64 (n,), at least 0, in any order: Järvelin and Kekäläinen, TOIS 20(4), 2002, equation 1."""
    return sum_ranks(grades)


def dcg(grades: Floats, gain: str) -> Floats:
    """Discounted cumulative gain, sum over ranks r from 1 of ``gain(grade_r) / log2(r + 1)``: float64 (n,), at least 0.

    ``linear``: the grade g itself. ``exponential``: 2**g - 1 (Burges et al., Learning to rank using gradient descent, ICML
    2005), which is infinite from g = 1024 on. The discount is the one used today; Järvelin and Kekäläinen (2002), equation 2,
    leave rank 1 and 2 undiscounted and divide by log2(r) from there on.
    Grades 3 2 3 0 1 2 give 6.861, and 13.848 exponentially; a widely copied table sums to 16.047, since it adds 2.585, the
    discount at rank 5, in place of (2**1 - 1) / 2.585.
    """
    if gain == LINEAR:
        return sum_ranks(grades * rank_discounts(len(grades))[:, None])
    with np.errstate(over="ignore"):
        return sum_ranks((np.exp2(grades) - 1) * rank_discounts(len(grades))[:, None])


def ndcg(grades: Floats, ideal: Floats, gain: str) -> Floats:
    """DCG divided by the DCG of the ideal list: float64 (n,) in [0, 1].

    NaN where nothing is relevant.

    ``ideal`` (depth, n): the user's highest grades in descending order, *whether listed or not*, so
    that a list which left out the best items is not called perfect, and both arms are measured by
    one ideal. ``depth``, that of the metric, may exceed that of ``grades``: a list too short is no
    better for it. Grades 3 2 3 0 1 2 give 0.961 when these six are all that is known; with a 3 and
    a 2 left out, the ideal is 3 3 3 2 2 2, and the same list scores 0.785. Järvelin and Kekäläinen
    (2002), section 2.3, with the discount and gains of `dcg`; trec_eval's ndcg_cut when linear."""
    if gain == EXPONENTIAL:
        # Scaled by 2**-(highest grade), so that no grade is too large.
        grades, ideal = _scaled(grades, ideal[0]), _scaled(ideal, ideal[0])
    return np.minimum(divide(dcg(grades, LINEAR), dcg(ideal, LINEAR)), 1.0)


def recall(grades: Floats, relevant: Codes) -> Floats:
    """Relevant items listed, by their number R: float64 (n,) in [0, 1].

    NaN where R = 0, at most k / R with k items.
    """
    return divide((grades > 0).sum(axis=0), relevant)


def reciprocal_rank(grades: Floats) -> Floats:
    """1 / rank of the first relevant item, else 0: float64 (n,) in [0, 1].

    Voorhees, TREC-8 question answering, 1999.
    """
    is_relevant = grades > 0
    return np.where(is_relevant.any(axis=0), 1.0 / (is_relevant.argmax(axis=0) + 1), 0.0)


def average_precision(grades: Floats, relevant: Codes) -> Floats:
    """Sum of the precision at the rank of each relevant item listed, by the number of relevant items R: float64 (n,) in [0, 1].

    Divided by R as trec_eval's map and map_cut do: k items cannot exceed k / R. The other convention is this value times
    R / min(R, k). NaN where R = 0. Grades above 0 count alike.
    Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000; trec_eval, m_map_cut.c.
    """
    is_relevant = grades > 0
    precision = is_relevant.cumsum(axis=0) / np.arange(1.0, len(grades) + 1)[:, None]
    return divide(sum_ranks(precision * is_relevant), relevant)


def ndcg_vs_baseline(alignment: Alignment, gain: str) -> Floats:
    """NDCG of the candidate's list when the baseline's ranks are the grades: float64 (n,) in [0, 1].

    The item at rank r of a baseline's list of l items has grade l - r + 1, any other item 0; the ideal is the baseline's own
    list. Gains are ``linear`` (the grade) or ``exponential`` (2**grade - 1); discounts are those of `dcg`. Identical: exactly
    1. Disjoint or one empty: exactly 0. Both empty: NaN. *Asymmetric*: the baseline is the judge. What the candidate lists
    beyond the baseline's length counts only where it pushes other items down.
    """
    lengths = np.array([alignment.k]) if alignment.is_full else alignment.baseline_lengths
    gains = _gains_by_rank(lengths, alignment.k, gain)
    discounts = rank_discounts(alignment.k)
    best = np.broadcast_to(sum_ranks(gains * discounts[:, None]), alignment.long.shape)
    found = sum_ranks(gains * np.append(discounts, 0.0).take(alignment.positions))
    score: Floats = np.where(alignment.long > 0, 0.0, np.nan)
    np.divide(found, best, out=score, where=best > 0)
    return np.minimum(score, 1.0, out=score)


def expected_ndcg_vs_baseline(k: int, catalogue: int, gain: str) -> float:
    """Mean `ndcg_vs_baseline` of two random lists of k items: each item stands at each rank with chance 1 / catalogue."""
    gains, discounts = _gains_by_rank(np.array([k]), k, gain)[:, 0], rank_discounts(k)
    return float(gains.sum() * discounts.sum() / (catalogue * (gains * discounts).sum()))


def _gains_by_rank(lengths: Codes, k: int, gain: str) -> Floats:
    """(k, len(lengths)): gain at each rank of lists of these lengths, 0 below them.

    Exponential ones scaled by 2**-length.
    """
    grades = np.maximum(lengths - np.arange(k)[:, None], 0).astype(np.float64)
    return grades if gain == LINEAR else _scaled(grades, lengths.astype(np.float64))


def _scaled(grades: Floats, highest: Floats) -> Floats:
    """(2**grade - 1) / 2**highest, column by column."""
    # Scaled before anything is subtracted: finite whatever the grades.
    scaled: Floats = np.exp2(grades - highest) - np.exp2(-highest)
    return scaled


@lru_cache(maxsize=32)
def rank_discounts(places: int) -> Floats:
    """The discount of DCG, 1 / log2(rank + 1) for rank 1 on: 1, 0.631, 0.5, ...

    Nobody may change it.
    """
    discounts: Floats = 1.0 / np.log2(np.arange(2.0, places + 2))
    return discounts
