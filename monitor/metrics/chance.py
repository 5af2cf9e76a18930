"""What chance alone would give: the score to expect of two lists that have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from monitor.errors import MetricError
from monitor.kernels.chance import common_by_chance
from monitor.metrics.metric import Metric
from monitor.metrics.scores import score_all
from monitor.model import PairBatch
from monitor.model.arrays import Floats

_CELLS = 1_000_000
_MOST_PAIRS = 50_000
_LEAST_PAIRS = 4
_RAREST = 1e-6
_SEED = 20100401
_LARGEST = 2**53


def expect_by_chance(metric: Metric, k: int, catalogue: int) -> float | None:
    """Mean score of two lists of k items, each drawn at random, in random order, from ``catalogue`` items.

    Exact where the metric knows its formula. Otherwise simulated, by pairs that are always the same ones: a million ranks in
    all, 50,000 pairs of ten items, 1,000 pairs of a thousand, well under a second, however large ``catalogue`` is. How many
    items the pairs have in common follows its chances, which are known exactly, so that only the order of the common items is
    left to luck: the standard error is about 0.001 of the metric's range, mostly less, and next to nothing where order plays
    no part. Pairs for which the metric is undefined are left out of the mean.

    None for a metric that needs more than the lists, or that is undefined for all pairs. MetricError unless
    both are whole numbers and 1 <= k <= catalogue. A metric of a ``depth`` sees no more of the lists than that.
    """
    for name, value in (("k", k), ("catalogue", catalogue)):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            msg = f"chance: {name} must be a whole number, not {value!r}"
            raise MetricError(msg)
    if not 1 <= k <= catalogue:
        msg = f"chance: k must lie between 1 and the size of the catalogue, {catalogue}, not {k}"
        raise MetricError(msg)
    if metric.need is not None:
        return None
    # Python's integers know no overflow, and beyond this size floats cannot distinguish catalogues.
    seen, size = int(min(k, metric.depth or k)), int(min(catalogue, _LARGEST))
    exact = metric.expected_by_chance(seen, size)
    return _simulated(metric, seen, size) if exact is None else exact


def _simulated(metric: Metric, k: int, catalogue: int) -> float | None:
    common, weights = _spread(common_by_chance(k, catalogue), max(_LEAST_PAIRS, min(_MOST_PAIRS, _CELLS // k)))
    scores = score_all(_draw(common, k), [metric])[str(metric)]
    defined = ~np.isnan(scores)
    return float(np.average(scores[defined], weights=weights[defined])) if defined.any() else None


def _spread(chances: Floats, pairs: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """How many items each of some ``pairs`` pairs shall have in common, and how much each pair weighs."""
    # Every number of common items that is not too rare has pairs of its own; where those would be too few, the pairs stand at
    # the quantiles.
    common = np.flatnonzero(chances >= _RAREST)
    if len(common) * _LEAST_PAIRS > pairs:
        return np.searchsorted(np.cumsum(chances), (np.arange(pairs) + 0.5) / pairs), np.ones(pairs)
    counts = np.maximum(np.ceil(chances[common] * pairs), _LEAST_PAIRS).astype(np.int64)
    return np.repeat(common, counts), np.repeat(chances[common] / counts, counts)


def _draw(common: npt.NDArray[np.intp], k: int) -> PairBatch:
    """Pairs of random lists of k items, so many of them in common."""
    rng = np.random.default_rng(_SEED)
    # Only where the common items stand matters, not what they are.
    places = np.broadcast_to(np.arange(k, dtype=np.int32), (len(common), k))
    drawn = rng.permuted(places, axis=1)
    drawn = np.where(places < common[:, None], drawn, places + np.int32(k))
    lengths = np.full(len(common), k, dtype=np.int32)
    return PairBatch(
        baseline=np.ascontiguousarray(places),
        candidate=rng.permuted(drawn, axis=1),
        baseline_lengths=lengths,
        candidate_lengths=lengths,
    )


# Longest lists that chance is worked out for: beyond them a simulation would take longer than the comparison.
LONGEST_LISTS = 1000
TYPICAL_SHARE = 0.9


def typical_length(lengths: npt.NDArray[np.int64]) -> int | None:
    """The one length that nine lists in ten have; None when there is none, or it is 0 or above `LONGEST`."""
    if not len(lengths):
        return None
    length = int(np.median(lengths))
    share = float((lengths == length).mean())
    return length if share >= TYPICAL_SHARE and 1 <= length <= LONGEST_LISTS else None


def chance_scores(metrics: Sequence[Metric], length: int | None, catalogue: int) -> dict[str, float | None]:
    """Expected score by canonical metric name; None where there is no typical length, or the metric has no such value."""
    if length is None or length > catalogue:
        return {str(metric): None for metric in metrics}
    return {str(metric): _expected(metric, length, catalogue) for metric in metrics}


# Each run asks for the same few values, and some of them are simulated.
_expected = lru_cache(maxsize=256)(expect_by_chance)
