"""Weights of items out of arrow columns: each item once, above zero. Whatever is wrong is told with the item."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.model import LEAST_WEIGHT, MOST_WEIGHT, ItemWeights
from monitor.sources.columns import id_column, join_items, on_one_line
from monitor.sources.numbers import number_column


def item_weights(batches: Iterable[tuple[pa.Array, pa.Array]], where: str) -> ItemWeights:
    """Build the table from batches of an item and a weight column.

    SourceError when there is no item, or for the first row without an item, with a weight that is not above zero and finite,
    or with an item that stands there already; 42 and "42" are one item.
    """
    items, weights, read = [], [], 0
    for column, numbers in batches:
        ids = id_column(column, f"the item column of {where}")
        values, _ = number_column(numbers, f"the weight column of {where}")
        _check_rows(ids, values, read, where)
        read += len(ids)
        items.append(ids)
        weights.append(values)
    if not read:
        msg = f"{where} holds no item: check the path or table, and that the job which writes it has run"
        raise SourceError(msg, permanent=False)
    _check_once(items, where)
    return ItemWeights(items=join_items(items), weights=np.concatenate(weights))


def _check_rows(ids: pa.Array, weights: np.ndarray, read: int, where: str) -> None:
    if ids.null_count:
        row = read + pc.index(ids.is_null(), True).as_py() + 1
        msg = f"row {row} of {where} has no item id: ids must be integers or text"
        raise SourceError(msg)
    odd = np.flatnonzero(~((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT)))
    if len(odd):
        told = f"item {_named(ids, odd[0])} of {where} has no weight from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        msg = f"{told}: give it one, or leave the item out"
        raise SourceError(msg)


def _check_once(items: list[pa.Array], where: str) -> None:
    texts = pa.chunked_array([ids.cast(pa.large_string()) for ids in items]).combine_chunks().dictionary_encode()
    if len(texts.dictionary) == len(texts):
        return
    again = int(np.flatnonzero(np.bincount(texts.indices.to_numpy()) > 1)[0])
    msg = f"item {_named(texts.dictionary, again)} of {where} has more than one weight: give each item once"
    raise SourceError(msg)


def _named(ids: pa.Array, row: int) -> str:
    return repr(on_one_line(str(ids[int(row)].as_py())))
