"""What users without a score could hide: shares of the users asked, by segment, and bounds on the drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.explaining.rises import Rise, Rises, rank_rises
from monitor.model import ALL, PartMeans


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
