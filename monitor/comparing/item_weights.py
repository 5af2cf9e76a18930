"""Weights of items, from whichever shape they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.ids import Codes, Ids, Vocabulary, count_distinct, from_array, from_objects
from monitor.comparing.lists import Floats, shown
from monitor.comparing.rows import as_scores
from monitor.comparing.tables import ArrowTable, is_table, read_table
from monitor.errors import InputError
from monitor.model import LEAST_WEIGHT, MOST_WEIGHT

WHAT = "item_weights"
_SHOWN = 5

Weights = Mapping[Any, float] | pd.Series | pd.DataFrame | ArrowTable
"""Item -> weight, a Series with items for its index, or a frame or Arrow table of two columns: items and weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedItems:
    """Items, each once, and their weights."""

    items: Ids
    weights: Floats


def read_item_weights(data: Weights) -> WeightedItems:
    """Weights from any of the shapes; InputError for anything else, or for an item that has two."""
    if isinstance(data, Mapping):
        items, weights = from_objects(list(data), WHAT), pd.Series(list(data.values()), dtype=object)
    elif isinstance(data, pd.Series):
        items, weights = from_array(data.index.to_series(), WHAT), data
    else:
        items, weights = _read_frame(data)
    index = pd.Index(items)
    if index.has_duplicates:
        msg = f"{WHAT}: item {index[index.duplicated()].tolist()[0]!r} stands twice: give each item one weight"
        raise InputError(msg)
    return WeightedItems(items=items, weights=as_scores(weights, WHAT))


def _read_frame(data: object) -> tuple[Ids, pd.Series]:
    frame = read_table(data, WHAT) if not isinstance(data, pd.DataFrame) and is_table(data) else data
    if not isinstance(frame, pd.DataFrame):
        msg = f"{WHAT} is of type {type(data).__name__}: expected a dict of item -> weight, a Series or a frame of two columns"
        raise InputError(msg)
    if {"item", "weight"} <= set(frame.columns):
        frame = frame[["item", "weight"]]
    if len(frame.columns) != 2:  # noqa: PLR2004 - items and weights
        msg = f"{WHAT} has columns {shown(frame.columns)}: expected item and weight, or just two columns, items and weights"
        raise InputError(msg)
    return from_array(frame.iloc[:, 0], WHAT), frame.iloc[:, 1]


def require_weights(listed: Sequence[Codes], weighted: npt.NDArray[Any], weights: Floats, vocabulary: Vocabulary) -> None:
    """InputError unless every listed item has a weight that may be; it says how many have not, and which.

    ``listed``: both arms' codes; ``weighted``: those of the items that have weights.
    """
    good = (weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT)
    missing = pd.unique(np.concatenate([codes[~np.isin(codes, weighted[good])] for codes in listed]))
    if not len(missing):
        return
    bad = {int(code): f"{weight:g}" for code, weight in zip(weighted[~good], weights[~good], strict=True)}
    some = zip(vocabulary.take(missing[:_SHOWN]), missing[:_SHOWN].tolist(), strict=True)
    told = ", ".join(f"{item!r} ({bad.get(code, 'no weight')})" for item, code in some)
    msg = (
        f"{WHAT}: {len(missing)} of {count_distinct(*listed)} listed items have no weight from {LEAST_WEIGHT:g} to "
        f"{MOST_WEIGHT:g}, such as {told}: give every listed item one, or leave such items out of the lists"
    )
    raise InputError(msg)
