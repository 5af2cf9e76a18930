"""Summarizes scores by segment and metric, and finds the worst and ordinary scores. No I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Self, TypeAlias

import numpy as np
import pandas as pd

from monitor.model.arrays import Floats, Integers, Rows
from monitor.model.rankings import ALL, Panel
from monitor.model.runs import Histogram, Summary
from monitor.model.statistics import Statistic

BINS = 40
QUANTILES = tuple(
    Statistic(quantile=percent / 100) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)
)
"""The quantiles in every summary. Rules may add other quantiles."""
EXACT = 1_000_000
"""Quantiles of at most this many scores are exact.

For more scores, the metric's range is divided into `FINE` equal bins. Then the error of a quantile
is at most one bin.
"""
FINE = 8192 * BINS

SegmentRows: TypeAlias = Mapping[str, Rows]
"""Rows of the scores by segment name."""
Bounds: TypeAlias = tuple[float, float]


_STEPS = 61  # bits of a score as an integer
_HALF = 31  # bits of the lower half of this integer


def rows_of_segments(panel: Panel, panel_rows: Rows) -> dict[str, Rows]:
    """The rows of the paired users of every segment.

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
    """Summarize one metric over the users of one segment. See `ScoreAccumulator`."""
    scores = ScoreAccumulator(bounds, wanted)
    scores.add(values)
    return scores.summary(segment, metric)


class SummaryAccumulator:
    """Computes summaries for every segment and metric, from scores that are added in parts.

    The result is bit-identical for every order and number of parts. ``segments`` are the names of
    the segments in the order of the result. ``wanted`` are the statistics of each metric that rules
    need in addition to the usual quantiles.
    """

    def __init__(self, segments: Iterable[str], wanted: Mapping[str, Sequence[Statistic]]) -> None:
        self._segments = tuple(segments)
        self._wanted = wanted
        self._by_metric: dict[str, dict[str, ScoreAccumulator]] = {}

    def add(
        self,
        segments: SegmentRows,
        scores: Mapping[str, Floats],
        ranges: Mapping[str, Bounds],
    ) -> None:
        """Add the scores of some users, one float64 array (n,) for each metric.

        An undefined score is NaN. ``segments`` are rows of these users. ``ranges`` are the bounds
        of each metric's scores. A missing bound is infinite.
        """
        for metric, values in scores.items():
            if metric not in self._by_metric:
                wanted = self._wanted.get(metric, ())
                self._by_metric[metric] = {
                    name: ScoreAccumulator(ranges[metric], wanted) for name in self._segments
                }
            for name, rows in segments.items():
                self._by_metric[metric][name].add(values[rows])

    def merge(self, other: Self) -> None:
        """Add all scores of another accumulator for the same segments. Do not use it afterwards."""
        for metric, theirs in other._by_metric.items():
            if metric not in self._by_metric:
                self._by_metric[metric] = theirs
                continue
            for name, scores in theirs.items():
                self._by_metric[metric][name].merge(scores)

    def compact(self) -> None:
        """Sort the scores that are stored singly, so that they compress better."""
        for by_segment in self._by_metric.values():
            for scores in by_segment.values():
                scores.compact()

    def summaries(self) -> tuple[Summary, ...]:
        """All summaries, ordered by segment and then by metric."""
        summaries = []
        for segment in self._segments:
            for metric, by_segment in self._by_metric.items():
                summaries.append(by_segment[segment].summary(segment, metric))
        return tuple(summaries)

    def median(self, metric: str) -> float | None:
        """The median of all users' scores by a metric. None if there are no scores."""
        if metric not in self._by_metric:
            return None
        return self._by_metric[metric][ALL].summary(ALL, metric).value("p50")


class ScoreAccumulator:
    """Summarizes the scores of one metric over one segment, which are added in parts.

    Equal scores give bit-identical summaries. Quantiles are Hyndman and Fan's (1996) type 7. They
    are exact for at most `EXACT` scores. The standard error is s / sqrt(n), where s has the divisor
    n - 1. If ``bounds`` are infinite, the histogram goes from the lowest to the highest score. With
    more than `EXACT` scores, its ends are then powers of two.
    """

    def __init__(self, bounds: Bounds, wanted: Sequence[Statistic] = ()) -> None:
        self._bounds = bounds
        self._quantiles: dict[str, float] = {}
        self._floors: dict[str, float] = {}
        for statistic in (*QUANTILES, *wanted):
            if statistic.quantile is not None:
                self._quantiles[str(statistic)] = statistic.quantile
            if statistic.floor is not None:
                self._floors[str(statistic)] = statistic.floor
        self._below = dict.fromkeys(self._floors.values(), 0)
        self._n = 0
        self._n_undefined = 0
        self._moments = Moments()
        self._single: list[Floats] = []
        self._bins: FineBins | None = None

    def add(self, values: Floats) -> None:
        """Add the scores of some users, float64 (m,). Undefined scores are NaN."""
        defined = values[np.isfinite(values)]
        self._n += len(defined)
        self._n_undefined += len(values) - len(defined)
        if not len(defined):
            return
        self._moments.add(defined, max(map(abs, self._bounds)))
        for floor in self._below:
            self._below[floor] += int(np.count_nonzero(defined < floor))
        self._single.append(defined)
        self._bin_many()

    def merge(self, other: Self) -> None:
        """Add all scores of another accumulator for the same metric."""
        self._n += other._n
        self._n_undefined += other._n_undefined
        self._moments.merge(other._moments)
        for floor, count in other._below.items():
            self._below[floor] += count
        self._single += other._single
        if other._bins is not None:
            self._bins = self._bins or FineBins(self._bounds)
            self._bins.merge(other._bins)
        self._bin_many()

    def _bin_many(self) -> None:
        """Move the single scores into bins if there are more than `EXACT` scores."""
        if self._n > EXACT:
            self._bins = self._bins or FineBins(self._bounds)
            for values in self._single:
                self._bins.add(values)
            self._single = []

    def compact(self) -> None:
        """Sort the scores that are stored singly."""
        if self._single:
            self._single = [np.sort(np.concatenate(self._single))]

    def summary(self, segment: str, metric: str) -> Summary:
        """Summarize all scores, with these names in the summary."""
        n = self._n
        self.compact()
        ordered = self._single[0] if self._single else np.empty(0)
        if self._bins is None:
            histogram = _histogram(ordered, self._bounds)
        else:
            histogram = self._bins.histogram()
        return Summary(
            segment=segment,
            metric=metric,
            n=n,
            n_undefined=self._n_undefined,
            mean=self._moments.mean(n) if n else None,
            standard_error=self._moments.standard_error(n) if n > 1 else None,
            statistics=self._statistics(ordered) if n else {},
            histogram=histogram,
        )

    def _statistics(self, ordered: Floats) -> dict[str, float]:
        quantiles = list(self._quantiles.values())
        if self._bins is None:
            values = np.quantile(ordered, quantiles)
        else:
            values = self._bins.quantiles(quantiles)
        statistics = dict(zip(self._quantiles, values.tolist(), strict=True))
        for name, floor in self._floors.items():
            statistics[name] = self._below[floor] / self._n
        return statistics


class Moments:
    """The sum and the sum of squares as integers. Integer sums are exact in any order."""

    def __init__(self) -> None:
        self._sum = 0
        self._squares = 0

    def add(self, values: Floats, bound: float) -> None:
        """Add finite values. ``bound`` is the largest possible absolute value, or infinite."""
        if math.isinf(bound):
            bound = float(np.abs(values).max())
        # Scores of at most 1 are rounded to 2**-60. This changes the mean by less than a rounding
        # error.
        exponent = max(0, math.frexp(bound)[1])
        steps = np.rint(np.ldexp(values, _STEPS - exponent)).astype(np.int64)
        # The halves have 31 bits, so their products fit into 64 bits.
        high = steps >> _HALF
        low = steps & ((1 << _HALF) - 1)
        self._sum += _exact_sum(steps) << exponent
        squares = _exact_sum(high * high) << (2 * _HALF)
        squares += _exact_sum(high * low) << (_HALF + 1)
        squares += _exact_sum(low * low)
        self._squares += squares << (2 * exponent)

    def merge(self, other: Self) -> None:
        """Add all values of another object."""
        self._sum += other._sum
        self._squares += other._squares

    def mean(self, n: int) -> float:
        """The mean of all ``n`` values."""
        return float(Fraction(self._sum, n << _STEPS))

    def standard_error(self, n: int) -> float:
        """The standard error of the mean of all ``n`` values. ``n`` must be at least 2."""
        numerator = n * self._squares - self._sum**2
        return math.sqrt(Fraction(numerator, (n * n * (n - 1)) << (2 * _STEPS)))


def _exact_sum(values: Integers) -> int:
    """The sum of 64-bit integers, without overflow."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _histogram(ordered: Floats, bounds: Bounds) -> Histogram:
    low, high = _histogram_range(ordered, bounds)
    counts, _ = np.histogram(np.clip(ordered, low, high), bins=BINS, range=(low, high))
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


class FineBins:
    """Counts values in `FINE` equal bins between a metric's bounds.

    Powers of two replace infinite bounds. They grow as needed.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._is_bounded = math.isfinite(bounds[0]) and math.isfinite(bounds[1])
        self._low, self._high = bounds if self._is_bounded else (-1.0, 1.0)
        self._counts = np.zeros(FINE, dtype=np.int64)
        self._least = math.inf
        self._most = -math.inf

    def add(self, values: Floats) -> None:
        """Count one or more values."""
        self._extend(float(values.min()), float(values.max()))
        places = ((values - self._low) * (FINE / (self._high - self._low))).astype(np.int64)
        self._counts += np.bincount(np.clip(places, 0, FINE - 1), minlength=FINE)

    def merge(self, other: Self) -> None:
        """Add the counts of another object with the same bounds."""
        self._extend(other._least, other._most)
        counts = other._counts
        high = other._high
        while high < self._high:
            counts = _merge_pairs(counts)
            high = 2 * high
        self._counts += counts

    def _extend(self, least: float, most: float) -> None:
        """Extend the range so that it includes ``least`` and ``most``."""
        self._least = min(self._least, least)
        self._most = max(self._most, most)
        while not self._is_bounded and max(-self._least, self._most) > self._high:
            self._low = 2 * self._low
            self._high = 2 * self._high
            self._counts = _merge_pairs(self._counts)

    def histogram(self) -> Histogram:
        """Add up the counts to a histogram with `BINS` bins."""
        counts = self._counts.reshape(BINS, -1).sum(axis=1)
        return Histogram(low=self._low, high=self._high, counts=tuple(counts.tolist()))

    def quantiles(self, wanted: Sequence[float]) -> Floats:
        """The quantiles at these levels from 0 to 1. The error of each is at most one bin."""
        ends = np.cumsum(self._counts)
        places: Floats = (ends[-1] - 1) * np.array(wanted, dtype=np.float64)
        below = np.floor(places)
        first = self._values_at(below, ends)
        second = self._values_at(np.ceil(places), ends)
        return first + (places - below) * (second - first)

    def _values_at(self, ranks: Floats, ends: Integers) -> Floats:
        """The scores with these ranks. Ranks count from 0. The error of each is at most one bin.

        Scores are assumed to be evenly spaced within a bin.
        """
        bins = np.searchsorted(ends, ranks, side="right")
        inside = (ranks - (ends[bins] - self._counts[bins]) + 0.5) / self._counts[bins]
        values: Floats = self._low + (bins + inside) * ((self._high - self._low) / FINE)
        return np.clip(values, self._least, self._most)


def _merge_pairs(counts: Integers) -> Integers:
    """Merge pairs of bins, so that the same number of bins covers a range twice as wide."""
    return np.pad(counts.reshape(-1, 2).sum(axis=1), FINE // 4)


def worst_rows(
    values: Floats,
    users: "pd.Index[str]",
    count: int,
    *,
    higher_is_more_alike: bool = True,
) -> Rows:
    """Rows of the ``count`` worst scores, worst first.

    The worst scores are the lowest. For a distance, they are the highest. Equal scores are ordered
    by user. Undefined scores are skipped.
    """
    rows = np.flatnonzero(~np.isnan(values))
    badness = values[rows] if higher_is_more_alike else -values[rows]
    if count < len(rows):
        # Several users may have the same score as the last one, so all of them are kept here.
        worst = np.flatnonzero(badness <= np.partition(badness, count)[count])
        rows = rows[worst]
        badness = badness[worst]
    places = np.argsort(np.argsort(users[rows].to_numpy(dtype=object)))
    return rows[np.lexsort((places, badness))[:count]]


def ordinary_rows(values: Floats, count: int, median: float) -> Rows:
    """Rows of the ``count`` scores nearest to the median, nearest first.

    Scores at equal distances are ordered by row. Undefined scores are skipped.
    """
    rows = np.flatnonzero(~np.isnan(values))
    return rows[np.lexsort((rows, np.abs(values[rows] - median)))][:count]
