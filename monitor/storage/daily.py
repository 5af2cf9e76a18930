"""What each UTC day came to: the summaries of its ok runs, added up, for when they are gone.

A mean is over users and runs, never a mean of means. Runs of a day mostly ask the same users, so their errors do not cancel:
``standard_error`` is what holds even if every run had asked the very same ones, the mean of the runs' own weighted by users.
Shares are of users and runs likewise; histograms are added where all runs of the day had the same bins, else there is none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select

from monitor.errors import ConfigError
from monitor.model import RunStatus, Statistic, Summary
from monitor.storage import results
from monitor.storage.columns import key
from monitor.storage.connecting import Database
from monitor.storage.tables import daily, runs

_DAY = timedelta(days=1)
_RUNS_AT_ONCE = 20
_Day = tuple[str, datetime]
"""Comparison, and midnight at which the day begins."""


def midnight(instant: datetime) -> datetime:
    """When the instant's UTC day began."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def roll_up(database: Database, *, since: datetime, complete_from: datetime, now: datetime) -> Counter[str]:
    """Add up the days from ``since`` on that are over and were not yet, or of which a run came or changed; rows written.

    Of days before ``complete_from`` some summaries may be gone: these are added up once and then stay as they are.
    """
    written: Counter[str] = Counter()
    for comparison, day in _due(database, since, complete_from, now):
        with database.read() as connection:
            sums = _sums(connection, comparison, day)
        with database.write() as connection:
            connection.execute(delete(daily).where(daily.c.comparison == comparison, daily.c.day == day))
            rows = [{"comparison": comparison, "day": day, "built_at": now, **each.row()} for each in sums]
            if rows:
                connection.execute(daily.insert(), rows)
            written["daily"] += len(rows)
    return written


def _due(database: Database, since: datetime, complete_from: datetime, now: datetime) -> list[_Day]:
    with database.read() as connection:
        changed = _changed(connection, since, now)
        built = _built(connection, min((day for _, day in changed), default=now))
    return sorted(
        each
        for each, at in changed.items()
        if (before := built.get((key(each[0]), each[1]))) is None or (before < at and each[1] >= complete_from)
    )


def _changed(connection: Connection, since: datetime, now: datetime) -> Mapping[_Day, datetime]:
    """Days that are over with ok runs that ended since about the last time, and when the last of these did."""
    is_over = and_(runs.c.status == RunStatus.OK, runs.c.scheduled_for >= since, runs.c.scheduled_for < midnight(now))
    last = connection.scalar(select(func.max(daily.c.built_at)))
    if last is not None:
        lately = last - _DAY  # others' clocks, and transactions that were open, may have been so far behind
        is_over = and_(is_over, or_(runs.c.finished_at >= lately, runs.c.labelled_at >= lately))
    found: dict[_Day, datetime] = {}
    columns = (runs.c.comparison, runs.c.scheduled_for, runs.c.finished_at, runs.c.labelled_at)
    for comparison, slot, finished_at, labelled_at in connection.execute(select(*columns).where(is_over)):
        at = max(each for each in (finished_at, labelled_at, slot) if each is not None)
        day = (comparison, midnight(slot))
        found[day] = max(found.get(day, at), at)
    return found


def _built(connection: Connection, since: datetime) -> Mapping[_Day, datetime]:
    query = select(daily.c.comparison, daily.c.day, func.min(daily.c.built_at)).where(daily.c.day >= since)
    grouped = connection.execute(query.group_by(daily.c.comparison, daily.c.day))
    return {(key(comparison), day): at for comparison, day, at in grouped}


@dataclass(slots=True, kw_only=True)
class _Sum:
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


def _sums(connection: Connection, comparison: str, day: datetime) -> list[_Sum]:
    is_of_day = and_(runs.c.scheduled_for >= day, runs.c.scheduled_for < day + _DAY, runs.c.status == RunStatus.OK)
    ids = list(
        connection.scalars(select(runs.c.id).where(runs.c.comparison == comparison, is_of_day).order_by(runs.c.scheduled_for))
    )
    sums: dict[tuple[str, str], _Sum] = {}
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        for found in results.summaries_of(connection, ids[start : start + _RUNS_AT_ONCE]).values():
            for summary in found:
                what = (summary.segment, summary.metric)
                sums.setdefault(what, _Sum(segment=what[0], metric=what[1])).add(summary)
    return list(sums.values())
