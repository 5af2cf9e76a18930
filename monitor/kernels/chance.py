"""How many items two random lists share, and what follows from it."""

from __future__ import annotations

import math

import numpy as np

from monitor.model.arrays import Floats


def common_by_chance(k: int, catalogue: int) -> Floats:
    """Chances that two random k-subsets of ``catalogue`` items share 0 to k items, hypergeometric: float64 (k + 1,)."""
    least = max(0, 2 * k - catalogue)
    x = np.arange(least, k, dtype=np.float64)
    strangers = float(catalogue - 2 * k) + x + 1.0
    # By the ratios of neighbours in logarithms: the counts themselves overflow, and lose their digits in lgamma.
    steps = 2 * np.log(k - x) - np.log(x + 1) - np.log(strangers)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    likely = np.exp(logs - logs.max())
    return np.concatenate((np.zeros(least), likely / likely.sum()))


def expect_over_shared(k: int, catalogue: int, values: Floats, least: int = 0) -> float | None:
    """Mean of ``values[z]`` over the number z of items that two random k-subsets of a catalogue share, given z >= ``least``.

    ``values``: k + 1 of them. None where z cannot reach ``least``.
    """
    odds = common_by_chance(k, catalogue)[least:]
    return float(odds @ values[least:] / odds.sum()) if odds.any() else None


def draw_twice(k: int, catalogue: int) -> float:
    """Chance that two given items are both among k drawn from a catalogue."""
    return k * (k - 1) / (catalogue * (catalogue - 1)) if catalogue > 1 else 0.0


def expect_extended_surplus(k: int, catalogue: int) -> float:
    """Mean of S, the concordant less the discordant pairs of extended tau, for two random lists of k items.

    Over the whole catalogue tau of two random orders is 0. The universe has z dummies where the catalogue has N - 2 k + z other
    items, each concordant with each of the z common ones: E[S] = E[z] (2 k - N), E[z] = k² / N.
    """
    return math.fsum([2 * k**3 / catalogue, -(k**2)])


def expect_topk_kendall(k: int, catalogue: int, penalty: float) -> float:
    """Mean of Fagin, Kumar and Sivakumar's K^(p) for two random lists of k items.

    K0 = (k² + z (z - 1) / 2 - S) / 2, S as in `expect_extended_surplus`; a pair of one list is missing from the other with the
    chance that both are among the N - k items not drawn.
    """
    shared = k * (k - 1) * draw_twice(k, catalogue) / 2
    missing = k * (k - 1) * draw_twice(catalogue - k, catalogue)
    return (k * k + shared - expect_extended_surplus(k, catalogue)) / 2 + penalty * missing
