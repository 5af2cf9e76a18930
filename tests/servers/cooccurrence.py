"""A small recommender in two arms: who bought this also bought that.

In whole numbers, it answers the same everywhere.
"""

import numpy as np

USERS = [f"u{number}" for number in range(100)]
_ITEMS = 300


def recommend(arm, users=USERS, k=10):
    """Items, best first, and their scores, int64 (users, k) each.

    The candidate makes less of what everybody buys.
    """
    rng = np.random.default_rng(7)
    bought = (rng.random((len(USERS), _ITEMS)) < 0.02 + 0.2 * rng.random(_ITEMS) ** 4).astype(
        np.int64
    )
    together, times = bought.T @ bought, bought.sum(axis=0)
    if arm == "candidate":
        together = 1000 * together // (times[:, np.newaxis] + times + 1)
    scores = (bought @ together - 10**9 * bought)[[USERS.index(user) for user in users]]
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(scores, best, axis=1)
