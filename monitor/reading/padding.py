"""Lists without the values that only fill them up."""

import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pandas as pd

from monitor.kernels.ragged import offsets_of
from monitor.model.rankings import RankingTable


def without_items(table: RankingTable, no_item: Collection[int | str]) -> RankingTable:
    """The lists without these items, and without their scores. Equal ids are equal: -1 is "-1"."""
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
