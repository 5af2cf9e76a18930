"""Comparing one pair of lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.arguments import DEFAULT_METRICS, read_k, read_metrics
from monitor.comparing.ids import encode
from monitor.comparing.lists import Lists, read_rows
from monitor.kernels import pad
from monitor.metrics import Metric, score_all
from monitor.model import PairBatch

Ranking = Sequence[Hashable] | npt.NDArray[Any] | pd.Series | pd.Index


def compare(
    a: Ranking,
    b: Ranking,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
) -> dict[str, float]:
    """How alike two best-first lists of item ids are: one number by canonical metric name, NaN where undefined.

    Lists are cut to ``k`` (None: not at all), then later duplicates are dropped. Ids are equal as Python says: "1" and 1 are
    two items; 1, 1.0 and True are one. ``a`` is the baseline, though every metric so far is symmetric.

    InputError for a string or another scalar in place of a list, a set, a missing (None, NaN) or unhashable id, or k under 1;
    MetricError for an unknown metric.

    >>> compare(["a", "b", "c"], ["a", "c", "b"], metrics="overlap")
    {'overlap': 1.0}
    """
    wanted, depth = read_metrics(metrics), read_k(k)
    first, second = read_rows([a], "the first list"), read_rows([b], "the second list")
    scores = score_all(_batch(first, second, depth), wanted)
    return {name: float(values[0]) for name, values in scores.items()}


def _batch(first: Lists, second: Lists, k: int | None) -> PairBatch:
    codes = encode(first.items, second.items)
    width = k or max(1, len(codes[0]), len(codes[1]))
    width = min(width, max(1, len(codes[0]), len(codes[1])))
    padded = [pad(flat, np.array([0, len(flat)]), width) for flat in codes]
    (baseline, baseline_lengths, _), (candidate, candidate_lengths, _) = padded
    return PairBatch(
        baseline=baseline,
        candidate=candidate,
        baseline_lengths=baseline_lengths,
        candidate_lengths=candidate_lengths,
    )
