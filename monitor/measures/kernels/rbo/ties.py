"""Rank-biased overlap (RBO) of lists with tied items, by three definitions of a tie."""

from collections.abc import Callable

import numpy as np

from monitor.measures.kernels.alignment import Alignment
from monitor.measures.kernels.rbo.untied import to_units
from monitor.model.arrays import Codes, Floats, Integers
from monitor.model.immutable import immutable

_Counts = Integers


def rbo_w(alignment: Alignment, p: float) -> Floats:
    """RBO_ext where tied items share one rank, as in sports: float64 (n,) in [0, 1].

    Use it if a tie means equality. Let a group of tied items have the ranks t to b. Each of these
    items is in the top d if d is at least t. So the top d may contain more than d items. The
    agreement at depth d is ``A_d = 2 X_d / (|S_d| + |T_d|)``. S_d and T_d are the top d of both
    lists. X_d is the number of their common items.

    A list compared with itself scores exactly 1, even with ties. Disjoint lists and one empty list
    score exactly 0. For two empty lists, the score is NaN. The metric is symmetric. If no items are
    tied, it equals `rbo`. `_extrapolate` describes what the three definitions have in common.
    Source: Webber, Moffat and Zobel (2010), equation 28; Corsi and Urbano (2024), RBO^w.
    """
    return _extrapolate(alignment, p, _mean_size, ties_share_rank=True)


def rbo_a(alignment: Alignment, p: float) -> Floats:
    """RBO_ext averaged over all orders of the tied items: float64 (n,) in [0, 1].

    Use it if a tie means that the order is unknown. Let a group of tied items have the ranks t to
    b. Each of these items is in the top d with probability ``(d - t + 1) / (b - t + 1)``. The
    agreement at depth d is ``A_d = X_d / d``. X_d is the expected overlap.

    For lists of equal length, this is exactly the mean of `rbo` over all orders of the tied items.
    All orders are equally likely, and the orders of the two lists are independent. The same is true
    for lists of unequal length, with one exception: a tied group of the longer list begins above
    the end of the shorter list and ends below it. In this case an unseen item is weighted by the
    probability that it has appeared. The authors define it this way. Equation 32 of Webber, Moffat
    and Zobel, which `rbo` uses, does not.

    A list compared with itself scores 1 if no items are tied. If items are tied, it scores less,
    because two orders of the tied items differ. Disjoint lists and one empty list score exactly 0.
    For two empty lists, the score is NaN. The metric is symmetric. If no items are tied, it equals
    `rbo`. `_extrapolate` describes what the three definitions have in common. Source: Corsi and
    Urbano (2024), RBO^a.
    """
    return _extrapolate(alignment, p, _depth, ties_share_rank=False)


def rbo_b(alignment: Alignment, p: float) -> Floats:
    """RBO_ext corrected for the uncertainty of ties, as tau-b is: float64 (n,) in [0, 1].

    Use it if a tie means that the order is unknown, and lists with the same ties should agree. Let
    c_S and c_T be an item's probabilities in both lists, as defined in `rbo_a`. The agreement at
    depth d is ``A_d = sum c_S c_T / sqrt(sum c_S^2 sum c_T^2)``. The score is never below `rbo_a`.
    It has the same special values and symmetry as `rbo_w`. If no items are tied, it equals `rbo`.
    Source: Corsi and Urbano (2024), RBO^b.
    """
    return _extrapolate(alignment, p, _geometric_size, ties_share_rank=False)


@immutable
class _Arm:
    """The tied groups of one arm's lists at each depth: (k, n)."""

    ended: _Counts  # the number of items in groups that end before the depth
    begun: _Counts  # the number of items in groups that begin at or before the depth
    share: Floats  # the share of each item of the depth's group that is in the top
    length: Codes


@immutable
class _Common:
    """The number of common items at each depth, by the state of their tied groups: (k, n)."""

    ended: _Counts  # items whose groups have ended in both lists
    ended_in_baseline: _Counts
    ended_in_candidate: _Counts
    begun: _Counts  # items whose groups have begun in both lists


_Norm = Callable[[_Counts, _Arm, _Arm], Floats]


def _extrapolate(
    alignment: Alignment,
    p: float,
    norm: _Norm,
    *,
    ties_share_rank: bool,
) -> Floats:
    """RBO_ext of the agreements ``A_d = X_d / norm``: float64 (n,).

    A common item adds the product of its shares in both lists to the overlap X_d. If
    ``ties_share_rank``, tied items share one rank, and each share is 1. l is the length of the
    longer list. The result is ``(1-p) sum_{d=1..l} p^(d-1) A_d + p^l A_l``. Below the longer list,
    the agreement is assumed to stay the same.

    Let s be the length of the shorter list. At a depth d below its end, this list has d - s empty
    places. It is assumed that each empty place has an untied item, which is in the longer list with
    probability A_s. The share that such an item adds is a mean over the items that are in the top d
    of the longer list but are not common (Corsi and Urbano, section 5).

    Neighbours with equal scores are tied. A score of NaN is never tied. If the end of a list cuts a
    tied group, only the items in the list belong to the group.
    Cost: O(k) for each pair.
    """
    if alignment.scores is None:
        raise ValueError("the alignment has no scores, which ties need: give the batch scores")
    depth = np.arange(1, alignment.k + 1, dtype=np.int32)[:, None]
    our_bounds = _find_groups(alignment.scores.baseline)
    their_bounds = _find_groups(alignment.scores.candidate)
    common = _count_common(alignment, our_bounds, their_bounds)
    ours = _make_arm(
        depth, *our_bounds, alignment.baseline_lengths, ties_share_rank=ties_share_rank
    )
    theirs = _make_arm(
        depth, *their_bounds, alignment.candidate_lengths, ties_share_rank=ties_share_rank
    )
    size = norm(depth, ours, theirs)
    overlap = _expect_overlap(common, ours, theirs)
    if not alignment.is_full:
        agreement = _take_depths(overlap / size, alignment.short)
        for_ours = _unseen_overlap(depth, ours, theirs, common, common.ended_in_baseline)
        for_theirs = _unseen_overlap(depth, theirs, ours, common, common.ended_in_candidate)
        overlap += agreement * for_ours
        overlap += agreement * for_theirs
    return _sum_agreements(alignment, p, np.minimum(overlap / size, 1.0))


def _find_groups(scores: Floats) -> tuple[_Counts, _Counts]:
    """For each place, the first place of its tied group, and the first place after the group."""
    place = np.broadcast_to(np.arange(len(scores), dtype=np.int32)[:, None], scores.shape)
    is_tied = scores[1:] == scores[:-1]
    start = place.copy()
    end = place + 1
    start[1:][is_tied] = 0
    end[:-1][is_tied] = len(scores)
    return np.maximum.accumulate(start, axis=0), np.minimum.accumulate(end[::-1], axis=0)[::-1]


def _make_arm(
    depth: _Counts,
    start: _Counts,
    end: _Counts,
    length: Codes,
    *,
    ties_share_rank: bool,
) -> _Arm:
    """The tied groups of one arm's lists. See `_extrapolate`."""
    if ties_share_rank:
        share = np.ones(start.shape)
    else:
        share = (depth - start) / (end - start)
    return _Arm(
        ended=np.minimum(start, length),
        begun=np.minimum(end, length),
        share=share,
        length=length,
    )


def _count_common(
    alignment: Alignment,
    ours: tuple[_Counts, _Counts],
    theirs: tuple[_Counts, _Counts],
) -> _Common:
    """Count the common items. ``ours`` and ``theirs`` are results of `_find_groups`."""
    k, n = alignment.positions.shape
    our_cells = np.flatnonzero(alignment.positions < k)
    user = our_cells % max(n, 1)
    their_cells = alignment.positions.ravel()[our_cells].astype(np.intp) * n + user
    start, end = (bound.ravel()[our_cells] for bound in ours)
    other_start, other_end = (bound.ravel()[their_cells] for bound in theirs)

    def count(first: _Counts) -> _Counts:
        """How many items are counted at each depth. An item is counted from depth ``first`` on."""
        cells = first.astype(np.intp) * n + user
        counts = np.bincount(cells, minlength=(k + 1) * n).reshape(k + 1, n)
        return counts[:k].cumsum(axis=0, dtype=np.int32)

    return _Common(
        ended=count(np.maximum(end, other_end)),
        ended_in_baseline=count(np.maximum(end, other_start)),
        ended_in_candidate=count(np.maximum(start, other_end)),
        begun=count(np.maximum(start, other_start)),
    )


def _expect_overlap(common: _Common, ours: _Arm, theirs: _Arm) -> Floats:
    """The expected number of common items in the top of both lists at each depth: (k, n)."""
    # Items whose tied group has begun, but has not ended: only in our list, only in their list, and
    # in both lists.
    open_in_ours = common.ended_in_candidate - common.ended
    open_in_theirs = common.ended_in_baseline - common.ended
    both = common.begun - common.ended_in_baseline - common.ended_in_candidate + common.ended
    overlap: Floats = (
        common.ended
        + (ours.share * open_in_ours + theirs.share * open_in_theirs)
        + (ours.share * theirs.share) * both
    )
    return overlap


def _unseen_overlap(
    depth: _Counts,
    shorter: _Arm,
    longer: _Arm,
    common: _Common,
    begun: _Counts,
) -> Floats:
    """The overlap that the empty places of ``shorter`` add if all have items of ``longer``.

    ``begun`` is the number of common items whose tied group in ``shorter`` has ended, and whose
    tied group in ``longer`` has begun. The result is 0 for pairs in which ``shorter`` is not the
    shorter list.
    """
    is_empty = (depth > shorter.length) & (depth <= longer.length)
    # The items of ``longer`` that are not common, and the sum of their shares.
    ended = longer.ended - common.ended
    unseen = longer.begun - begun
    total_share = ended + longer.share * (unseen - ended)
    mean_share = np.divide(total_share, unseen, out=np.zeros(total_share.shape), where=is_empty)
    overlap: Floats = (depth - shorter.length) * mean_share
    return overlap


def _take_depths(values: Floats, depths: Codes) -> Floats:
    """The value of each user at the user's depth: (n,). It is 0 at depth 0."""
    rows = np.maximum(depths, 1).astype(np.intp) - 1
    taken = np.take_along_axis(values, rows[None], axis=0)[0]
    return np.where(depths > 0, taken, 0.0)


def _sum_agreements(alignment: Alignment, p: float, agreement: Floats) -> Floats:
    """RBO_ext from the agreement at each depth: float64 (n,)."""
    # Weights are differences of multiples of 2**-52, so the sum of all weights is exactly 1. Unlike
    # sum, cumsum adds rank after rank for any number of users, so the bits do not depend on this
    # number.
    k = alignment.k
    long = alignment.long
    power = to_units(p ** np.arange(k + 1.0))
    weighted = np.where(np.arange(k)[:, None] < long, agreement * -np.diff(power)[:, None], 0.0)
    below_lists = _take_depths(agreement, long) * power.take(long)
    score: Floats = np.cumsum(weighted, axis=0)[-1] + below_lists
    score[alignment.short == 0] = 0.0
    score[long == 0] = np.nan
    return score


def _sum_squares(depth: _Counts, arm: _Arm) -> Floats:
    """The sum of the squared shares of all items, (k, n). It is the depth after the list's end."""
    squares = arm.ended + (arm.share * arm.share) * (arm.begun - arm.ended)
    return np.where(depth > arm.length, depth, squares)


def _mean_size(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    size: Floats = (_sum_squares(depth, ours) + _sum_squares(depth, theirs)) / 2
    return size


def _geometric_size(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    size: Floats = np.sqrt(_sum_squares(depth, ours) * _sum_squares(depth, theirs))
    return size


def _depth(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    del ours, theirs
    return depth.astype(np.float64)
