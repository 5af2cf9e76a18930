"""Removes the values that only pad lists."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Flags
from monitor.model.rankings import RankingTable
from monitor.reading.ids import is_text, user_key

NoItems: TypeAlias = Collection[int | str | None] | None
"""Values that are no items. The value None stands for null."""


def drop_padding(
    items: Sequence[object],
    scores: object,
    no_item: Collection[object],
) -> tuple[list[object], object]:
    """The items and scores without the values in ``no_item``.

    The scores are changed only if there is exactly one score for each item.
    """
    keys = set(map(_key, no_item))
    is_item = [_key(item) not in keys for item in items]
    if isinstance(scores, list | tuple) and len(scores) == len(items):
        scores = list(compress(scores, is_item))
    return list(compress(items, is_item)), scores


def _key(item: object) -> str | None:
    if item is None:
        return None
    return user_key(item) or str(item)


def is_padding(values: pa.Array, no_item: NoItems) -> Flags:
    """Marks the null and empty values of a column that ``no_item`` names as padding.

    Other padding can be read as ids. `without_items` removes it later.
    """
    is_filler = np.zeros(len(values), dtype=np.bool_)
    if not no_item:
        return is_filler
    if None in no_item:
        is_filler |= values.is_null().to_numpy(zero_copy_only=False)
    if "" in no_item and is_text(values.type):
        is_empty = pc.equal(values.cast(pa.large_string()), "").fill_null(False)  # noqa: FBT003
        is_filler |= is_empty.to_numpy(zero_copy_only=False)
    return is_filler


def without_items(table: RankingTable, no_item: NoItems) -> RankingTable:
    """The lists without these items and without their scores. The item -1 equals the text "-1"."""
    if not no_item:
        return table
    texts = list(map(str, no_item))
    if isinstance(table.items, np.ndarray):
        numbers = [int(text) for text in texts if re.fullmatch("-?[0-9]{1,18}", text)]
        is_item = ~np.isin(table.items, numbers)
    else:
        is_item = ~np.asarray(pd.Series(table.items, copy=False).astype("str").isin(texts))
    rows = np.repeat(np.arange(len(table)), np.diff(table.offsets))
    lengths = np.bincount(rows[is_item], minlength=len(table))
    scores = None if table.scores is None else table.scores[is_item]
    return replace(table, offsets=offsets_of(lengths), items=table.items[is_item], scores=scores)
