"""Shares of users in one run: of those asked who lack something, and of those compared whose lists have a trait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor.model import ALL, TRAITS, ArmScore, CoverageRow, CoverageShare, Lack

LEAST_MOVED = 0.25
"""Unless so many of the other users' lists changed the arm was not trained, and lists that did not change are no news."""


class Portion(NamedTuple):
    """A share, and the users that it is a share of."""

    value: float
    users: int


@dataclass(frozen=True, slots=True)
class UserShares:
    """Coverage by segment, where somebody was asked, and the traits that the run tells anything of."""

    rows: dict[str, CoverageRow]
    traits: dict[tuple[str, CoverageShare], Portion]

    @classmethod
    def of(cls, rows: Iterable[CoverageRow], scores: Sequence[ArmScore] = ()) -> UserShares:
        """Of a run's coverage and arm-wide metrics; unchanged lists only where lists of other users changed."""
        found = {
            (each.segment, CoverageShare(Lack(each.metric), each.arm)): Portion(each.value, each.n)
            for each in scores
            if each.metric in TRAITS and each.value is not None
        }
        traits = {
            (segment, share): portion
            for (segment, share), portion in found.items()
            if share.lack is not Lack.UNCHANGED or _have_others_moved(portion, found.get((ALL, share)))
        }
        return cls({row.segment: row for row in rows if row.asked}, traits)

    def find(self, segment: str, share: CoverageShare) -> Portion | None:
        """The share in the segment, None where it is not known."""
        if share.lack in TRAITS:
            return self.traits.get((segment, share))
        row = self.rows.get(segment)
        return None if row is None else Portion(share.count(row) / row.asked, row.asked)

    def segments(self, share: CoverageShare) -> set[str]:
        """The segments in which the share is known."""
        return {segment for segment, each in self.traits if each == share} if share.lack in TRAITS else set(self.rows)


def _have_others_moved(part: Portion, whole: Portion | None) -> bool:
    """Whether lists outside of the segment changed; any list, where it has no outside."""
    if whole is None:
        return False
    rest = Portion(0.0, 0) if part.users == whole.users else part
    return _moved(whole) - _moved(rest) >= LEAST_MOVED * (whole.users - rest.users)


def _moved(unchanged: Portion) -> float:
    return unchanged.users * (1.0 - unchanged.value)
