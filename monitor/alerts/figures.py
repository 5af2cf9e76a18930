"""What one run measured, as rules read it: summaries, and shares of users who lack something or whose lists have a trait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from monitor.model import (
    ALL,
    TRAITS,
    ArmScore,
    CoverageRow,
    CoverageShare,
    Lack,
    SeriesRule,
    SimilarityRule,
    Summary,
)

LEAST_MOVED = 0.25
"""Unless so many of the other users' lists changed the arm was not trained, and lists that did not change are no news."""


class Reading(NamedTuple):
    """The value of a series in one segment of one run, and the users behind it."""

    value: float
    users: int
    segment: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Summaries by segment and metric, coverage by segment where somebody was asked, and the traits that the run tells of."""

    summaries: Mapping[tuple[str, str], Summary]
    coverage: Mapping[str, CoverageRow]
    traits: Mapping[tuple[str, CoverageShare], Reading]

    @classmethod
    def of(cls, summaries: Iterable[Summary], rows: Iterable[CoverageRow] = (), scores: Sequence[ArmScore] = ()) -> Self:
        """Of a run's summaries, coverage and arm-wide metrics; unchanged lists only where lists of other users changed."""
        found = {
            (each.segment, CoverageShare(Lack(each.metric), each.arm)): Reading(each.value, each.n, each.segment)
            for each in scores
            if each.metric in TRAITS and each.value is not None
        }
        traits = {
            (segment, share): reading
            for (segment, share), reading in found.items()
            if share.lack is not Lack.UNCHANGED or _have_others_moved(reading, found.get((ALL, share)))
        }
        by_name = {(each.segment, each.metric): each for each in summaries}
        return cls(by_name, {row.segment: row for row in rows if row.asked}, traits)

    def find_share(self, segment: str, share: CoverageShare) -> Reading | None:
        """The share in the segment, None where it is not known."""
        if share.lack in TRAITS:
            return self.traits.get((segment, share))
        row = self.coverage.get(segment)
        return None if row is None else Reading(share.count(row) / row.asked, row.asked, segment)

    def segments(self, rule: SeriesRule) -> set[str]:
        """The segments in which the rule's series was measured."""
        if isinstance(rule, SimilarityRule):
            return {segment for segment, metric in self.summaries if metric == rule.metric}
        if rule.share.lack in TRAITS:
            return {segment for segment, share in self.traits if share == rule.share}
        return set(self.coverage)


def _have_others_moved(part: Reading, whole: Reading | None) -> bool:
    """Whether lists outside of the segment changed; any list, where it has no outside."""
    if whole is None:
        return False
    rest = part._replace(users=0) if part.users == whole.users else part
    moved, moved_here = (each.users * (1.0 - each.value) for each in (whole, rest))
    return moved - moved_here >= LEAST_MOVED * (whole.users - rest.users)
