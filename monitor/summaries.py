"""Summaries of scores by segment and metric, and the rows of the worst and of ordinary scores. No I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.model.arrays import Floats, Integers
from monitor.model.rankings import ALL, Panel
from monitor.model.runs import Histogram, Summary
from monitor.model.statistics import Statistic

BINS = 40
QUANTILES = tuple(
    Statistic(quantile=percent / 100) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)
)
"""Quantiles that every summary holds; rules may add others."""
EXACT = 1_000_000
"""Most scores of which quantiles are exact.

Of more they are off by at most one of `FINE` equal bins of the metric's range.
"""
FINE = 8192 * BINS

SegmentRows: TypeAlias = Mapping[str, npt.NDArray[np.intp]]
"""Rows of the scores by segment name."""
Bounds: TypeAlias = tuple[float, float]


_STEPS = 61
_HALF = 31


def rows_of_segments(
    panel: Panel, panel_rows: npt.NDArray[np.intp]
) -> dict[str, npt.NDArray[np.intp]]:
    """For every segment of the panel the rows of its users that were paired.

    Row i is panel position ``panel_rows[i]``.
    """
    row_of = np.full(len(panel), -1, dtype=np.intp)
    row_of[panel_rows] = np.arange(len(panel_rows))
    rows = {segment: row_of[positions] for segment, positions in panel.segments.items()}
    return {segment: found[found >= 0] for segment, found in rows.items()}


def summarize_one(
    segment: str, metric: str, values: Floats, bounds: Bounds, wanted: Sequence[Statistic] = ()
) -> Summary:
    """Summary of one metric over the users of one segment, all at once.

    See `SummaryAccumulator`.
    """
    found = ScoreAccumulator(bounds, wanted)
    found.add(values)
    return found.summary(segment, metric)


class SummaryAccumulator:
    """Summaries for every segment and metric, from scores in parts, whose order and number change not a bit of the result.

    ``segments``: names in their order; ``wanted``: the statistics that rules ask of a metric beyond the usual quantiles.
    """

    def __init__(self, segments: Iterable[str], wanted: Mapping[str, Sequence[Statistic]]) -> None:
        self._segments = tuple(segments)
        self._wanted = wanted
        self._found: dict[str, dict[str, ScoreAccumulator]] = {}

    def add(
        self, segments: SegmentRows, scores: Mapping[str, Floats], ranges: Mapping[str, Bounds]
    ) -> None:
        """Take scores of some users: one float64 (n,) a metric, NaN where undefined.

        ``segments`` are rows of them.

        ``ranges``: the bounds of each metric's scores, infinite where it has none.
        """
        for metric, values in scores.items():
            if metric not in self._found:
                wanted = self._wanted.get(metric, ())
                self._found[metric] = {
                    name: ScoreAccumulator(ranges[metric], wanted) for name in self._segments
                }
            for name, rows in segments.items():
                self._found[metric][name].add(values[rows])

    def merge(self, other: Self) -> None:
        """Take all that another one of the same segments and statistics took; it is used up."""
        for metric, found in other._found.items():
            mine = self._found.setdefault(metric, found)
            if mine is not found:
                for name, scores in found.items():
                    mine[name].merge(scores)

    def compact(self) -> None:
        """Put the scores in order where single ones are kept, so that they take less room once they are packed."""
        for found in self._found.values():
            for scores in found.values():
                scores.compact()

    def summaries(self) -> tuple[Summary, ...]:
        """Summaries by segment and metric, in that order."""
        return tuple(
            found[segment].summary(segment, metric)
            for segment in self._segments
            for metric, found in self._found.items()
        )

    def median(self, metric: str) -> float | None:
        """The median of all users' scores by a metric, None where nobody has one."""
        found = self._found.get(metric)
        return None if found is None else found[ALL].summary(ALL, metric).value("p50")


class ScoreAccumulator:
    """The scores of one metric over one segment, gathered in parts.

    Equal scores give equal summaries to the last bit.

    Quantiles are Hyndman and Fan's (1996) type 7, exact up to `EXACT` scores; the standard error is
    s / sqrt(n), n - 1 in s. With infinite ``bounds`` the histogram ends at what was seen, beyond
    `EXACT` scores at a power of two."""

    def __init__(self, bounds: Bounds, wanted: Sequence[Statistic] = ()) -> None:
        self._bounds = bounds
        self._quantiles = {
            str(each): each.quantile for each in (*QUANTILES, *wanted) if each.quantile is not None
        }
        self._below = {each.floor: 0 for each in wanted if each.floor is not None}
        self._shares = {str(each): each.floor for each in wanted if each.floor is not None}
        self._n = 0
        self._n_undefined = 0
        self._moments = Moments()
        self._kept: list[Floats] = []
        self._bins: FineBins | None = None

    def add(self, values: Floats) -> None:
        """Take scores of some users, float64 (m,), NaN where undefined."""
        defined = values[np.isfinite(values)]
        self._n += len(defined)
        self._n_undefined += len(values) - len(defined)
        if not len(defined):
            return
        self._moments.add(defined, max(map(abs, self._bounds)))
        for floor in self._below:
            self._below[floor] += int(np.count_nonzero(defined < floor))
        self._kept.append(defined)
        self._bin_many()

    def merge(self, other: Self) -> None:
        """Take all that another one took of the same metric."""
        self._n += other._n
        self._n_undefined += other._n_undefined
        self._moments.merge(other._moments)
        for floor, count in other._below.items():
            self._below[floor] += count
        self._kept += other._kept
        if other._bins is not None:
            self._bins = self._bins or FineBins(self._bounds)
            self._bins.merge(other._bins)
        self._bin_many()

    def _bin_many(self) -> None:
        """Count the scores in bins where there are more of them than are kept."""
        if self._n > EXACT:
            self._bins = self._bins or FineBins(self._bounds)
            for kept in self._kept:
                self._bins.add(kept)
            self._kept = []

    def compact(self) -> None:
        """Put the scores that are kept one by one in order."""
        self._kept = [np.sort(np.concatenate(self._kept))] if self._kept else []

    def summary(self, segment: str, metric: str) -> Summary:
        """Summary of all that was taken, under these names."""
        n = self._n
        self.compact()
        ordered = self._kept[0] if self._kept else np.empty(0)
        return Summary(
            segment=segment,
            metric=metric,
            n=n,
            n_undefined=self._n_undefined,
            mean=self._moments.mean(n) if n else None,
            standard_error=self._moments.standard_error(n) if n > 1 else None,
            statistics=self._statistics(ordered) if n else {},
            histogram=_histogram(ordered, self._bounds)
            if self._bins is None
            else self._bins.histogram(),
        )

    def _statistics(self, ordered: Floats) -> dict[str, float]:
        wanted = list(self._quantiles.values())
        values = (
            np.quantile(ordered, wanted) if self._bins is None else self._bins.quantiles(wanted)
        )
        found = {name: float(value) for name, value in zip(self._quantiles, values, strict=True)}
        return found | {name: self._below[floor] / self._n for name, floor in self._shares.items()}


class Moments:
    """Sum and sum of squares, as whole numbers: adding them is exact, so that no order of adding differs."""

    def __init__(self) -> None:
        self._sum = 0
        self._squares = 0

    def add(self, values: Floats, bound: float) -> None:
        """Take finite values, of which none lies farther from 0 than ``bound``, infinite where nothing bounds them."""
        if math.isinf(bound):
            bound = float(np.abs(values).max())
        # In steps of 2**-60 for scores of at most 1: what is lost of a score is below a rounding
        # error of their mean.
        exponent = max(0, math.frexp(bound)[1])
        whole = np.rint(np.ldexp(values, _STEPS - exponent)).astype(np.int64)
        # Two halves of 31 bits, whose products fit into 64.
        high, low = whole >> _HALF, whole & ((1 << _HALF) - 1)
        self._sum += _sum(whole) << exponent
        squares = (
            (_sum(high * high) << (2 * _HALF)) + (_sum(high * low) << (_HALF + 1)) + _sum(low * low)
        )
        self._squares += squares << (2 * exponent)

    def merge(self, other: Self) -> None:
        """Take the values that another one took."""
        self._sum += other._sum
        self._squares += other._squares

    def mean(self, n: int) -> float:
        """The mean of all ``n`` values."""
        return float(Fraction(self._sum, n << _STEPS))

    def standard_error(self, n: int) -> float:
        """The standard error of the mean of all ``n`` values, two at least."""
        return math.sqrt(
            Fraction(n * self._squares - self._sum**2, (n * n * (n - 1)) << (2 * _STEPS))
        )


def _sum(values: Integers) -> int:
    """The sum of 64-bit integers, which may be larger than those."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _histogram(ordered: Floats, bounds: Bounds) -> Histogram:
    low, high = _ends(ordered, bounds)
    counts, _ = np.histogram(np.clip(ordered, low, high), bins=BINS, range=(low, high))
    return Histogram(low=low, high=high, counts=tuple(int(count) for count in counts))


def _ends(ordered: Floats, bounds: Bounds) -> Bounds:
    """Ends of the histogram: the bounds, or in place of infinite ones the lowest and highest value, never equal."""
    low, high = bounds
    if np.isinf(low):
        low = float(ordered[0]) if len(ordered) else min(high, 0.0)
    if np.isinf(high):
        high = float(ordered[-1]) if len(ordered) else max(low, 0.0)
    return (low, high) if low < high else (low, low + 1.0)


class FineBins:
    """Counts in `FINE` equal bins between a metric's bounds.

    Infinite ones give way to powers of two that grow as needed.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._is_bounded = math.isfinite(bounds[0]) and math.isfinite(bounds[1])
        self._low, self._high = bounds if self._is_bounded else (-1.0, 1.0)
        self._counts = np.zeros(FINE, dtype=np.int64)
        self._least, self._most = math.inf, -math.inf

    def add(self, values: Floats) -> None:
        """Count some values, one at least."""
        self._reach(float(values.min()), float(values.max()))
        places = ((values - self._low) * (FINE / (self._high - self._low))).astype(np.int64)
        self._counts += np.bincount(np.clip(places, 0, FINE - 1), minlength=FINE)

    def merge(self, other: Self) -> None:
        """Take what another one counted between the same bounds."""
        self._reach(other._least, other._most)
        counts, high = other._counts, other._high
        while high < self._high:
            counts, high = _in_pairs(counts), 2 * high
        self._counts += counts

    def _reach(self, least: float, most: float) -> None:
        """Take in the lowest and highest of further scores."""
        self._least, self._most = min(self._least, least), max(self._most, most)
        while not self._is_bounded and max(-self._least, self._most) > self._high:
            self._low, self._high = 2 * self._low, 2 * self._high
            self._counts = _in_pairs(self._counts)

    def histogram(self) -> Histogram:
        """The counts in `BINS` bins."""
        counts = self._counts.reshape(BINS, -1).sum(axis=1)
        return Histogram(
            low=self._low, high=self._high, counts=tuple(int(count) for count in counts)
        )

    def quantiles(self, wanted: Sequence[float]) -> Floats:
        """Values at these shares of the scores, each off by one bin at most."""
        ends = np.cumsum(self._counts)
        places: Floats = (ends[-1] - 1) * np.array(wanted, dtype=np.float64)
        below = np.floor(places)
        first, second = self._values_at(below, ends), self._values_at(np.ceil(places), ends)
        return first + (places - below) * (second - first)

    def _values_at(self, ranks: Floats, ends: Integers) -> Floats:
        """The scores of these ranks from 0, each off by one bin at most: within a bin scores are taken to lie evenly."""
        bins = np.searchsorted(ends, ranks, side="right")
        inside = (ranks - (ends[bins] - self._counts[bins]) + 0.5) / self._counts[bins]
        values = self._low + (bins + inside) * ((self._high - self._low) / FINE)
        found: Floats = np.clip(values, self._least, self._most)
        return found


def _in_pairs(counts: Integers) -> Integers:
    """The counts between bounds twice as far apart: pairs of bins become one, so that what was counted stays where it was."""
    return np.pad(counts.reshape(-1, 2).sum(axis=1), FINE // 4)


def worst_rows(
    values: Floats, users: "pd.Index[str]", count: int, *, higher_is_more_alike: bool = True
) -> npt.NDArray[np.intp]:
    """Rows of the ``count`` lowest scores, of a distance the highest, worst first.

    Equals go by user, undefined are out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    badness = values[rows] if higher_is_more_alike else -values[rows]
    if count < len(rows):
        # Whoever has the last place may share it with many.
        worst = np.flatnonzero(badness <= np.partition(badness, count)[count])
        rows, badness = rows[worst], badness[worst]
    places = np.argsort(np.argsort(users[rows].to_numpy(dtype=object)))
    return rows[np.lexsort((places, badness))[:count]]


def ordinary_rows(values: Floats, count: int, median: float) -> npt.NDArray[np.intp]:
    """Rows of the ``count`` scores nearest to the median, nearest first.

    Equals go by row, undefined ones are out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    return rows[np.lexsort((rows, np.abs(values[rows] - median)))][:count]
