"""Rank-biased overlap of lists with tied items: three definitions of a tie."""

from collections.abc import Callable

import numpy as np

from monitor.immutable import immutable
from monitor.kernels.alignment import Alignment
from monitor.kernels.rbo.untied import to_units
from monitor.model.arrays import Codes, Floats, Integers

_Counts = Integers


def rbo_w(alignment: Alignment, p: float) -> Floats:
    """RBO_ext where tied items share one rank, as in sports: float64 (n,) in [0, 1].

    Use it if a tie means equality. An item tied at ranks t to b counts fully in the top d from
    d = t on. So the top d may contain more than d items. The agreement is
    ``A_d = 2 X_d / (|S_d| + |T_d|)``.

    A list compared with itself scores exactly 1, even with ties. Disjoint lists and one empty list
    score exactly 0. Two empty lists score NaN. The metric is symmetric. Without ties it equals
    `rbo`. `_extrapolate` describes what the three definitions share.
    Source: Webber, Moffat and Zobel (2010), equation 28; Corsi and Urbano (2024), RBO^w.
    """
    return _extrapolate(alignment, p, _mean_size, is_shared=True)


def rbo_a(alignment: Alignment, p: float) -> Floats:
    """RBO_ext averaged over all ways to break the ties: float64 (n,) in [0, 1].

    Use it if a tie means that the order is unknown. An item tied at ranks t to b is in the top d
    with probability ``(d - t + 1) / (b - t + 1)``. ``A_d = X_d / d`` with the expected overlap X_d.

    For lists of equal length this is exactly the mean of `rbo` over all orders of the tied items.
    The orders are equally likely, and independent between the two lists. For unequal lengths the
    same is true unless a tied group of the longer list continues below the end of the shorter list.
    In that case an unseen item counts by its probability of having appeared, as the authors define
    it. Equation 32 does not do that.

    A list compared with itself scores 1 without ties. With ties it scores less, because two orders
    of one tie differ. Disjoint lists and one empty list score exactly 0. Two empty lists score NaN.
    The metric is symmetric. Without ties it equals `rbo`. `_extrapolate` describes what the three
    definitions share.
    Source: Corsi and Urbano (2024), RBO^a.
    """
    return _extrapolate(alignment, p, _depth, is_shared=False)


def rbo_b(alignment: Alignment, p: float) -> Floats:
    """RBO_ext corrected for the uncertainty of ties, as tau-b is: float64 (n,) in [0, 1].

    Use it if a tie means that the order is unknown, but agreement on the ties counts as agreement.
    With the probabilities c of `rbo_a`: ``A_d = sum c_S c_T / sqrt(sum c_S^2 sum c_T^2)``.
    The score is never below `rbo_a`. Special values and symmetry are those of `rbo_w`. Without ties
    it equals `rbo`.
    Source: Corsi and Urbano (2024), RBO^b.
    """
    return _extrapolate(alignment, p, _geometric_size, is_shared=False)


@immutable
class _Arm:
    """One arm's tied groups by depth, (k, n)."""

    before: _Counts  # items of groups that end before the depth
    through: _Counts  # items of groups that begin at the depth or before; at most the list's length
    share: Floats  # how much of an item of the group at the depth belongs to the top
    length: Codes


@immutable
class _Common:
    """Number of common items by depth, (k, n), by the state of their tied groups."""

    ended: _Counts  # their groups ended in both lists
    ended_in_baseline: _Counts
    ended_in_candidate: _Counts
    begun: _Counts  # their groups began in both lists


_Norm = Callable[[_Counts, _Arm, _Arm], Floats]


def _extrapolate(
    alignment: Alignment,
    p: float,
    norm: _Norm,
    *,
    is_shared: bool,
) -> Floats:
    """RBO_ext of agreements ``A_d = X_d / norm``, float64 (n,).

    X_d is the sum over common items of the product of their shares in both lists. With l the length
    of the longer list: ``(1-p) sum_{d=1..l} p^(d-1) A_d + p^l A_l``. Below the longer list the
    agreement is assumed to stay the same.

    Below the shorter list, of length s, there are d - s empty places. They are assumed to contain
    untied items of the other list at the rate A_s. Each adds the mean share of the items of the
    longer list's top d that are not in common (Corsi and Urbano, section 5).

    Neighbours with equal scores are tied. NaN ties with nothing. If the end of a list cuts a tied
    group, only the part inside the list is the group. Cost: O(k) a pair, because all counts are
    integers.
    """
    if alignment.scores is None:
        raise ValueError("ties need scores, which were not given")
    depth = np.arange(1, alignment.k + 1, dtype=np.int32)[:, None]
    our_bounds = _find_groups(alignment.scores.baseline)
    their_bounds = _find_groups(alignment.scores.candidate)
    common = _count_common(alignment, our_bounds, their_bounds)
    ours = _make_arm(depth, *our_bounds, alignment.baseline_lengths, is_shared=is_shared)
    theirs = _make_arm(depth, *their_bounds, alignment.candidate_lengths, is_shared=is_shared)
    size = norm(depth, ours, theirs)
    overlap = _overlap(common, ours, theirs)
    if not alignment.is_full:
        at_end = _take_depths(overlap / size, alignment.short)
        overlap += at_end * _unseen_overlap(depth, ours, theirs, common, common.ended_in_baseline)
        overlap += at_end * _unseen_overlap(depth, theirs, ours, common, common.ended_in_candidate)
    return _sum_by_depth(alignment, p, np.minimum(overlap / size, 1.0))


def _find_groups(scores: Floats) -> tuple[_Counts, _Counts]:
    """First place of the group at each place, and the place after its last; (k, n) each."""
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
    is_shared: bool,
) -> _Arm:
    if is_shared:
        share = np.ones(start.shape)
    else:
        share = (depth - start) / (end - start)
    return _Arm(
        before=np.minimum(start, length),
        through=np.minimum(end, length),
        share=share,
        length=length,
    )


def _count_common(
    alignment: Alignment,
    ours: tuple[_Counts, _Counts],
    theirs: tuple[_Counts, _Counts],
) -> _Common:
    k, n = alignment.positions.shape
    here = np.flatnonzero(alignment.positions < k)
    user = here % max(n, 1)
    there = alignment.positions.ravel()[here].astype(np.intp) * n + user
    start, end = (bound.ravel()[here] for bound in ours)
    other_start, other_end = (bound.ravel()[there] for bound in theirs)

    def count(first: _Counts) -> _Counts:
        """Items by depth, each from row ``first`` on."""
        cells = first.astype(np.intp) * n + user
        counts = np.bincount(cells, minlength=(k + 1) * n).reshape(k + 1, n)
        return counts[:k].cumsum(axis=0, dtype=np.int32)

    return _Common(
        ended=count(np.maximum(end, other_end)),
        ended_in_baseline=count(np.maximum(end, other_start)),
        ended_in_candidate=count(np.maximum(start, other_end)),
        begun=count(np.maximum(start, other_start)),
    )


def _overlap(common: _Common, ours: _Arm, theirs: _Arm) -> Floats:
    entering_ours = ours.share * (common.ended_in_candidate - common.ended)
    entering_theirs = theirs.share * (common.ended_in_baseline - common.ended)
    both = common.begun - common.ended_in_baseline - common.ended_in_candidate + common.ended
    overlap: Floats = (
        common.ended + (entering_ours + entering_theirs) + (ours.share * theirs.share) * both
    )
    return overlap


def _unseen_overlap(
    depth: _Counts,
    shorter: _Arm,
    longer: _Arm,
    common: _Common,
    begun: _Counts,
) -> Floats:
    """Overlap added by the empty places of ``shorter`` if all contained items of ``longer``.

    ``begun``: common items whose group ended in ``shorter`` and began in ``longer``. The result is
    0 if ``shorter`` is not the shorter list.
    """
    is_empty = (depth > shorter.length) & (depth <= longer.length)
    ended = longer.before - common.ended
    candidates = longer.through - begun
    weight = ended + longer.share * (candidates - ended)
    mean = np.divide(weight, candidates, out=np.zeros(weight.shape), where=is_empty)
    unseen: Floats = (depth - shorter.length) * mean
    return unseen


def _take_depths(values: Floats, depths: Codes) -> Floats:
    """Values at these depths, one a user: (n,), 0 at depth 0."""
    at = np.take_along_axis(values, np.maximum(depths, 1)[None].astype(np.intp) - 1, axis=0)[0]
    return np.where(depths > 0, at, 0.0)


def _sum_by_depth(alignment: Alignment, p: float, agreement: Floats) -> Floats:
    # Weights are differences of multiples of 2**-52, so they sum to 1 exactly. cumsum adds the
    # ranks one by one for every n.
    k = alignment.k
    long = alignment.long
    power = to_units(p ** np.arange(k + 1.0))
    weighted = np.where(np.arange(k)[:, None] < long, agreement * -np.diff(power)[:, None], 0.0)
    score: Floats = np.cumsum(weighted, axis=0)[-1] + _take_depths(agreement, long) * power.take(
        long
    )
    score[alignment.short == 0] = 0.0
    score[long == 0] = np.nan
    return score


def _size(depth: _Counts, arm: _Arm) -> Floats:
    squares = arm.before + (arm.share * arm.share) * (arm.through - arm.before)
    return np.where(depth > arm.length, depth, squares)


def _mean_size(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    size: Floats = (_size(depth, ours) + _size(depth, theirs)) / 2
    return size


def _geometric_size(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    size: Floats = np.sqrt(_size(depth, ours) * _size(depth, theirs))
    return size


def _depth(depth: _Counts, ours: _Arm, theirs: _Arm) -> Floats:
    del ours, theirs
    return depth.astype(np.float64)
