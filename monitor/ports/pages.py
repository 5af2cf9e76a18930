"""What pages read that nothing else does. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model import (
    AlertState,
    CoverageRow,
    Explanation,
    FiringChange,
    Histogram,
    IncidentHistory,
    SegmentMeans,
    SeriesKey,
    SeriesPoint,
    UserLists,
    UserRun,
)


class PageStore(Protocol):
    """Series over runs and single users, read for people. Changes nothing; DatabaseError when it cannot be read."""

    def neighbours(self, comparison: str, slot: datetime) -> tuple[datetime | None, datetime | None]:
        """Slots of the finished runs before and after this one."""

    def series(
        self, series: SeriesKey, *, alert: str | None, since: datetime, until: datetime, most: int
    ) -> tuple[SeriesPoint, ...]:
        """Finished runs of these slots, oldest first, with what the rule ``alert`` expected of them.

        Of more than ``most`` runs: the newest, and of each group of neighbours the one that failed or has the lowest mean.
        """

    def histograms(self, run_ids: Sequence[int], metric: str, segment: str) -> tuple[tuple[datetime, Histogram], ...]:
        """How scores of the segment were distributed in each of the runs that has any, oldest first."""

    def coverage(self, run_ids: Sequence[int], segment: str) -> tuple[tuple[datetime, CoverageRow], ...]:
        """Coverage of the segment in each of the runs, oldest first."""

    def segments(self, comparison: str, metric: str, *, until: datetime, runs: int) -> tuple[SegmentMeans, ...]:
        """Every segment's means in the newest ok ``runs``, in the order in which they were stored."""

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """The mean of each summary of the run, by segment and metric."""

    def explanation(self, run_id: int) -> Explanation | None:
        """Why the run's mean fell, where that is stored."""

    def changes(self, comparison: str, segment: str | None, *, since: datetime, until: datetime) -> tuple[FiringChange, ...]:
        """Firings that began or ended from ``since`` to ``until``, of one segment or of all, in the order they were stored."""

    def firing_states(self, comparison: str | None = None) -> tuple[AlertState, ...]:
        """Alerts that fire, of one comparison or of all."""

    def user_scores(self, comparison: str, user: str, *, until: datetime, runs: int) -> tuple[UserRun, ...]:
        """Scores of the user in those of the newest ``runs`` that kept any, oldest first."""

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Both lists of the user in the run, from its evidence or from its kept lists; None where they were not kept."""

    def incident(self, key: str) -> IncidentHistory:
        """What belongs to the incident, or to the firing, of this key; empty for a key that is not known.

        Of very many transitions the first ones.
        """
