"""What sets two arms' lists apart: the distance split into parts, and the kinds of change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.explaining import average_parts, classify, share_kinds, split_distances
from monitor.metrics import Metric, score_all
from monitor.model import Change, PairBatch, PartMeans
from monitor.pipeline.explaining import can_split


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What sets a segment's lists apart: the mean distance from identical ones by ``metric`` in parts, and kinds of change.

    ``parts`` is None for a metric that has no value for identical lists, or speaks of relevance.
    """

    metric: str
    parts: PartMeans | None
    kinds: Mapping[Change, float]


def set_apart(batch: PairBatch, metric: Metric, segments: Mapping[str, npt.NDArray[np.intp]]) -> dict[str, Apart]:
    """What sets the lists apart, by segment; ``segments`` are rows of the batch. Costs six scorings, and sorting."""
    kinds = classify(batch)
    means: dict[str, PartMeans] = {}
    if can_split(metric):
        parts = split_distances(
            batch,
            lambda step: score_all(step, (metric,))[str(metric)],
            higher_is_more_alike=metric.higher_is_more_alike,
        )
        means = {each.segment: each for each in average_parts(parts, segments, {}) if each.n}
    return {
        segment: Apart(metric=str(metric), parts=means.get(segment), kinds=share_kinds(kinds[rows]))
        for segment, rows in segments.items()
    }
