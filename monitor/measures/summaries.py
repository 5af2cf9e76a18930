"""Summarizes scores by segment and metric. Finds the worst and representative scores. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self, TypeAlias

import numpy as np
import pandas as pd

from monitor.model.arrays import Floats, Integers, Rows
from monitor.model.rankings import Panel
from monitor.model.runs import Histogram, Summary
from monitor.model.statistics import Statistic

HISTOGRAM_BINS = 40
QUANTILES = tuple(
    Statistic(quantile=percent / 100) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)
)
"""Every summary has these quantiles. Rules may add other quantiles."""
EXACT_SCORES = 1_000_000
"""Quantiles of at most this many scores are exact.

For more scores, the metric's range is divided into `FINE` equal bins. Then the error of a quantile
is at most one bin.
"""
FINE = 8192 * HISTOGRAM_BINS

SegmentRows: TypeAlias = Mapping[str, Rows]
"""For the name of each segment, the rows of its users in the arrays of scores."""
Bounds: TypeAlias = tuple[float, float]


_STEPS = 61  # a score becomes an integer of this many bits
_HALF = 31  # the lower half of the integer has this many bits


def rows_of_segments(panel: Panel, panel_rows: Rows) -> dict[str, Rows]:
    """For each segment, the rows of its paired users.

    Row i belongs to the user at position ``panel_rows[i]`` of the panel.
    """
    row_of = np.full(len(panel), -1, dtype=np.intp)
    row_of[panel_rows] = np.arange(len(panel_rows))
    segments = {}
    for segment, positions in panel.segments.items():
        rows = row_of[positions]
        segments[segment] = rows[rows >= 0]
    return segments


def summarize_one(
    segment: str,
    metric: str,
    values: Floats,
    bounds: Bounds,
    wanted: Sequence[Statistic] = (),
) -> Summary:
    """Summarize one metric over the users of one segment. See `ScoreSums`."""
    sums = ScoreSums(bounds)
    sums.add(values, wanted)
    return sums.summary(segment, metric, wanted)


@dataclass(slots=True)
class SummaryAccumulator:
    """Computes summaries for every segment and metric, from scores that are added in parts.

    The order and the number of the parts do not change any bit of the result. ``segments`` are the
    names of the segments in the order of the result. ``wanted`` has, for each metric, the
    statistics that rules need in addition to `QUANTILES`.
    """

    segments: tuple[str, ...]
    wanted: Mapping[str, Sequence[Statistic]]
    sums: dict[tuple[str, str], ScoreSums] = field(default_factory=dict)  # key: segment and metric

    def add(
        self,
        segments: SegmentRows,
        scores: Mapping[str, Floats],
        ranges: Mapping[str, Bounds],
    ) -> None:
        """Add the scores of n users by each metric, float64 (n,).

        An undefined score is NaN. ``segments`` has the rows of each segment's users in these
        arrays. ``ranges`` has the bounds of each metric's scores. They are infinite if a metric has
        no bound.
        """
        for metric, values in scores.items():
            for name in self.segments:
                sums = self.sums.setdefault((name, metric), ScoreSums(ranges[metric]))
                if name in segments:
                    sums.add(values[segments[name]], self.wanted.get(metric, ()))

    def merge(self, other: Self) -> None:
        """Add all scores of another `SummaryAccumulator` for the same segments."""
        for key, sums in other.sums.items():
            self.sums.setdefault(key, ScoreSums(sums.bounds)).merge(sums)

    def summaries(self) -> tuple[Summary, ...]:
        """All summaries, ordered by segment and then by metric."""
        summaries = []
        metrics = dict.fromkeys(metric for _, metric in self.sums)
        for segment in self.segments:
            for metric in metrics:
                sums = self.sums[segment, metric]
                summaries.append(sums.summary(segment, metric, self.wanted.get(metric, ())))
        return tuple(summaries)


@dataclass(slots=True)
class ScoreSums:
    """Summarizes the scores of one metric over one segment, which are added in parts.

    The same scores always give the same bits in the summary. Quantiles are Hyndman and Fan's (1996)
    type 7. They are exact for at most `EXACT_SCORES` scores. The standard error is s / sqrt(n),
    where s has the divisor n - 1. If ``bounds`` are infinite, the histogram goes from the lowest to
    the highest score. In this case, its ends are powers of two if there are more than
    `EXACT_SCORES` scores.

    The sum of the scores and the sum of their squares are integers, because integer sums are exact
    in any order.
    """

    bounds: Bounds
    n: int = 0
    n_undefined: int = 0
    total: int = 0  # in units of 2**-_STEPS
    squares: int = 0  # in units of 2**(-2 * _STEPS)
    below: dict[float, int] = field(default_factory=dict)  # number of scores below each floor
    unbinned: list[Floats] = field(default_factory=list)
    bins: FineBins | None = None

    def add(self, values: Floats, wanted: Sequence[Statistic] = ()) -> None:
        """Add the scores of m users, float64 (m,). Undefined scores are NaN.

        Scores below the floors of the ``wanted`` statistics are counted.
        """
        defined = values[np.isfinite(values)]
        self.n += len(defined)
        self.n_undefined += len(values) - len(defined)
        if not len(defined):
            return
        total, squares = _sum_exactly(defined, max(map(abs, self.bounds)))
        self.total += total
        self.squares += squares
        for floor in {statistic.below for statistic in wanted if statistic.below is not None}:
            count = int(np.count_nonzero(defined < floor))
            self.below[floor] = self.below.get(floor, 0) + count
        self.unbinned.append(defined)
        self._bin_many()

    def merge(self, other: Self) -> None:
        """Add all scores of another object for the same metric."""
        self.n += other.n
        self.n_undefined += other.n_undefined
        self.total += other.total
        self.squares += other.squares
        for floor, count in other.below.items():
            self.below[floor] = self.below.get(floor, 0) + count
        self.unbinned += other.unbinned
        if other.bins is not None:
            self.bins = self.bins or FineBins.between(self.bounds)
            self.bins.merge(other.bins)
        self._bin_many()

    def _bin_many(self) -> None:
        """Move the scores into bins if there are more than `EXACT_SCORES` scores."""
        if self.n > EXACT_SCORES:
            self.bins = self.bins or FineBins.between(self.bounds)
            for values in self.unbinned:
                self.bins.add(values)
            self.unbinned = []

    def summary(self, segment: str, metric: str, wanted: Sequence[Statistic] = ()) -> Summary:
        """The summary of all scores, for a segment and a metric of these names.

        ``wanted`` are statistics in addition to `QUANTILES`.
        """
        n = self.n
        ordered = np.sort(np.concatenate(self.unbinned)) if self.unbinned else np.empty(0)
        if self.bins is None:
            histogram = _histogram(ordered, self.bounds)
        else:
            histogram = self.bins.histogram()
        mean = None
        standard_error = None
        if n:
            mean = float(Fraction(self.total, n << _STEPS))
        if n > 1:
            # s² is variance / (n (n - 1)), in units of 2**(-2 * _STEPS). It is divided by n.
            variance = n * self.squares - self.total**2
            standard_error = math.sqrt(Fraction(variance, (n * n * (n - 1)) << (2 * _STEPS)))
        return Summary(
            segment=segment,
            metric=metric,
            n=n,
            n_undefined=self.n_undefined,
            mean=mean,
            standard_error=standard_error,
            statistics=self._statistics(ordered, wanted) if n else {},
            histogram=histogram,
        )

    def _statistics(self, ordered: Floats, wanted: Sequence[Statistic]) -> dict[str, float]:
        quantiles: dict[str, float] = {}
        shares: dict[str, float] = {}
        for statistic in (*QUANTILES, *wanted):
            if statistic.quantile is not None:
                quantiles[str(statistic)] = statistic.quantile
            if statistic.below is not None:
                shares[str(statistic)] = self.below[statistic.below] / self.n
        levels = list(quantiles.values())
        if self.bins is None:
            values = _quantiles(ordered, levels)
        else:
            values = self.bins.quantiles(levels)
        return dict(zip(quantiles, values.tolist(), strict=True)) | shares


def _sum_exactly(values: Floats, bound: float) -> tuple[int, int]:
    """The sum of finite values and the sum of their squares, as integers.

    ``bound`` is the largest possible absolute value, or infinite.
    """
    if math.isfinite(bound):
        return _sum_steps(values, max(0, math.frexp(bound)[1]))
    # Each value is rounded by its own size, never by that of other values in its part.
    exponents = np.maximum(1, np.frexp(values)[1])
    total = squares = 0
    for exponent in np.unique(exponents).tolist():
        of_size, squares_of_size = _sum_steps(values[exponents == exponent], exponent)
        total += of_size
        squares += squares_of_size
    return total, squares


def _sum_steps(values: Floats, exponent: int) -> tuple[int, int]:
    """As `_sum_exactly`, for values of at most 2**exponent."""
    # Scores of at most 1 are rounded to 2**-60. This changes the mean by less than a rounding
    # error.
    steps = np.rint(np.ldexp(values, _STEPS - exponent)).astype(np.int64)
    # The halves have 31 bits, so their products fit into 64 bits.
    high = steps >> _HALF
    low = steps & ((1 << _HALF) - 1)
    squares = _exact_sum(high * high) << (2 * _HALF)
    squares += _exact_sum(high * low) << (_HALF + 1)
    squares += _exact_sum(low * low)
    return _exact_sum(steps) << exponent, squares << (2 * exponent)


def _exact_sum(values: Integers) -> int:
    """The sum of 64-bit integers, without overflow."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _quantiles(ordered: Floats, levels: Sequence[float]) -> Floats:
    """The quantiles of sorted scores, at least one, at these levels from 0 to 1.

    The bits are those of `np.quantile`, which takes longer because it does not use the order.
    """
    positions = (len(ordered) - 1) * np.array(levels)
    rows = positions.astype(np.intp)
    shares = positions - rows
    below = ordered[rows]
    above = ordered[np.minimum(rows + 1, len(ordered) - 1)]
    steps = above - below
    is_near = shares < 0.5  # noqa: PLR2004 - a half, as numpy
    values: Floats = np.where(is_near, below + steps * shares, above - steps * (1 - shares))
    return values


def _histogram(ordered: Floats, bounds: Bounds) -> Histogram:
    low, high = _histogram_range(ordered, bounds)
    inner_edges = np.linspace(low, high, HISTOGRAM_BINS + 1)[1:-1]
    # The counts are those of `np.histogram`, which takes longer.
    starts = np.searchsorted(ordered, inner_edges)
    counts = np.diff(starts, prepend=0, append=len(ordered))
    return Histogram(low=low, high=high, counts=tuple(counts.tolist()))


def _histogram_range(ordered: Floats, bounds: Bounds) -> Bounds:
    """The two ends of the histogram, which are never equal.

    The lowest or highest value replaces an infinite bound.
    """
    low, high = bounds
    if np.isinf(low):
        low = float(ordered[0]) if len(ordered) else min(high, 0.0)
    if np.isinf(high):
        high = float(ordered[-1]) if len(ordered) else max(low, 0.0)
    if low >= high:
        high = low + 1.0
    return low, high


@dataclass(slots=True)
class FineBins:
    """Counts values in `FINE` equal bins from ``low`` to ``high``.

    The range of an unbounded metric grows as needed. Its ends are powers of two.
    """

    low: float
    high: float
    is_bounded: bool
    counts: Integers
    least: float = math.inf
    most: float = -math.inf

    @classmethod
    def between(cls, bounds: Bounds) -> Self:
        """Empty bins for a metric with these bounds."""
        is_bounded = math.isfinite(bounds[0]) and math.isfinite(bounds[1])
        low, high = bounds if is_bounded else (-1.0, 1.0)
        return cls(low, high, is_bounded, np.zeros(FINE, dtype=np.int64))

    def add(self, values: Floats) -> None:
        """Count one or more values."""
        self._extend(float(values.min()), float(values.max()))
        cells = ((values - self.low) * (FINE / (self.high - self.low))).astype(np.int64)
        self.counts += np.bincount(np.clip(cells, 0, FINE - 1), minlength=FINE)

    def merge(self, other: Self) -> None:
        """Add the counts of another object with the same bounds."""
        self._extend(other.least, other.most)
        counts = other.counts
        high = other.high
        while high < self.high:
            counts = _merge_pairs(counts)
            high = 2 * high
        self.counts += counts

    def _extend(self, least: float, most: float) -> None:
        """Extend the range so that it includes ``least`` and ``most``."""
        self.least = min(self.least, least)
        self.most = max(self.most, most)
        while not self.is_bounded and max(-self.least, self.most) > self.high:
            self.low = 2 * self.low
            self.high = 2 * self.high
            self.counts = _merge_pairs(self.counts)

    def histogram(self) -> Histogram:
        """Add up the counts to a histogram with `HISTOGRAM_BINS` bins."""
        counts = self.counts.reshape(HISTOGRAM_BINS, -1).sum(axis=1)
        return Histogram(low=self.low, high=self.high, counts=tuple(counts.tolist()))

    def quantiles(self, wanted: Sequence[float]) -> Floats:
        """The quantiles at these levels from 0 to 1. The error of each is at most one bin."""
        ends = np.cumsum(self.counts)
        positions: Floats = (ends[-1] - 1) * np.array(wanted, dtype=float)
        below = np.floor(positions)
        first = self._values_at(below, ends)
        second = self._values_at(np.ceil(positions), ends)
        return first + (positions - below) * (second - first)

    def _values_at(self, ranks: Floats, ends: Integers) -> Floats:
        """The scores with these ranks. Ranks count from 0. The error of each is at most one bin.

        Scores are assumed to be evenly spaced within a bin.
        """
        bins = np.searchsorted(ends, ranks, side="right")
        inside = (ranks - (ends[bins] - self.counts[bins]) + 0.5) / self.counts[bins]
        values: Floats = self.low + (bins + inside) * ((self.high - self.low) / FINE)
        return np.clip(values, self.least, self.most)


def _merge_pairs(counts: Integers) -> Integers:
    """Merge pairs of bins, so that the same number of bins covers a range twice as wide."""
    return np.pad(counts.reshape(-1, 2).sum(axis=1), FINE // 4)


def worst_rows(values: Floats, users: pd.Index[str], count: int) -> Rows:
    """Rows of the ``count`` lowest values, the lowest first.

    Equal values are ordered by user. NaN is skipped.
    """
    rows = np.flatnonzero(~np.isnan(values))
    badness = values[rows]
    if count < len(rows):
        # Several users may have the same score as the last one, so all of them are kept here.
        worst = np.flatnonzero(badness <= np.partition(badness, count)[count])
        rows = rows[worst]
        badness = badness[worst]
    order_of_users = np.argsort(np.argsort(users[rows].to_numpy(dtype=object)))
    return rows[np.lexsort((order_of_users, badness))[:count]]


def representative_rows(values: Floats, count: int, median: float) -> Rows:
    """Rows of the ``count`` scores nearest to the median, nearest first.

    Scores at equal distances are ordered by row. Undefined scores are skipped.
    """
    rows = np.flatnonzero(~np.isnan(values))
    return rows[np.lexsort((rows, np.abs(values[rows] - median)))][:count]
