"""Shares of users that rose since before, and where: users without a score, lists cut short, lists replaced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.explaining.groups import Kinds, share_kinds
from monitor.explaining.split import Rows
from monitor.model import ALL, Change

FAMILIES: Mapping[Change, tuple[Change, ...]] = {
    Change.CUT_SHORT: (Change.CUT_SHORT,),
    Change.LENGTHENED: (Change.LENGTHENED,),
    Change.MOSTLY_REPLACED: (Change.REPLACED, Change.MOSTLY_REPLACED),
}
"""Kinds of change whose rise is told, each with the kinds that count as it."""


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
