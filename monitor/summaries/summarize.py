"""Summaries of scores by segment and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.model import Histogram, Panel, Statistic, Summary

BINS = 40
QUANTILES = tuple(Statistic(quantile=percent / 100) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99))
"""Quantiles that every summary holds; rules may add others."""

Values: TypeAlias = npt.NDArray[np.float64]


def summarize(
    panel: Panel,
    panel_rows: npt.NDArray[np.intp],
    scores: Mapping[str, Values],
    *,
    ranges: Mapping[str, tuple[float, float]],
    wanted: Mapping[str, Sequence[Statistic]],
) -> tuple[Summary, ...]:
    """Summaries for every segment of the panel and every metric, in that order.

    ``scores`` holds one float64 (n,) a metric, NaN where undefined, row i for panel position ``panel_rows[i]``; ``ranges`` a
    metric's declared range; ``wanted`` the statistics that rules ask of a metric beyond the usual quantiles.
    """
    pair_of = np.full(len(panel), -1, dtype=np.intp)
    pair_of[panel_rows] = np.arange(len(panel_rows))
    summaries = []
    for segment, positions in panel.segments.items():
        pairs = pair_of[positions]
        pairs = pairs[pairs >= 0]
        for metric, values in scores.items():
            summaries.append(summarize_one(segment, metric, values[pairs], ranges[metric], wanted.get(metric, ())))
    return tuple(summaries)


def summarize_one(
    segment: str, metric: str, values: Values, bounds: tuple[float, float], wanted: Sequence[Statistic] = ()
) -> Summary:
    """Summary of one metric over the users of one segment.

    Everything is computed from the sorted values, so the order in which users arrive never changes a bit of the result.
    Quantiles interpolate linearly (Hyndman and Fan 1996, type 7); the standard error is s / sqrt(n) with n - 1 in s.
    """
    defined = np.sort(values[~np.isnan(values)])
    n = len(defined)
    counts, _ = np.histogram(np.clip(defined, *bounds), bins=BINS, range=bounds)
    return Summary(
        segment=segment,
        metric=metric,
        n=n,
        n_undefined=len(values) - n,
        mean=float(defined.mean()) if n else None,
        standard_error=float(defined.std(ddof=1) / np.sqrt(n)) if n > 1 else None,
        statistics={**_quantiles(defined, wanted), **_shares(defined, wanted)} if n else {},
        histogram=Histogram(low=bounds[0], high=bounds[1], counts=tuple(int(count) for count in counts)),
    )


def _quantiles(ordered: Values, wanted: Sequence[Statistic]) -> dict[str, float]:
    by_name = {str(each): each.quantile for each in (*QUANTILES, *wanted) if each.quantile is not None}
    values = np.quantile(ordered, list(by_name.values()))
    return {name: float(value) for name, value in zip(by_name, values, strict=True)}


def _shares(ordered: Values, wanted: Sequence[Statistic]) -> dict[str, float]:
    return {
        str(each): float(np.searchsorted(ordered, each.floor, side="left") / len(ordered))
        for each in wanted
        if each.floor is not None
    }
