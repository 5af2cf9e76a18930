"""Scores of many pairs by many metrics: one alignment for each block, blocks in several threads."""

import copy
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

MEASURING_S = 60.0
"""Timeout of a plugin's metric for one block of pairs, about 26,000 pairs of ten items."""


def score_all(
    batch: PairBatch,
    metrics: Sequence[Metric],
    *,
    threads: int | None = None,
    failed: dict[str, str] | None = None,
) -> dict[str, Floats]:
    """Scores of every pair by canonical metric name, in the order of ``metrics``.

    Scores are float64 (n,), NaN if undefined. Rows depend neither on each other nor on ``threads``
    (default: the number of processors). Memory is the scores, and one block a thread.

    Raises MetricError for a metric that needs data that the batch does not have. A metric of a
    plugin may fail. Without ``failed`` that raises MetricError. Otherwise ``failed`` gets a
    sentence by metric name, and the scores are NaN. Metrics that are in ``failed`` already are
    skipped and have NaN too.
    """
    for metric in metrics:
        if not can_score(metric, batch):
            raise MetricError(f"{metric} needs {metric.need}, which were not given")
    kinds = {str(metric): metric for metric in metrics}
    scores = {name: np.empty(len(batch), dtype=np.float64) for name in kinds}

    # Rows do not depend on each other, so blocks may end in any order.
    def score(rows: slice) -> None:
        for name, values in _measure(batch.take(rows), kinds, failed):
            scores[name][rows] = values

    if threads is None:
        # A container may use fewer processors than the machine has.
        if hasattr(os, "sched_getaffinity"):
            threads = len(os.sched_getaffinity(0))
        else:
            threads = os.cpu_count() or 1
    _share_out(score, list(row_blocks(batch)), threads)
    return scores


def can_score(metric: Metric, batch: PairBatch) -> bool:
    """Whether the batch has the data that the metric needs."""
    data = {
        None: batch,
        Need.SCORES: batch.scores,
        Need.ITEM_WEIGHTS: batch.weights,
        Need.RELEVANCE: batch.labels,
    }
    return data[metric.need] is not None


def _measure(
    batch: PairBatch,
    kinds: dict[str, Metric],
    failed: dict[str, str] | None,
) -> Iterator[tuple[str, Floats | float]]:
    alignment = align(batch)
    # Align once and cut for each depth: an alignment costs more than most metrics.
    by_depth: dict[int | None, Alignment] = {None: alignment}
    for name, metric in kinds.items():
        if failed and name in failed:
            yield name, np.nan
            continue
        if metric.depth not in by_depth:
            by_depth[metric.depth] = alignment.cut(metric.depth or alignment.k)
        try:
            yield name, _measure_one(metric, by_depth[metric.depth])
        except MetricError as error:
            failure = f"{name} not measured: {error}"
            if failed is None:
                raise MetricError(failure) from None
            failed[name] = failure
            yield name, np.nan


def _measure_one(metric: Metric, alignment: Alignment) -> Floats:
    """Scores of the pairs.

    Raises MetricError if a plugin's metric fails, or does not return one number a pair that is in
    its range or NaN.
    """
    if metric.guard is None:
        return metric.measure(alignment)
    alignment = copy.deepcopy(alignment)  # a plugin must not change the alignment of other metrics

    def measure() -> Floats:
        return np.array(metric.measure(alignment), dtype=np.float64)

    scores = metric.guard.call(measure, MEASURING_S)
    shape = alignment.baseline_lengths.shape
    wrong = scores[np.isinf(scores) | (scores < metric.low) | (scores > metric.high)]
    if len(wrong):
        problem = f"{wrong[0]:g}"
    elif scores.shape != shape:
        problem = f"an array of shape {scores.shape}"
    else:
        return scores
    raise MetricError(
        f"gave {problem}, expected {shape[0]} numbers from {metric.low:g} to {metric.high:g}"
    )


def _share_out(score: Callable[[slice], None], rows: Sequence[slice], threads: int) -> None:
    if min(threads, len(rows)) <= 1:
        for block in rows:
            score(block)
        return
    # Threads, not processes: numpy and the machine code release the lock during long operations.
    with ThreadPoolExecutor(min(threads, len(rows)), thread_name_prefix="score") as pool:
        try:
            list(pool.map(score, rows))
        finally:  # an interrupt may stop the caller
            pool.shutdown(cancel_futures=True)
