"""Scores of many pairs by many metrics: one alignment a block, blocks shared out among the processors."""

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
"""How long a plugin's metric may take for one block of pairs, some 26,000 of ten items."""


def score_all(
    batch: PairBatch,
    metrics: Sequence[Metric],
    *,
    threads: int | None = None,
    failed: dict[str, str] | None = None,
) -> dict[str, Floats]:
    """Scores of every pair by canonical metric name, in the order of ``metrics``: float64 (n,), NaN where undefined.

    MetricError for a metric that needs what the batch does not hold; and for one that a package brings and that fails, unless
    ``failed`` is given: there a sentence about it is kept by name, and its scores are NaN, as are those of earlier failures.
    Rows do not depend on each other, nor on ``threads`` (default: the processors). Memory: the scores, and one block a thread.
    """
    for metric in metrics:
        if not can_score(metric, batch):
            raise MetricError(f"{metric} needs {metric.need}, which were not given")
    kinds = {str(metric): metric for metric in metrics}
    scores = {name: np.empty(len(batch), dtype=np.float64) for name in kinds}

    # Rows do not depend on each other, so that blocks may end in any order.
    def score(rows: slice) -> None:
        for name, found in _measure(batch.take(rows), kinds, failed):
            scores[name][rows] = found

    # A container may use fewer than the machine has.
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    _share_out(score, list(row_blocks(batch)), threads or processors)
    return scores


def can_score(metric: Metric, batch: PairBatch) -> bool:
    """Whether the batch holds what the metric needs beside the lists."""
    given = {
        Need.SCORES: batch.scores,
        Need.ITEM_WEIGHTS: batch.weights,
        Need.RELEVANCE: batch.labels,
    }
    return metric.need is None or given[metric.need] is not None


def _measure(
    batch: PairBatch, kinds: dict[str, Metric], failed: dict[str, str] | None
) -> Iterator[tuple[str, Floats | float]]:
    alignment = align(batch)
    # Aligned once and cut for each depth: to align costs more than most measures do.
    by_depth: dict[int | None, Alignment] = {None: alignment}
    for name, metric in kinds.items():
        if metric.depth not in by_depth:
            by_depth[metric.depth] = alignment.cut(metric.depth or alignment.k)
        found: Floats | float = np.nan
        try:
            found = (
                found if failed and name in failed else _measure_one(metric, by_depth[metric.depth])
            )
        except MetricError as error:
            why = f"{name} not measured: {error}"
            if failed is None:
                raise MetricError(why) from None
            failed[name] = why
        yield name, found


def _measure_one(metric: Metric, alignment: Alignment) -> Floats:
    """Scores of the pairs.

    MetricError where a plugin's metric gives none, or not one number a pair, in its range or NaN.
    """
    if metric.guard is None:
        return metric.measure(alignment)
    own = copy.deepcopy(alignment)  # what a plugin writes there reaches no other metric
    scores = metric.guard.call(lambda: np.array(metric.measure(own), dtype=np.float64), MEASURING_S)
    is_odd, expected = (
        np.isinf(scores) | (scores < metric.low) | (scores > metric.high),
        alignment.baseline_lengths.shape,
    )
    if scores.shape != expected or is_odd.any():
        odd = f"{scores[is_odd][0]:g}" if is_odd.any() else f"an array of shape {scores.shape}"
        raise MetricError(
            f"gave {odd}, expected {expected[0]} numbers from {metric.low:g} to {metric.high:g}"
        )
    return scores


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
