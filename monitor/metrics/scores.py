"""Scores of many pairs by many metrics: one alignment a block, blocks shared out among the processors."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from monitor.errors import MetricError
from monitor.kernels import Alignment, align
from monitor.kernels.alignment import row_blocks
from monitor.metrics.metric import Metric, Need
from monitor.model.arrays import Floats
from monitor.model.rankings import PairBatch


def score_all(batch: PairBatch, metrics: Sequence[Metric], *, threads: int | None = None) -> dict[str, Floats]:
    """Scores of every pair by canonical metric name, in the order of ``metrics``: float64 (n,), NaN where undefined.

    MetricError for a metric that needs scores, weights or relevance which the batch does not hold.

    Rows do not depend on each other, nor on how a batch is cut into blocks, nor on ``threads``, by default as many as this
    process may use processors. Memory: the scores, and one block a thread.
    """
    for metric in metrics:
        if not can_score(metric, batch):
            raise MetricError(f"{metric} needs {metric.need}, which were not given")
    kinds = {str(metric): metric for metric in metrics}
    scores = {name: np.empty(len(batch), dtype=np.float64) for name in kinds}

    # Rows do not depend on each other, so that blocks may end in any order.
    def score(rows: slice) -> None:
        for name, found in _measure(batch.take(rows), kinds):
            scores[name][rows] = found

    # A container may use fewer than the machine has.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    _share_out(score, list(row_blocks(batch)), threads or processors)
    return scores


def can_score(metric: Metric, batch: PairBatch) -> bool:
    """Whether the batch holds what the metric needs beside the lists."""
    given = {Need.SCORES: batch.scores, Need.ITEM_WEIGHTS: batch.weights, Need.RELEVANCE: batch.labels}
    return metric.need is None or given[metric.need] is not None


def _measure(batch: PairBatch, kinds: dict[str, Metric]) -> Iterator[tuple[str, Floats]]:
    alignment = align(batch)
    # Aligned once and cut for each depth: to align costs more than most measures do.
    by_depth: dict[int | None, Alignment] = {None: alignment}
    for name, metric in kinds.items():
        if metric.depth not in by_depth:
            by_depth[metric.depth] = alignment.cut(metric.depth or alignment.k)
        yield name, metric.measure(by_depth[metric.depth])


def _share_out(score: Callable[[slice], None], rows: Sequence[slice], threads: int) -> None:
    if min(threads, len(rows)) <= 1:
        for block in rows:
            score(block)
        return
    # Threads, not processes: numpy and the machine code release the lock where they work long.
    with ThreadPoolExecutor(min(threads, len(rows)), thread_name_prefix="score") as pool:
        try:
            list(pool.map(score, rows))
        finally:  # the caller may stop in the middle, by an interrupt
            pool.shutdown(cancel_futures=True)
