"""Rank correlations of the items in common in which the top counts most: Vigna's weighted tau, and tau-AP."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment, derive_once
from monitor.kernels.engines.positions import count_earlier_larger
from monitor.kernels.kendall.ties import find_tied, rank_tied, weighted_tau_of_ties
from monitor.kernels.shared import Shared, by_candidate_rank, divide, rank_shared, sum_ranks
from monitor.model.arrays import Floats, Integers


def weighted_tau(alignment: Alignment) -> Floats:
    """Additive hyperbolic weighted tau of the items in common: float64 (n,) in [-1, 1].

    The best of the z common items has rank 0. A pair of ranks r and s weighs 1 / (r + 1) + 1 / (s + 1); tau is the weight
    of pairs in the same order less that of pairs in opposite order, as a share of all weight. Ranks are taken by the
    baseline, then by the candidate, and the two results averaged, as scipy.stats.weightedtau does by default: its argument
    is a score, so that what stands first here is largest there. With d_i the common items in opposite order to item i::

        tau = 1 - sum_i d_i (1 / (a_i + 1) + 1 / (b_i + 1)) / ((z - 1) H_z)        a, b the item's two ranks

    Where the lists come with scores, items that hold a run of equal scores are tied, as in
    `monitor.kernels.kendall.ties.weighted_tau_of_ties`.

    Identical: 1. Reversed: -1. Fewer than two items in common, or all of them tied in a list: NaN. Symmetric.
    Cost: k² / 2 comparisons a pair, k log² k beyond `monitor.kernels.engines.positions.COUNT_ALL_PAIRS_MAX_K`.

    Source: Vigna, A weighted correlation index for rankings with ties (WWW 2015).
    """
    tau = _weigh_strict(alignment)
    tied = np.flatnonzero(find_tied(alignment))
    if len(tied):
        tau[tied] = weighted_tau_of_ties(rank_tied(alignment, tied))
    return tau


def tau_ap(alignment: Alignment) -> Floats:
    """AP correlation of the items in common, the baseline taken as the truth and the candidate as its estimate: float64 (n,).

    Down the z common items in the candidate's order, from the second on: the share of those above that the baseline has
    above as well, C(i) / (i - 1) at rank i; the mean of the shares, mapped to [-1, 1]::

        tau_ap = 2 / (z - 1) sum_{i=2..z} C(i) / (i - 1) - 1

    Identical: 1. Reversed: -1. Fewer than two items in common: NaN. NOT symmetric: errors at the top of the candidate's list
    cost most; `tau_ap_symmetric` is the mean of both directions. Ties are not known to it. Cost as `weighted_tau`.

    Source: Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (SIGIR 2008).
    """
    shared = rank_shared(alignment)
    return _map(by_candidate_rank(alignment, _share(_count_ahead_in_both(alignment), shared.candidate)), shared)


def tau_ap_symmetric(alignment: Alignment) -> Floats:
    """Mean of `tau_ap` with either list as the truth: float64 (n,) in [-1, 1].

    Identical: 1. Reversed: -1. Fewer than two items in common: NaN. Symmetric.
    Source: Yilmaz, Aslam and Robertson (2008), symmetric tau_ap.
    """
    shared = rank_shared(alignment)
    ahead = _count_ahead_in_both(alignment)
    there = _map(by_candidate_rank(alignment, _share(ahead, shared.candidate)), shared)
    mean: Floats = (there + _map(_share(ahead, shared.baseline), shared)) / 2
    return mean


def _weigh_strict(alignment: Alignment) -> Floats:
    shared = rank_shared(alignment)
    ranks, places = shared.baseline, shared.candidate
    discordant = np.where(shared.is_common, ranks + places - 2 * _count_ahead_in_both(alignment), 0)
    lost = sum_ranks(discordant / (ranks + 1.0))
    # Each direction is summed down its own list, so that the arms can change places to the last bit.
    lost += sum_ranks(by_candidate_rank(alignment, discordant / (places + 1.0)))
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, alignment.k + 1))))
    tau: Floats = np.maximum(1.0 - divide(lost, (shared.count - 1) * harmonic[shared.count]), -1.0)
    return tau


@derive_once
def _count_ahead_in_both(alignment: Alignment) -> Integers:
    """For each common item, the common items ahead of it in both lists; 0 for the others."""
    # What stands earlier in the baseline has either a smaller position, and so is common, or a larger one.
    earlier = np.arange(alignment.k)[:, None] - count_earlier_larger(alignment.positions).astype(np.int64)
    return np.where(alignment.positions < alignment.k, earlier, 0)


def _share(ahead: Integers, rank: Integers) -> Floats:
    return ahead / np.maximum(rank, 1)


def _map(shares: Floats, shared: Shared) -> Floats:
    tau: Floats = 2.0 * divide(sum_ranks(shares), shared.count - 1) - 1.0
    return tau
