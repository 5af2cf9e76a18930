"""Tables of users, item weights and item titles from Arrow columns; errors name the user or the item."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError
from monitor.model import LEAST_WEIGHT, MOST_WEIGHT, ItemWeights, UserTable
from monitor.model.arrays import Integers, Rows
from monitor.sampling import split
from monitor.sources.id_columns import id_column, is_list, join_items, on_one_line, one_array, user_column
from monitor.sources.number_columns import number_column


def user_table(batches: Sequence[tuple[pa.Array, Mapping[str, pa.Array]]], where: str) -> UserTable:
    """Build the table from batches of a user column and segment columns.

    Rows without a user are left out; of a user listed twice the first row counts. SourceError when nobody is left.
    """
    users = pd.Index(_str_array([user_column(column, f"the user column of {where}") for column, _ in batches]))
    kept = users.notna() & ~users.duplicated()
    if not kept.any():
        msg = f"{where} holds no user: check the path or table and the name of the user column"
        raise SourceError(msg)
    rows = slice(None) if kept.all() else kept  # a slice does not copy
    segments = {}
    for name in batches[0][1]:
        labels = _str_array([segment_labels(columns[name], name, where) for _, columns in batches])
        segments[name] = pd.Categorical(labels[rows])
    return UserTable(users=users[rows], segments=segments)


def _str_array(parts: Sequence[pa.Array]) -> ExtensionArray:
    texts: ExtensionArray = pd.array(one_array(pa.chunked_array(parts, pa.large_string())), dtype="str")
    return texts


def segment_labels(values: pa.Array, name: str, where: str) -> pa.Array:
    """Segment values as text; null and empty text are no value."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return segment_labels(values.dictionary_decode(), name, where)
    if is_list(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        msg = f"segment column {name!r} of {where} holds {kind}: it must hold text, numbers or booleans"
        raise SourceError(msg)
    if pa.types.is_floating(kind) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        return id_column(values, name).cast(pa.large_string())
    return id_column(values.cast(pa.large_string()), name)


class SegmentValues:
    """The values of one segment dimension that are segments of their own, and what else there is.

    ``ranked``: the labels of its values, the most frequent first, at least ``most`` + 1 of them where there are as many.
    """

    def __init__(self, ranked: Sequence[str], most: int, name: str, where: str, *, has_unknown: bool) -> None:
        self.kept = tuple(ranked[:most])
        self.dimension, self._where = name, where
        codes = [*range(min(len(ranked), most + 1)), *([-1] if has_unknown else [])]
        named = split(len(codes), {name: self._categorical(np.array(codes))}, {name: range(len(self.kept))})
        self.names = tuple(named)[1:]

    def code(self, values: pa.Array) -> pd.Categorical[str]:
        """The values of some users."""
        labels = segment_labels(values, self.dimension, self._where)
        places = pc.index_in(labels, value_set=pa.array(self.kept, pa.large_string())).fill_null(len(self.kept))
        codes = np.where(labels.is_null().to_numpy(zero_copy_only=False), -1, places.to_numpy(zero_copy_only=False))
        return self._categorical(codes)

    def _categorical(self, codes: Integers) -> pd.Categorical[str]:
        # The last category stands for every value that is no segment of its own.
        return pd.Categorical.from_codes(codes, categories=pd.Index([*self.kept, "\0"]))


def split_by_values(n: int, columns: Mapping[str, pa.Array], values: Mapping[str, SegmentValues]) -> dict[str, Rows]:
    """Positions by segment of n users, from columns of segment values and what these may be."""
    coded = {each.dimension: each.code(columns[column]) for column, each in values.items()}
    return split(n, coded, {each.dimension: range(len(each.kept)) for each in values.values()})


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
        problem = f"item {_named(ids, odd[0])} of {where} has no weight from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        msg = f"{problem}: give it one, or leave the item out"
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


MAX_TITLE_LENGTH = 200  # characters of a title that are kept

TitleColumn: TypeAlias = pa.Array | Sequence[object]


def item_titles(batches: Iterable[tuple[pa.Array, TitleColumn]], items: Collection[str], where: str) -> dict[str, str]:
    """Titles of those of the items that have one, from batches of an item and a title column; the first of an item counts.

    Rows without an item or a title are passed over; 42 and "42" are one item. SourceError when a title is neither text nor a
    number.
    """
    wanted, found = pa.array(sorted(items), pa.large_string()), dict[str, str]()
    for column, titles in batches:
        ids = id_column(column, f"the item column of {where}").cast(pa.large_string())
        for place in pc.indices_nonzero(pc.is_in(ids, value_set=wanted)).to_pylist():
            title = _text(titles[place], where)
            if title is not None:
                found.setdefault(ids[place].as_py(), title)
    return found


def _text(given: object, where: str) -> str | None:
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    if value is None or value == "":
        return None
    if not isinstance(value, str | int | float):
        msg = f"the title column of {where} holds {type(value).__name__}: titles must be text"
        raise SourceError(msg)
    return str(value)[:MAX_TITLE_LENGTH]
