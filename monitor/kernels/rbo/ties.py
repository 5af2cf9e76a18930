"""Rank-biased overlap of lists with tied items: three answers to what a tie means."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment
from monitor.kernels.rbo.untied import to_units
from monitor.model.arrays import Codes, Floats

_Counts = npt.NDArray[np.signedinteger[Any]]


def rbo_w(alignment: Alignment, p: float) -> Floats:
    """RBO_ext where tied items share one rank, as in sports: float64 (n,) in [0, 1].

    An item tied at ranks t to b is in the top d as a whole from d = t on, so that the top d may
        hold more than d items, and the
    agreement is ``A_d = 2 X_d / (|S_d| + |T_d|)``: Webber, Moffat and Zobel (2010), equation 28;
        Corsi and Urbano (2024),
    RBO^w. For ties that mean equality. A list with itself, ties and all: exactly 1. Disjoint or one
        empty: exactly 0. Both
    empty: NaN. Symmetric. Without ties: `rbo`. What the three treatments share stands in
        `_extrapolate`.
    """
    return _extrapolate(alignment, p, _mean_size, is_shared=True)


def rbo_a(alignment: Alignment, p: float) -> Floats:
    """RBO_ext averaged over all ways to break the ties: float64 (n,) in [0, 1].

    An item tied at ranks t to b is in the top d with chance ``(d - t + 1) / (b - t + 1)``, and
    ``A_d = X_d / d`` with the expected overlap X_d: Corsi and Urbano (2024), RBO^a. For ties that
    mean "order unknown".

    On lists of one length this is exactly the mean of `rbo` over all orders of the tied items, each
        list's as likely and apart
    from the other's. On unequal lengths it is so unless a tied group of the longer list reaches
        over a depth below the shorter
    list: there, unlike equation 32, an item assumed to be in common counts by its chance to have
        come yet, as they define it.
    A list with itself: 1 without ties, less with them, since two orders of one tie differ. Disjoint
        or one empty: exactly 0.
    Both empty: NaN. Symmetric. Without ties: `rbo`. What the three treatments share stands in
        `_extrapolate`.
    """
    return _extrapolate(alignment, p, _depth, is_shared=False)


def rbo_b(alignment: Alignment, p: float) -> Floats:
    """RBO_ext corrected for what ties leave unknown, as tau-b is: float64 (n,) in [0, 1], never below `rbo_a`.

    The chances c of `rbo_a` with a norm of their own: ``A_d = sum c_S c_T / sqrt(sum c_S^2 sum c_T^2)``: Corsi and Urbano
    (2024), RBO^b. For ties that mean "order unknown" where agreeing on the ties shall count as agreement. Values as `rbo_w`,
    symmetric; without ties `rbo`.
    """
    return _extrapolate(alignment, p, _geometric_size, is_shared=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arm:
    """One arm's tied groups by depth, (k, n)."""

    before: _Counts  # items of groups that end before the depth
    through: _Counts  # items of all groups that begin through it; all of the list once it has ended
    share: Floats  # how much of an item of the group at the depth belongs to the top
    length: Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """Common items by depth, (k, n): their groups ended in both lists, in the baseline's, in the candidate's, begun in both."""

    ended: _Counts
    ended_in_baseline: _Counts
    ended_in_candidate: _Counts
    begun: _Counts


_Norm = Callable[[_Counts, _Arm, _Arm], Floats]


def _extrapolate(alignment: Alignment, p: float, norm: _Norm, *, is_shared: bool) -> Floats:
    """RBO_ext of agreements ``A_d = X_d / norm``, X_d the sum over common items of the products of their shares in both lists.

    ``(1-p) sum_{d=1..l} p^(d-1) A_d + p^l A_l``: below the longer list, of length l, agreement is taken to stay. Below the
    shorter one, of length s, the d - s places that it lacks are taken to hold items of the other list, untied, at the rate A_s,
    each adding the mean share of those items of the longer list's top d that are not in common (Corsi and Urbano, section 5).
    Neighbours with equal scores are tied; NaN ties with nothing. A tied group that the end of a list cuts through is the part
    that the list holds: what stands below is as unknown as any unseen item. Cost: O(k) a pair, all counts being integers.
    """
    if alignment.scores is None:
        raise ValueError("ties are known by scores, which were not given")
    depth = np.arange(1, alignment.k + 1, dtype=np.int32)[:, None]
    bounds = _groups(alignment.scores.baseline), _groups(alignment.scores.candidate)
    common = _count_common(alignment, *bounds)
    lengths = alignment.baseline_lengths, alignment.candidate_lengths
    ours, theirs = (
        _arm(depth, *ends, length, is_shared) for ends, length in zip(bounds, lengths, strict=True)
    )
    size = norm(depth, ours, theirs)
    overlap = _overlap(common, ours, theirs)
    if not alignment.is_full:
        at_end = _at(overlap / size, alignment.short)
        overlap += at_end * _unseen(depth, ours, theirs, common, common.ended_in_baseline)
        overlap += at_end * _unseen(depth, theirs, ours, common, common.ended_in_candidate)
    return _sum(alignment, p, np.minimum(overlap / size, 1.0))


def _groups(scores: Floats) -> tuple[_Counts, _Counts]:
    """Of the group at each place: its first place, and the place behind its last; (k, n)."""
    place = np.broadcast_to(np.arange(len(scores), dtype=np.int32)[:, None], scores.shape)
    is_tied = scores[1:] == scores[:-1]
    start, end = place.copy(), place + 1
    start[1:][is_tied] = 0
    end[:-1][is_tied] = len(scores)
    return np.maximum.accumulate(start, axis=0), np.minimum.accumulate(end[::-1], axis=0)[::-1]


def _arm(depth: _Counts, start: _Counts, end: _Counts, length: Codes, is_shared: bool) -> _Arm:  # noqa: FBT001
    share = np.ones(start.shape) if is_shared else (depth - start) / (end - start)
    return _Arm(
        before=np.minimum(start, length),
        through=np.minimum(end, length),
        share=share,
        length=length,
    )


def _count_common(
    alignment: Alignment, ours: tuple[_Counts, _Counts], theirs: tuple[_Counts, _Counts]
) -> _Common:
    k, n = alignment.positions.shape
    here = np.flatnonzero(alignment.positions < k)
    user = here % max(n, 1)
    there = alignment.positions.ravel()[here].astype(np.intp) * n + user
    (start, end), (other_start, other_end) = (
        [bound.ravel()[cells] for bound in bounds]
        for bounds, cells in ((ours, here), (theirs, there))
    )

    def count(first: _Counts) -> _Counts:
        """Items by depth, each from row ``first`` on."""
        cells = first.astype(np.intp) * n + user
        return (
            np.bincount(cells, minlength=(k + 1) * n)
            .reshape(k + 1, n)[:k]
            .cumsum(axis=0, dtype=np.int32)
        )

    return _Common(
        ended=count(np.maximum(end, other_end)),
        ended_in_baseline=count(np.maximum(end, other_start)),
        ended_in_candidate=count(np.maximum(start, other_end)),
        begun=count(np.maximum(start, other_start)),
    )


def _overlap(common: _Common, ours: _Arm, theirs: _Arm) -> Floats:
    entering = ours.share * (common.ended_in_candidate - common.ended) + theirs.share * (
        common.ended_in_baseline - common.ended
    )
    both = common.begun - common.ended_in_baseline - common.ended_in_candidate + common.ended
    overlap: Floats = common.ended + entering + (ours.share * theirs.share) * both
    return overlap


def _unseen(depth: _Counts, gone: _Arm, going: _Arm, common: _Common, begun: _Counts) -> Floats:
    """Overlap of the places that ``gone`` lacks, were all to hold items of ``going``, with ``begun`` items in common."""
    lacks = (depth > gone.length) & (depth <= going.length)
    ended = going.before - common.ended
    candidates = going.through - begun
    weight = ended + going.share * (candidates - ended)
    mean = np.divide(weight, candidates, out=np.zeros(weight.shape), where=lacks)
    unseen: Floats = (depth - gone.length) * mean
    return unseen


def _at(values: Floats, depths: Codes) -> Floats:
    """Values at these depths, one a user; (n,), and 0 at depth 0."""
    at = np.take_along_axis(values, np.maximum(depths, 1)[None].astype(np.intp) - 1, axis=0)[0]
    return np.where(depths > 0, at, 0.0)


def _sum(alignment: Alignment, p: float, agreement: Floats) -> Floats:
    # Weights are differences of multiples of 2**-52: they sum to 1 exactly. Ranks are added one by
    # one, whatever n is.
    k, long = alignment.k, alignment.long
    power = to_units(p ** np.arange(k + 1.0))
    weighted = np.where(np.arange(k)[:, None] < long, agreement * -np.diff(power)[:, None], 0.0)
    score: Floats = np.cumsum(weighted, axis=0)[-1] + _at(agreement, long) * power.take(long)
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
