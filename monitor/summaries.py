"""Summaries of scores by segment and metric, and the choice of users whose lists are kept as evidence. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.model import EvidenceKind, Histogram, Panel, Statistic, Summary
from monitor.model.arrays import Floats

BINS = 40
QUANTILES = tuple(Statistic(quantile=percent / 100) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99))
"""Quantiles that every summary holds; rules may add others."""

SegmentRows: TypeAlias = Mapping[str, npt.NDArray[np.intp]]
"""Rows of the scores by segment name."""


def rows_of_segments(panel: Panel, panel_rows: npt.NDArray[np.intp]) -> dict[str, npt.NDArray[np.intp]]:
    """For every segment of the panel the rows of its users that were paired; row i is panel position ``panel_rows[i]``."""
    row_of = np.full(len(panel), -1, dtype=np.intp)
    row_of[panel_rows] = np.arange(len(panel_rows))
    rows = {segment: row_of[positions] for segment, positions in panel.segments.items()}
    return {segment: found[found >= 0] for segment, found in rows.items()}


def summarize_segments(
    segments: SegmentRows,
    scores: Mapping[str, Floats],
    *,
    ranges: Mapping[str, tuple[float, float]],
    wanted: Mapping[str, Sequence[Statistic]],
) -> tuple[Summary, ...]:
    """Summaries for every segment and every metric, in that order.

    ``scores`` holds one float64 (n,) a metric, NaN where undefined; ``ranges`` the bounds of a metric's scores, infinite where
    it has none; ``wanted`` the statistics that rules ask of a metric beyond the usual quantiles.
    """
    return tuple(
        summarize_one(segment, metric, values[rows], ranges[metric], wanted.get(metric, ()))
        for segment, rows in segments.items()
        for metric, values in scores.items()
    )


def summarize_one(
    segment: str, metric: str, values: Floats, bounds: tuple[float, float], wanted: Sequence[Statistic] = ()
) -> Summary:
    """Summary of one metric over the users of one segment.

    Everything is computed from the sorted values, so the order in which users arrive never changes a bit of the result.
    Quantiles interpolate linearly (Hyndman and Fan 1996, type 7); the standard error is s / sqrt(n) with n - 1 in s. Where
    ``bounds`` are infinite the histogram ends at what was seen.
    """
    defined = np.sort(values[np.isfinite(values)])
    n = len(defined)
    low, high = _ends(defined, bounds)
    counts, _ = np.histogram(np.clip(defined, low, high), bins=BINS, range=(low, high))
    return Summary(
        segment=segment,
        metric=metric,
        n=n,
        n_undefined=len(values) - n,
        mean=float(defined.mean()) if n else None,
        standard_error=float(defined.std(ddof=1) / np.sqrt(n)) if n > 1 else None,
        statistics={**_quantiles(defined, wanted), **_shares(defined, wanted)} if n else {},
        histogram=Histogram(low=low, high=high, counts=tuple(int(count) for count in counts)),
    )


def _ends(ordered: Floats, bounds: tuple[float, float]) -> tuple[float, float]:
    """Ends of the histogram: the bounds, or in place of infinite ones the lowest and highest value, never equal."""
    low, high = bounds
    if np.isinf(low):
        low = float(ordered[0]) if len(ordered) else min(high, 0.0)
    if np.isinf(high):
        high = float(ordered[-1]) if len(ordered) else max(low, 0.0)
    return (low, high) if low < high else (low, low + 1.0)


def _quantiles(ordered: Floats, wanted: Sequence[Statistic]) -> dict[str, float]:
    by_name = {str(each): each.quantile for each in (*QUANTILES, *wanted) if each.quantile is not None}
    values = np.quantile(ordered, list(by_name.values()))
    return {name: float(value) for name, value in zip(by_name, values, strict=True)}


def _shares(ordered: Floats, wanted: Sequence[Statistic]) -> dict[str, float]:
    return {
        str(each): float(np.searchsorted(ordered, each.floor, side="left") / len(ordered))
        for each in wanted
        if each.floor is not None
    }


def choose_evidence(
    values: npt.NDArray[np.float64], count: int, *, higher_is_more_alike: bool = True
) -> list[tuple[EvidenceKind, int, int]]:
    """(kind, position within the kind, row) of the ``count`` worst and of the ``count`` most ordinary users.

    Worst are the lowest scores, of a distance the highest; ordinary those nearest to the median that are not among the worst;
    equals go by row. Undefined scores are passed over.
    """
    rows = np.flatnonzero(~np.isnan(values))
    by_score = rows[np.argsort(values[rows] if higher_is_more_alike else -values[rows], kind="stable")]
    worst, rest = by_score[:count], by_score[count:]
    distance = np.abs(values[rest] - np.median(values[rows])) if len(rest) else np.empty(0)
    ordinary = rest[np.lexsort((rest, distance))][:count]
    return [
        (kind, position, int(row))
        for kind, chosen in ((EvidenceKind.WORST, worst), (EvidenceKind.REPRESENTATIVE, ordinary))
        for position, row in enumerate(chosen)
    ]
