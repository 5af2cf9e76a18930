"""What the metrics and k of a call mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.errors import InputError
from monitor.metrics import Metric, parse

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")


def read_metrics(metrics: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """The metrics meant by one or several names; MetricError for an unknown one, InputError for none at all."""
    given = (metrics,) if isinstance(metrics, str | Metric) else tuple(metrics)
    if not given:
        msg = "metrics is empty: name at least one, such as rbo(p=0.9)"
        raise InputError(msg)
    return tuple(metric if isinstance(metric, Metric) else parse(metric) for metric in given)


def read_k(k: int | None) -> int | None:
    """How many items to look at, None for all; InputError for what is no whole number of at least 1."""
    if k is None:
        return None
    if isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer):
        msg = f"k must be a whole number or None, not {k!r}"
        raise InputError(msg)
    if k < 1:
        msg = f"k must be at least 1, not {k}: use None for whole lists"
        raise InputError(msg)
    return int(k)
