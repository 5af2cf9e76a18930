"""What chance alone would give: the score to expect of two lists that have nothing to do with each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.errors import MetricError
from monitor.metrics.metric import Metric
from monitor.metrics.scoring import score_all
from monitor.model import PairBatch

_CELLS = 2_000_000
_MOST_PAIRS = 100_000
_SEED = 20100401


def expected_by_chance(metric: Metric, k: int, catalogue: int) -> float | None:
    """Mean score of two lists of k items, each drawn at random, in random order, from ``catalogue`` items.

    Exact where the metric knows its formula, otherwise the mean over up to 100,000 simulated pairs, always the same ones.
    None for a metric that needs more than the lists, or where it is undefined. MetricError unless 1 <= k <= catalogue.
    """
    if not 1 <= k <= catalogue:
        msg = f"chance: k must lie between 1 and the size of the catalogue, {catalogue}, not {k}"
        raise MetricError(msg)
    if metric.need is not None:
        return None
    exact = metric.expected_by_chance(min(k, metric.depth or k), catalogue)
    return _simulated(metric, k, catalogue) if exact is None else exact


def _simulated(metric: Metric, k: int, catalogue: int) -> float | None:
    n = max(1000, min(_MOST_PAIRS, _CELLS // k))
    rng = np.random.default_rng(_SEED)
    lengths = np.full(n, k, dtype=np.int32)
    batch = PairBatch(
        baseline=np.tile(np.arange(k, dtype=np.int32), (n, 1)),
        candidate=_draw(rng, n, k, catalogue),
        baseline_lengths=lengths,
        candidate_lengths=lengths,
    )
    scores = score_all(batch, [metric])[str(metric)]
    return float(np.nanmean(scores)) if (~np.isnan(scores)).any() else None


def _draw(rng: np.random.Generator, n: int, k: int, catalogue: int) -> npt.NDArray[np.int32]:
    """``n`` ordered samples of k distinct items without replacement: Fisher and Yates, a rank at a time over all rows."""
    drawn = np.empty((n, k), dtype=np.int32)
    for rank in range(k):
        drawn[:, rank] = rng.integers(0, catalogue - rank, n)
    # Undo the removals: a number drawn at some rank counts only the items left over by the ranks before it.
    for rank in range(k - 2, -1, -1):
        later = drawn[:, rank + 1 :]
        later += later >= drawn[:, [rank]]
    return drawn
