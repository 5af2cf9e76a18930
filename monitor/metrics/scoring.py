"""Scores of many pairs by many metrics, with one alignment a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from monitor.errors import MetricError
from monitor.kernels import Alignment, blocks
from monitor.kernels.alignment import Floats
from monitor.metrics.metric import Metric, Need
from monitor.model import PairBatch


def score_all(
    batch: PairBatch, metrics: Sequence[Metric], *, progress: Callable[[int], object] | None = None
) -> dict[str, Floats]:
    """Scores of every pair by canonical metric name, in the order of ``metrics``: float64 (n,), NaN where undefined.

    MetricError for a metric that needs scores, weights or relevance which the batch does not hold.

    Rows do not depend on each other, nor on how a batch is cut into blocks. ``progress`` is called with the number of pairs
    done since the last call. Memory: the scores, and one block.
    """
    for metric in metrics:
        _check_need(batch, metric)
    scores = {str(metric): np.empty(len(batch), dtype=np.float64) for metric in metrics}
    kinds = {str(metric): metric for metric in metrics}
    for rows, alignment in blocks(batch):
        by_depth: dict[int | None, Alignment] = {None: alignment}
        for name, metric in kinds.items():
            if metric.depth not in by_depth:
                by_depth[metric.depth] = alignment.cut(metric.depth or alignment.k)
            scores[name][rows] = metric.measure(by_depth[metric.depth])
        if progress is not None:
            progress(rows.stop - rows.start)
    return scores


def _check_need(batch: PairBatch, metric: Metric) -> None:
    given = {Need.SCORES: batch.scores, Need.ITEM_WEIGHTS: batch.weights, Need.RELEVANCE: batch.labels}
    if metric.need is not None and given[metric.need] is None:
        msg = f"{metric} needs {metric.need}, which were not given"
        raise MetricError(msg)
