"""How the summaries of a day's ok runs are added up.

A mean is over users and runs, never a mean of means. Runs of a day mostly ask the same users, so their errors do not cancel:
``standard_error`` is what holds even if every run had asked the very same ones, the mean of the runs' own weighted by users.
Shares are of users and runs likewise; histograms are added where all runs of the day had the same bins, else there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, select

from monitor.errors import ConfigError
from monitor.model import RunStatus, Statistic, Summary
from monitor.storage import results
from monitor.storage.tables import runs

_DAY = timedelta(days=1)
_RUNS_AT_ONCE = 20


@dataclass(slots=True, kw_only=True)
class DaySum:
    """One metric of one segment over the runs of a day."""

    segment: str
    metric: str
    runs: int = 0
    n: int = 0
    n_undefined: int = 0
    means: float = 0.0
    errors: float = 0.0
    has_errors: bool = True
    lowest: float = math.inf
    highest: float = -math.inf
    below: dict[str, tuple[float, int]] = field(default_factory=dict)
    bins: tuple[float, float, int] | None = None
    counts: list[int] | None = None

    def add(self, summary: Summary) -> None:
        """One run more."""
        self._add_histogram(summary)
        self.runs += 1
        self.n += summary.n
        self.n_undefined += summary.n_undefined
        if summary.mean is None:
            return
        self.means += summary.n * summary.mean
        self.has_errors &= summary.standard_error is not None
        self.errors += summary.n * (summary.standard_error or 0.0)
        self.lowest, self.highest = min(self.lowest, summary.mean), max(self.highest, summary.mean)
        for floor, share in _shares(summary):
            users, of = self.below.get(floor, (0.0, 0))
            self.below[floor] = (users + share * summary.n, of + summary.n)

    def _add_histogram(self, summary: Summary) -> None:
        found = summary.histogram
        bins = (found.low, found.high, len(found.counts))
        if self.runs == 0:
            self.bins, self.counts = bins, list(found.counts)
        elif self.counts is not None and bins == self.bins:
            self.counts = [ours + theirs for ours, theirs in zip(self.counts, found.counts, strict=True)]
        else:
            self.bins = self.counts = None

    def row(self) -> dict[str, Any]:
        """As a row of ``daily``."""
        is_measured = self.n > 0 and self.lowest <= self.highest
        low, high, _ = self.bins or (None, None, 0)
        return {
            "segment": self.segment,
            "metric": self.metric,
            "runs": self.runs,
            "n": self.n,
            "n_undefined": self.n_undefined,
            "mean": self.means / self.n if is_measured else None,
            "standard_error": self.errors / self.n if is_measured and self.has_errors else None,
            "lowest": self.lowest if is_measured else None,
            "highest": self.highest if is_measured else None,
            "shares_below": {floor: users / of for floor, (users, of) in self.below.items() if of},
            "histogram_low": low,
            "histogram_high": high,
            "histogram_counts": self.counts,
        }


def _shares(summary: Summary) -> Iterable[tuple[str, float]]:
    for name, value in summary.statistics.items():
        try:
            floor = Statistic.parse(name).floor
        except ConfigError:
            continue  # stored by a newer version
        if floor is not None:
            yield f"{floor:.15g}", value


def sums_of(connection: Connection, comparison: str, day: datetime) -> list[DaySum]:
    """What the ok runs of slots of this day came to, by segment and metric; none where these measured nothing."""
    is_of_day = and_(runs.c.scheduled_for >= day, runs.c.scheduled_for < day + _DAY, runs.c.status == RunStatus.OK)
    ids = list(
        connection.scalars(select(runs.c.id).where(runs.c.comparison == comparison, is_of_day).order_by(runs.c.scheduled_for))
    )
    sums: dict[tuple[str, str], DaySum] = {}
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        for found in results.summaries_of(connection, ids[start : start + _RUNS_AT_ONCE]).values():
            for summary in found:
                what = (summary.segment, summary.metric)
                sums.setdefault(what, DaySum(segment=what[0], metric=what[1])).add(summary)
    return list(sums.values())
