"""Makes scores for the gate of an unpaired comparison: may the candidate get all users?"""

import numpy as np

from monitor.model.arrays import Floats


def pair_scores(baseline: Floats, candidate: Floats, rng: np.random.Generator) -> Floats:
    """The score of a baseline user minus the score of a candidate user, for random pairs, (m,).

    A score is the similarity of a user's current list to the user's pre-test list. The arguments
    have the scores of each arm's users, (n,). The expected mean of the result is the self gap. The
    result is between -r and r if the scores have the range r. So `over_own_lists` gives it the
    ``Scale(-r, r)``, and the margin of the gate is the largest self gap that is allowed.

    Each user is used at most once. m is the number of users of the smaller arm. If the other arm
    has at least g times as many users, each pair has the mean score of g users of this arm. This
    keeps the range and reduces the variance.

    The gate needs pairs that are independent of earlier pairs. So a test may use each user in one
    run only, for example the users that are new since the last run. NaN is ignored. The result is
    empty if an arm has no scores.
    """
    shuffled_baseline = rng.permutation(baseline[~np.isnan(baseline)])
    shuffled_candidate = rng.permutation(candidate[~np.isnan(candidate)])
    pairs = min(len(shuffled_baseline), len(shuffled_candidate))
    if not pairs:
        return np.empty(0)
    return _group_means(shuffled_baseline, pairs) - _group_means(shuffled_candidate, pairs)


def _group_means(scores: Floats, pairs: int) -> Floats:
    """The means of as many equally large groups as there are pairs."""
    size = len(scores) // pairs
    means: Floats = scores[: size * pairs].reshape(pairs, size).mean(axis=1)
    return means
