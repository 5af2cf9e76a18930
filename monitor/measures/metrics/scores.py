"""Scores many pairs by many metrics.

Each block of pairs is aligned once for all metrics. Several threads score the blocks.
"""

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from monitor.measures.kernels import Alignment, align
from monitor.measures.kernels.alignment import row_blocks
from monitor.measures.metrics.metric import Metric, Need
from monitor.model.arrays import Floats
from monitor.model.errors import MetricError
from monitor.model.rankings import PairBatch

MEASURING_S = 60.0
"""The longest time that a plugin's metric may take for one block.

A block has about 26,000 pairs if lists have ten items.
"""


def score_all(
    batch: PairBatch,
    metrics: Sequence[Metric],
    *,
    threads: int | None = None,
    failed: dict[str, str] | None = None,
) -> dict[str, Floats]:
    """The scores of all pairs, by canonical metric name in the order of ``metrics``.

    The scores of a metric are float64 (n,). A score is NaN if it is undefined. The score of a pair
    depends neither on the other pairs nor on ``threads``. If ``threads`` is None, each processor
    gets a thread. The function needs memory for the scores, and for one block for each thread.

    Raises MetricError if the batch lacks the data that a metric needs. It also raises MetricError
    if a plugin's metric fails and ``failed`` is None. If ``failed`` is a dict, a failed metric gets
    the score NaN, and its name and the reason are added to the dict. A metric that is already in
    the dict is not computed. Its scores are NaN too.
    """
    for metric in metrics:
        if not can_score(metric, batch):
            raise MetricError(
                f"{metric} needs {metric.need}, but the batch has no {metric.need}: add them"
            )
    by_name = {str(metric): metric for metric in metrics}
    scores = {name: np.empty(len(batch), dtype=np.float64) for name in by_name}

    # Blocks may be scored in any order, because the score of a pair does not depend on other pairs.
    def score(rows: slice) -> None:
        for name, values in _measure(batch.take(rows), by_name, failed):
            scores[name][rows] = values

    if threads is None:
        # A process in a container may have fewer processors than the machine.
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
    metrics: dict[str, Metric],
    failed: dict[str, str] | None,
) -> Iterator[tuple[str, Floats | float]]:
    """Yield the name and the scores of each metric. A metric that failed has the score NaN."""
    alignment = align(batch)
    # The lists are aligned once and then cut to each depth, because aligning takes more time than
    # most metrics.
    by_depth: dict[int | None, Alignment] = {None: alignment}
    for name, metric in metrics.items():
        if failed and name in failed:
            yield name, np.nan
            continue
        if metric.depth not in by_depth:
            by_depth[metric.depth] = alignment.cut(metric.depth or alignment.k)
        try:
            yield name, _measure_one(metric, by_depth[metric.depth])
        except MetricError as error:
            failure = f"{name} was not measured: {error}"
            if failed is None:
                raise MetricError(failure) from None
            failed[name] = failure
            yield name, np.nan


def _measure_one(metric: Metric, alignment: Alignment) -> Floats:
    """The scores of the pairs.

    Raises MetricError if a plugin's metric fails. It also raises MetricError if the metric does not
    return one number for each pair. A number must be in the range of the metric, or NaN.
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
        f"the metric returned {problem}: it must return {shape[0]} numbers from {metric.low:g} to "
        f"{metric.high:g}"
    )


def _share_out(score: Callable[[slice], None], rows: Sequence[slice], threads: int) -> None:
    if min(threads, len(rows)) <= 1:
        for block in rows:
            score(block)
        return
    # Threads are enough, because numpy and machine code release the lock during long operations.
    with ThreadPoolExecutor(min(threads, len(rows)), thread_name_prefix="score") as pool:
        try:
            list(pool.map(score, rows))
        finally:  # also if an interrupt ends the waiting
            pool.shutdown(cancel_futures=True)
