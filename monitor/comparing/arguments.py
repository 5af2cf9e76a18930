"""What the metrics, k and catalogue of a call mean."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import numpy as np

from monitor.errors import InputError, MetricError
from monitor.metrics import Metric, Need, parse

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")


def read_metrics(metrics: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """The metrics meant by one or several names; MetricError for an unknown one, InputError for none at all."""
    try:
        given = (metrics,) if isinstance(metrics, str | Metric) else tuple(metrics)
    except TypeError:
        msg = f"metrics must be a name or several, such as rbo(p=0.9), not {metrics!r}"
        raise InputError(msg) from None
    if not given:
        msg = "metrics is empty: name at least one, such as rbo(p=0.9)"
        raise InputError(msg)
    return tuple(metric if isinstance(metric, Metric) else parse(metric) for metric in given)


def require_needs(metrics: Sequence[Metric], given: Collection[Need]) -> None:
    """MetricError for a metric that needs what was not given, saying how to give it."""
    for metric in metrics:
        if metric.need is not None and metric.need not in given:
            msg = f"{metric} needs {metric.need}: {_HOW[metric.need]}"
            raise MetricError(msg)


_HOW = {
    Need.SCORES: "give scores=; in compare_many the name of the column with each item's score, score= or scores=",
    Need.ITEM_WEIGHTS: "give item_weights=, such as a dict of item -> weight",
    Need.RELEVANCE: "give relevance=, such as a dict of user -> {item: grade}; in compare just {item: grade}",
}


def read_k(k: int | None) -> int | None:
    """How many items to look at, None for all; InputError for what is no whole number of at least 1."""
    return None if k is None else min(_read_count(k, "k", "use None for whole lists"), sys.maxsize)


def read_catalogue(catalogue: int | None, listed: int) -> int:
    """How many items could be listed: as given, else as many as are; InputError when it is fewer."""
    if catalogue is None:
        return listed
    size = _read_count(catalogue, "catalogue", "give the number of items that could be listed, or None")
    if size < listed:
        msg = f"catalogue is {size}, but {listed} different items are listed: give how many could be, or None"
        raise InputError(msg)
    return size


def _read_count(value: object, name: str, otherwise: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        msg = f"{name} must be a whole number or None, not {value!r}"
        raise InputError(msg)
    if value < 1:
        msg = f"{name} must be at least 1, not {value}: {otherwise}"
        raise InputError(msg)
    return int(value)
