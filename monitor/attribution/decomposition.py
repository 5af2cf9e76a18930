"""Decompose a drop of a mean into parts by segments of one dimension, exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.attribution.parts import pool_runs
from monitor.model import ALL, Part, PartMeans

OTHERS = "(others)"
"""Users of no segment of the dimension."""


WITHIN = (Part.MEMBERSHIP, Part.ORDER, Part.LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDrop:
    """What one segment adds to the drop, by part; positive drives the mean down.

    ``share`` and ``share_before``: of the users that were scored. ``excess``: what it adds beyond its share of what all
    segments lost within themselves: 0 for each where all fell alike. ``noise``: standard error of ``excess`` over users, NaN
    where a side has no user.
    """

    segment: str
    share: float
    share_before: float
    parts: Mapping[Part, float]
    excess: float = 0.0
    noise: float = math.nan

    @property
    def whole(self) -> float:
        """What it adds altogether."""
        return math.fsum(self.parts.values())

    @property
    def within(self) -> float:
        """What it adds by lists that differ more than before, the mix of users apart."""
        return math.fsum(self.parts[part] for part in WITHIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDrop:
    """A drop of the mean score, taken apart over the segments of one dimension (``all`` when there is none).

    ``whole`` is the mean distance ``now`` less the one ``before``; it is the sum over ``segments`` of their parts. ``segments``
    are ranked by ``excess``: who fell more than the others comes first, however few they are. ``noise``: standard error of
    ``whole`` over users alone; runs wander beyond it.
    """

    dimension: str
    before: float
    now: float
    segments: tuple[SegmentDrop, ...]
    noise: float

    @property
    def whole(self) -> float:
        """The drop: how much farther from identical lists than before, negative for a rise."""
        return self.now - self.before

    @property
    def parts(self) -> dict[Part, float]:
        """The drop by part, over all segments."""
        return {part: math.fsum(each.parts[part] for each in self.segments) for part in Part}


def decompose_all(
    now: Sequence[PartMeans], before: Sequence[PartMeans], paired: Sequence[PartMeans] | None = None
) -> tuple[MeanDrop, ...]:
    """The drop over each dimension by itself, the one that explains most first; none when either side has no user in ``all``.

    A dimension explains by how differently its segments fell (the variance between them, less what chance alone would show),
    and by what the change of the users' mix explains; equals go by name.
    """
    # Dimensions overlap: each is a decomposition by itself, and none adds to another's.
    found = [decompose_drop(now, before, name, paired) for name in sorted(_dimensions(now) & _dimensions(before)) or [ALL]]
    return tuple(sorted((drop for drop in found if drop is not None), key=lambda drop: -_explained(drop)))


def decompose_drop(
    now: Sequence[PartMeans], before: Sequence[PartMeans], dimension: str, paired: Sequence[PartMeans] | None = None
) -> MeanDrop | None:
    """The drop taken apart over one dimension's segments; None when either side has no user in ``all``.

    With w the share of scored users, a of asked ones, m the mean of a part, M of the whole, ' for before and no index for all
    users, segment s adds::

        each part    w_s (m_s - m_s')                                   it fell
        composition  (a_s - a_s') (M_s' - M')                           others were asked than before
        missing      ((w_s - a_s) - (w_s' - a_s')) (M_s' - M')          others answered, of those asked

    which sums to M - M' exactly (Kitagawa 1955; Oaxaca 1973), the mix weighed by the past and the fall by the present. A
    segment without users before has no M_s': all it adds is mix, M_s taking that place; one without users now adds mix alone.
    Users of no segment are taken together as `OTHERS`. ValueError when a dimension's segments hold more users than ``all``.

    Where ``before`` is of the very users of ``paired``, a part of those of ``now`` (p their shares, m and M their means), lists
    are held against the same users' and only who is new to the comparison is mix: segment s adds p_s (m_s - m_s') by each part,
    and by composition w_s (N_s - M) - p_s (M_s - M), N_s the mean over all its users now; nobody is missing.
    """
    ours, theirs = _rows_of_dimension(now, dimension), _rows_of_dimension(before, dimension)
    if not (ours[ALL].n and theirs[ALL].n):
        return None
    names = [name for name in dict.fromkeys((*ours, *theirs)) if dimension == ALL or name != ALL]
    if paired is None:
        segments = [_take_apart(name, ours, theirs) for name in names]
    else:
        same = _rows_of_dimension(paired, dimension)
        segments = [_take_pairs_apart(name, ours, same, theirs) for name in names]
    ranked = sorted(_with_excess(segments), key=lambda each: (-each.excess, each.segment))
    now_all, before_all = ours[ALL] if paired is None else same[ALL], theirs[ALL]
    return MeanDrop(
        dimension=dimension,
        before=before_all.whole,
        now=ours[ALL].whole,
        segments=tuple(ranked),
        noise=_error_of_change(now_all, before_all),
    )


def bound_drop(drop: MeanDrop, everybody: PartMeans, farthest: float) -> tuple[float, float]:
    """Between what the drop of all users asked lies, whatever the lists of those who have no score.

    With q their share and M the mean distance of the others, all users' mean distance lies in [(1 - q) M, (1 - q) M + q
    ``farthest``], which is the greatest distance that two lists can have, infinite where it has no bound (worst-case bounds:
    Manski 1989). Before is taken as it was scored.
    """
    share = 1 - everybody.n / everybody.asked
    least = (1 - share) * drop.now - drop.before
    return least, least + share * farthest if share else least


def _dimensions(rows: Sequence[PartMeans]) -> set[str]:
    return {row.segment.partition("=")[0] for row in rows if row.segment != ALL}


def _rows_of_dimension(rows: Sequence[PartMeans], dimension: str) -> dict[str, PartMeans]:
    """The dimension's rows by segment, ``all`` first, and `OTHERS` where its segments leave users out."""
    total = next((row for row in rows if row.segment == ALL), _nobody(ALL))
    if dimension == ALL:
        return {ALL: total}
    named = [row for row in rows if row.segment.startswith(f"{dimension}=")]
    others = _remainder(total, named, f"{dimension}={OTHERS}")
    rows = [*named, *([others] if others.asked else [])]
    if len({row.segment for row in rows}) < len(rows):
        # A value from outside may bear that name itself: its users are then counted with the others.
        rows = [*pool_runs([[row] for row in rows])]
    return {row.segment: row for row in (total, *rows)}


def _nobody(segment: str) -> PartMeans:
    nan = math.nan
    return PartMeans(segment=segment, asked=0, n=0, membership=nan, order=nan, length=nan, spread=nan)


def _remainder(total: PartMeans, named: Sequence[PartMeans], segment: str) -> PartMeans:
    n = total.n - sum(row.n for row in named)
    asked = total.asked - sum(row.asked for row in named)
    if n < 0 or asked < n:
        msg = f"{segment.partition('=')[0]}: its segments hold more users than {ALL}, {total.n} scored of {total.asked} asked"
        raise ValueError(msg)
    if n == 0:
        return replace(_nobody(segment), asked=asked)

    def left(part: Part) -> float:
        return (
            total.n * _mean_of_part(total, part) - math.fsum(row.n * _mean_of_part(row, part) for row in named if row.n)
        ) / n

    means = {str(part): left(part) for part in WITHIN}
    return PartMeans(segment=segment, asked=asked, n=n, spread=total.spread, **means)


def _mean_of_part(row: PartMeans, part: Part) -> float:
    return float(getattr(row, part))


def _take_apart(name: str, ours: Mapping[str, PartMeans], theirs: Mapping[str, PartMeans]) -> SegmentDrop:
    now, before = ours.get(name, _nobody(name)), theirs.get(name, _nobody(name))
    share, share_before = now.n / ours[ALL].n, before.n / theirs[ALL].n
    asked, asked_before = now.asked / ours[ALL].asked, before.asked / theirs[ALL].asked
    has_both = bool(now.n and before.n)
    usual = before.whole if before.n else now.whole if now.n else theirs[ALL].whole
    distance = usual - theirs[ALL].whole
    parts = {part: share * (_mean_of_part(now, part) - _mean_of_part(before, part)) if has_both else 0.0 for part in WITHIN}
    parts[Part.COMPOSITION] = (asked - asked_before) * distance
    parts[Part.MISSING] = ((share - asked) - (share_before - asked_before)) * distance
    noise = _error_of_change(now, before) if has_both else math.nan
    return SegmentDrop(segment=name, share=share, share_before=share_before, parts=parts, noise=noise)


def _take_pairs_apart(
    name: str, ours: Mapping[str, PartMeans], same: Mapping[str, PartMeans], theirs: Mapping[str, PartMeans]
) -> SegmentDrop:
    now, paired, before = (rows.get(name, _nobody(name)) for rows in (ours, same, theirs))
    share, share_before = now.n / ours[ALL].n, paired.n / same[ALL].n
    parts = dict.fromkeys(Part, 0.0)
    if paired.n:
        parts |= {part: share_before * (_mean_of_part(paired, part) - _mean_of_part(before, part)) for part in WITHIN}
        parts[Part.COMPOSITION] -= share_before * (paired.whole - same[ALL].whole)
    if now.n:
        parts[Part.COMPOSITION] += share * (now.whole - same[ALL].whole)
    noise = _error_of_change(paired, before) if paired.n else math.nan
    return SegmentDrop(segment=name, share=share, share_before=share_before, parts=parts, noise=noise)


def _error_of_change(now: PartMeans, before: PartMeans) -> float:
    """Standard error over users of the change of a mean."""
    return math.sqrt(now.spread**2 / now.n + before.spread**2 / before.n)


def _with_excess(segments: Sequence[SegmentDrop]) -> list[SegmentDrop]:
    """The segments with ``excess`` filled in, and ``noise`` turned from the error of a mean into that of the excess."""
    fall = math.fsum(each.within for each in segments)
    variances = [(each.share * each.noise) ** 2 if each.noise >= 0 else 0.0 for each in segments]
    total = math.fsum(variances)
    return [
        replace(
            each,
            excess=each.whole - each.share * fall,
            # excess = (1 - w) own - w (all others), each of which errs by itself.
            noise=math.sqrt((1 - each.share) ** 2 * own + each.share**2 * max(0.0, total - own)) if own else math.nan,
        )
        for each, own in zip(segments, variances, strict=True)
    ]


def _explained(drop: MeanDrop) -> float:
    """Squared drop that the dimension explains: between its segments beyond chance, and by the mix of users."""
    fell = [each for each in drop.segments if not math.isnan(each.noise)]
    fall = math.fsum(each.within for each in drop.segments)
    between = math.fsum(((each.within - each.share * fall) ** 2 - each.noise**2) / each.share for each in fell)
    return between + (drop.parts[Part.COMPOSITION] + drop.parts[Part.MISSING]) ** 2
