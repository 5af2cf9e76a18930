"""Pairs of lists with everything that a metric may need to know of them."""

from dataclasses import replace

import numpy as np

from kernels.reference_relevance import labelled
from monitor.measures.metrics import score_all
from monitor.model.rankings import ByArm


def batch(pairs, k=None):
    """The pairs with scores, weights and labels, which follow from the items alone.

    No scores are tied.
    """
    grades = [{item: float(item % 3) for item in [*a, *b]} | {-2: 2.0} for a, b in pairs]
    graded = labelled(pairs, grades, k)
    assert graded.labels is not None
    longest = max((len(ranking) for pair in pairs for ranking in pair), default=0)
    graded.labels.ideal[:, longest:] = 0.0
    places = ByArm(
        baseline=graded.baseline.astype(np.float64), candidate=graded.candidate.astype(np.float64)
    )

    def weigh(codes):
        return np.where(codes < 0, np.nan, 1.0 + codes % 4)

    def fall(codes):
        return np.where(codes < 0, np.nan, -np.arange(codes.shape[1], dtype=np.float64))

    return replace(graded, scores=places.map(fall), weights=places.map(weigh))


def scores(metric, pairs, k=None):
    return score_all(batch(pairs, k), [metric])[str(metric)]
