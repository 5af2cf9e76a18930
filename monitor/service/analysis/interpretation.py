"""Says what the mean of a metric means: random lists, identical lists, or something between."""

import math
from collections.abc import Sequence

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.interpretation import (
    Concentration,
    Interpretation,
    Likeness,
    Spread,
    TrainingDistance,
)
from monitor.model.runs import ArmScore, Summary

_LEAST_NEARLY_IDENTICAL = 0.9
_LEAST_SIMILAR = 0.5
_MOST_RANDOM = 0.1
_FEW_USERS_SHARE = 0.2
_LEAST_USERS = 30
_LEAST_SHARED_SHARE = 0.05
_LEAST_SHARED_USERS = 10
_STANDARD_ERRORS = 2.0  # the interval of the mean reaches this many standard errors to each side


def interpret_summary(
    summary: Summary,
    *,
    by_chance: float | None,
    identical: float | None,
    trainings: Summary | None,
) -> Interpretation | None:
    """Interpret the summary of a metric.

    ``trainings`` is the same metric, measured between two trainings of the baseline's model.
    Returns None if the metric has no mean, or if the scores of random and of identical lists are
    unknown or equal.
    """
    mean = summary.mean
    error = summary.standard_error
    if mean is None or by_chance is None or identical is None or by_chance == identical:
        return None
    if error is None:
        error = math.nan
    distance = None
    if trainings is not None:
        distance = _compare_trainings(mean, error, identical, trainings)
    scale = identical - by_chance
    return Interpretation(
        likeness=_classify_likeness((mean - by_chance) / scale, abs(error / scale)),
        metric=summary.metric,
        users=summary.n,
        mean=mean,
        standard_error=error,
        by_chance=by_chance,
        identical=identical,
        trainings=distance,
    )


def measure_concentration(distances: Floats, usual: Floats | None = None) -> Spread | None:
    """Return how the difference is distributed over the users, or None if it cannot be said.

    ``distances`` are the distances from identical lists, float64 (n,). ``usual`` are the
    distances between two trainings. The number of their users may differ. If they are given, only
    the distance that exceeds them is measured. Both are compared in their order of size, because
    the distance of a single user varies from training to training.
    """
    if len(distances) < _LEAST_USERS:
        return None
    differences = np.sort(distances)
    if usual is not None and len(usual):
        places = np.linspace(0.0, 1.0, len(differences))
        differences = np.maximum(0.0, differences - np.quantile(usual, places))
    total = differences.sum()
    if not total > 0.0:
        return None
    # The smallest share of users who cause half of the total difference.
    largest_first = np.sort(differences)[::-1]
    half_share = (np.searchsorted(np.cumsum(largest_first), total / 2.0) + 1) / len(differences)
    concentration = Concentration.MANY_USERS
    if half_share <= _FEW_USERS_SHARE:
        concentration = Concentration.FEW_USERS
    return Spread(
        concentration=concentration,
        half_share=float(half_share),
        is_excess=usual is not None,
    )


def find_common_list_shares(scores: Sequence[ArmScore]) -> list[ArmScore]:
    """Select the shares of users with the most common list that are worth showing.

    A share is worth showing if it is at least 5 % and at least ten users.
    """
    notable = []
    for score in scores:
        share = score.value or 0.0
        if share >= _LEAST_SHARED_SHARE and share * score.n >= _LEAST_SHARED_USERS:
            notable.append(score)
    return notable


def _classify_likeness(share: float, error: float) -> Likeness:
    """Classify a mean on a scale from 0 (random lists) to 1 (identical lists)."""
    low = share - _STANDARD_ERRORS * error
    high = share + _STANDARD_ERRORS * error
    likeness = Likeness.DIFFERENT
    if math.isclose(share, 1.0, abs_tol=1e-9):
        likeness = Likeness.IDENTICAL
    elif high < 0.0:
        likeness = Likeness.BELOW_RANDOM
    elif high < _MOST_RANDOM:
        likeness = Likeness.RANDOM
    elif low <= 0.0 or math.isnan(error):
        likeness = Likeness.UNCERTAIN
    elif share >= _LEAST_NEARLY_IDENTICAL:
        likeness = Likeness.NEARLY_IDENTICAL
    elif share >= _LEAST_SIMILAR:
        likeness = Likeness.SIMILAR
    return likeness


def _compare_trainings(
    mean: float, error: float, identical: float, trainings: Summary
) -> TrainingDistance | None:
    """Compare the candidate's distance from identical lists with the distance of two trainings.

    Both means come from the same users, so the sum of their variances is too large. So the function
    is a little too cautious. It sometimes finds no difference where there is a small one.
    """
    if trainings.mean is None or trainings.standard_error is None:
        return None
    usual = abs(identical - trainings.mean)
    distance = abs(identical - mean)
    total_error = math.hypot(error, trainings.standard_error)
    return TrainingDistance(
        mean=trainings.mean,
        standard_error=trainings.standard_error,
        ratio=distance / usual if usual else None,
        is_exceeded=distance - usual > _STANDARD_ERRORS * total_error,
    )
