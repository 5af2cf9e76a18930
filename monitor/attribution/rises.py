"""Shares of users that rose since before, by segment, and what users without a score could hide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.attribution.groups import Kinds, share_kinds
from monitor.model import ALL, Change, PartMeans
from monitor.model.arrays import Rows

FAMILIES: Mapping[Change, tuple[Change, ...]] = {
    Change.CUT_SHORT: (Change.CUT_SHORT,),
    Change.LENGTHENED: (Change.LENGTHENED,),
    Change.MOSTLY_REPLACED: (Change.REPLACED, Change.MOSTLY_REPLACED),
}
"""Kinds of change whose rise is reported, each with the kinds that count as it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """A share of one segment's users, 0 to 1, now and before; ``newly``: what its rise adds to the share of all users."""

    segment: str
    share: float
    share_before: float
    newly: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rises:
    """The rise of a share among all users (``total``) and by segment, ranked by ``newly``, ties by name."""

    total: Rise
    segments: tuple[Rise, ...]

    @property
    def leader(self) -> Rise | None:
        """The segment that most of what is new falls to, with at least twice everybody's share; None without one."""
        first = self.segments[0] if self.segments else None
        is_leading = first is not None and first.newly > self.total.newly / 2 and first.share >= 2 * self.total.share
        return first if is_leading else None


def rank_rises(rises: Sequence[Rise]) -> Rises:
    """The rises with ``all``, which is one of them, apart from the others."""
    total = next(rise for rise in rises if rise.segment == ALL)
    segments = (rise for rise in rises if rise.segment != ALL)
    return Rises(total=total, segments=tuple(sorted(segments, key=lambda rise: (-rise.newly, rise.segment))))


def find_rises(kinds: Kinds, segments: Mapping[str, Rows], before: Mapping[str, Mapping[Change, float]]) -> dict[Change, Rises]:
    """Rises of the kinds in `FAMILIES`, of which some may be falls; none where the past of ``all`` is unknown.

    ``kinds`` (n,) from `classify`, ``segments`` rows of them; ``before`` shares by segment, one not in it starting from 0.
    """
    if ALL not in before or not len(kinds):
        return {}
    now = {segment: share_kinds(kinds[rows]) for segment, rows in segments.items()}
    weights = {segment: len(rows) / len(kinds) for segment, rows in segments.items()}

    def rise(segment: str, family: tuple[Change, ...]) -> Rise:
        share, usual = (_add(shares.get(segment, {}), family) for shares in (now, before))
        return Rise(segment=segment, share=share, share_before=usual, newly=(share - usual) * weights[segment])

    return {change: rank_rises([rise(segment, family) for segment in segments]) for change, family in FAMILIES.items()}


def _add(shares: Mapping[Change, float], family: tuple[Change, ...]) -> float:
    return math.fsum(shares.get(change, 0.0) for change in family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Users asked that have no score, as shares of the asked, now and before.

    ``least`` and ``most``: between these lies the drop of all users asked, the missing ones' lists taken as identical and as
    far apart as can be; ``most`` is infinite where distance has no bound.
    """

    rises: Rises
    least: float
    most: float

    @property
    def hidden(self) -> float:
        """How much of the drop the newly missing could hide: their part of the width of the bounds."""
        total = self.rises.total
        return total.newly * (self.most - self.least) / total.share if total.share else 0.0


def bound_missing(now: Sequence[PartMeans], before: Sequence[PartMeans], *, farthest: float) -> Missing | None:
    """Shares of missing users by segment, and bounds on the drop; None when either side has no user in ``all``.

    ``farthest``: the greatest distance that two lists can have, the metric's value on identical lists less its worst; infinite
    where it has none. With q the share missing now and M the mean distance of the others, all users' mean distance lies in
    [(1 - q) M, (1 - q) M + q ``farthest``] (worst-case bounds: Manski 1989). Before is taken as it was scored.
    """
    theirs = {row.segment: row for row in before}
    ours = {row.segment: row for row in now}
    if not (ALL in ours and ALL in theirs and ours[ALL].n and theirs[ALL].n):
        return None
    rises = rank_rises([_rise(row, theirs.get(row.segment), ours[ALL].asked) for row in now])
    share = rises.total.share
    least = (1 - share) * ours[ALL].whole - theirs[ALL].whole
    return Missing(rises=rises, least=least, most=least + share * farthest if share else least)


def _rise(now: PartMeans, before: PartMeans | None, asked: int) -> Rise:
    share = _share(now)
    usual = _share(before) if before is not None else 0.0
    return Rise(segment=now.segment, share=share, share_before=usual, newly=(share - usual) * now.asked / asked)


def _share(row: PartMeans) -> float:
    return 1 - row.n / row.asked if row.asked else 0.0
