"""Defines what a list is, what its items and scores are, and which lists are unreadable.

All inputs use this definition. A cell of an input may contain a list, null, or any other value. A
list that is written as JSON is first parsed by `parse_cell` or `parse_column`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.dialects import recognize_dialect
from monitor.measures.reading.ids import (
    describe_type,
    describe_value,
    id_column,
    is_list,
    is_text,
    join_columns,
    list_lengths,
    one_array,
    to_ids,
)
from monitor.measures.reading.numbers import is_numeric, number_column, numbers_of
from monitor.model.arrays import Array, Flags, Floats, Ids, Integers, Rows
from monitor.model.errors import SourceError
from monitor.model.immutable import immutable
from monitor.model.rankings import RankingTable

try:
    from pydantic_core import from_json as _read_json
except ImportError:  # Spark's executors do not have pydantic
    _read_json = json.loads  # type: ignore[assignment]  # calls pass only a text or bytes

_NUMBERS = r"^\[(0|[1-9][0-9]{0,17})(, ?(0|[1-9][0-9]{0,17}))*\]$"
NoItems: TypeAlias = Collection[int | str | None] | None
"""Values in a list that mean "no item", such as padding. None means null."""
Cells: TypeAlias = Any
"""An Arrow array of lists, or a sequence of Python's values."""


@immutable
class FlatLists:
    """The lists of n cells. The items of all lists follow each other in one array.

    A list is malformed if the cell is no list, if an item is no id, or if the scores do not fit the
    items. ``unreadable`` counts only the lists of the first two cases.
    """

    items: pa.Array  # null for a value that is no id
    lengths: Integers
    scores: Floats | None
    is_missing: Flags  # the cell is null
    is_malformed: Flags
    unreadable: int
    example: object  # the first value that is no id or no list
    note: str  # what is wrong with the first malformed list

    def only(self, is_left: Flags) -> FlatLists:
        """The marked lists."""
        if is_left.all():
            return self
        is_item_left = np.repeat(is_left, self.lengths)
        return replace(
            self,
            items=self.items.filter(pa.array(is_item_left)),
            lengths=self.lengths[is_left],
            scores=None if self.scores is None else self.scores[is_item_left],
            is_missing=self.is_missing[is_left],
            is_malformed=self.is_malformed[is_left],
        )

    def table(self, users: pd.Index) -> RankingTable:
        """A table with these users and their lists. No item may be null."""
        return RankingTable(
            users=users,
            offsets=offsets_of(self.lengths),
            items=to_ids(self.items),
            scores=self.scores,
        )

    @property
    def nbytes(self) -> int:
        """The size of the items and scores in memory, in bytes."""
        return int(self.items.nbytes) + (0 if self.scores is None else self.scores.nbytes)


def join_lists(parts: Sequence[FlatLists]) -> FlatLists:
    """Join lists that were read in parts. There must be at least one part."""
    parts = [part for part in parts if len(part.lengths)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    odd = [part for part in parts if part.unreadable] or parts[:1]
    scores = [part.scores for part in parts if part.scores is not None]
    return FlatLists(
        items=join_columns([part.items for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        scores=np.concatenate(scores) if scores else None,
        is_missing=np.concatenate([part.is_missing for part in parts]),
        is_malformed=np.concatenate([part.is_malformed for part in parts]),
        unreadable=sum(part.unreadable for part in parts),
        example=odd[0].example,
        note=next((part.note for part in parts if part.is_malformed.any()), ""),
    )


def read_lists(  # noqa: PLR0913 - two columns and what is read of them
    cells: Cells,
    column: str,
    where: str,
    *,
    scores: Cells,
    scores_column: str = "",
    k: int | None = None,
    no_item: NoItems = None,
) -> FlatLists:
    """Read the first k items of each cell, without the values of ``no_item``.

    ``scores`` has one number for each item. Raises SourceError if no value of the items' type can
    be an id, or if the type of the scores is not a number.
    """
    values, lengths, is_missing, is_odd = flatten_cells(cells)
    numbers = None
    is_malformed = is_odd.copy()
    if scores is not None:
        numbers, is_misfit = numbers_of_lists(scores, lengths, scores_column, where)
        is_malformed |= is_misfit
    items = id_column(values, column, where)
    is_item = ~is_padding(values, items, no_item) if no_item else None
    positions, lengths = _select_items(lengths, is_item, k)
    if positions is not None:
        items = items.take(pa.array(positions))
        numbers = None if numbers is None else numbers[positions]
    note = "expected a list of scores with one number for each item"
    example = None
    if items.null_count:
        odd_items = np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False))
        is_odd[np.repeat(np.arange(len(lengths)), lengths)[odd_items]] = True
        first_odd = odd_items[0] if positions is None else positions[odd_items[0]]
        example = values[int(first_odd)]
        example = example.as_py() if isinstance(example, pa.Scalar) else example
        note = f"expected a list of ids, found a list with {describe_value(example)} in it"
    if is_malformed.any() and not isinstance(cells, pa.Array):
        no_lists = np.flatnonzero(is_odd & (lengths == 0))
        if len(no_lists):
            example = cells[no_lists[0]]
            note = _describe(example)
    return FlatLists(
        items=items,
        lengths=lengths,
        scores=numbers,
        is_missing=is_missing,
        is_malformed=is_malformed | is_odd,
        unreadable=int(is_odd.sum()),
        example=example,
        note=note,
    )


def _select_items(
    lengths: Integers, is_item: Flags | None, k: int | None
) -> tuple[Rows | None, Integers]:
    """Select the first k items of each list, without the values that are no items.

    Returns the positions of these items, or None if all are selected, and the new lengths.
    """
    positions = None
    if is_item is not None:
        positions = np.flatnonzero(is_item)
        lengths = _count_selected(lengths, is_item)
    if k is not None and lengths.max(initial=0) > k:
        # The place of each item in its list, from 0.
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = np.flatnonzero(places < k)
        positions = first if positions is None else positions[first]
        lengths = np.minimum(lengths, k)
    return positions, lengths


def _count_selected(lengths: Integers, is_selected: Flags) -> Integers:
    """Count the selected values of each list."""
    owners = np.repeat(np.arange(len(lengths)), lengths)[is_selected]
    return np.bincount(owners, minlength=len(lengths)).astype(np.int64)


def flatten_cells(cells: Cells) -> tuple[Any, Integers, Flags, Flags]:
    """The values of all lists, the lengths of the lists, and two flags for each cell.

    The first flag is set if the cell is null, the second if it is any other value that is no list.
    In both cases the length is 0.
    """
    if isinstance(cells, pa.Array):
        if arrow_types.is_fixed_size_list(cells.type):
            cells = cells.cast(pa.list_(cells.type.value_type))
        is_null = cells.is_null().to_numpy(zero_copy_only=False)
        no_odd = np.zeros(len(cells), dtype=bool)
        return cells.flatten(), list_lengths(cells), is_null, no_odd
    values: list[object] = []
    lengths = np.zeros(len(cells), dtype=np.int64)
    is_missing = np.zeros(len(cells), dtype=bool)
    is_odd = np.zeros(len(cells), dtype=bool)
    for row, cell in enumerate(cells):
        if isinstance(cell, list | tuple):
            values += cell
            lengths[row] = len(cell)
        elif cell is None:
            is_missing[row] = True
        else:
            is_odd[row] = True
    return values, lengths, is_missing, is_odd


def numbers_of_lists(
    cells: Cells, lengths: Integers, column: str, where: str
) -> tuple[Floats, Flags]:
    """The numbers of all lists in one array, and a flag for each list that is wrong.

    ``lengths`` are the lengths that the lists must have. A list is wrong if it has another length,
    or a value that is no number. If a list has another length, its numbers become NaN. Raises
    SourceError if an Arrow array does not contain lists of numbers.
    """
    if isinstance(cells, pa.Array) and not (
        is_list(cells.type) and is_numeric(cells.type.value_type)
    ):
        raise SourceError(
            f"column {column!r} of {where} holds {describe_type(cells.type)}: it must hold lists "
            "of numbers"
        )
    values, counts, _, _ = flatten_cells(cells)
    if isinstance(cells, pa.Array):
        flat, is_bad = number_column(values, column, where)
    else:
        flat, is_bad = numbers_of(values)
    is_misfit = counts != lengths
    numbers = flat
    if is_misfit.any():
        fits = ~is_misfit
        numbers = np.full(int(lengths.sum()), np.nan)
        numbers[np.repeat(fits, lengths)] = flat[np.repeat(fits, counts)]
    if is_bad.any():
        is_misfit[np.repeat(np.arange(len(counts)), counts)[is_bad]] = True
    return numbers, is_misfit


def is_padding(values: pa.Array | Sequence[object], ids: pa.Array, no_item: NoItems) -> Flags:
    """Whether each value is one of ``no_item``. ``ids`` are the ids of the values."""
    texts = [str(value) for value in no_item or () if value is not None]
    is_filler: Flags = pc.is_in(ids, value_set=_named(ids, texts)).to_numpy(zero_copy_only=False)
    if not isinstance(values, pa.Array):
        named = set(no_item or ()) & {None, ""}
        for row, value in enumerate(values):
            # Other values may be of a type that no set can contain.
            if (value is None or value == "") and value in named:
                is_filler[row] = True
        return is_filler
    if None in (no_item or ()):
        is_filler |= values.is_null().to_numpy(zero_copy_only=False)
    if "" in texts and is_text(values.type):
        is_empty = pc.equal(values.cast(pa.large_string()), "").fill_null(False)  # noqa: FBT003
        is_filler |= is_empty.to_numpy(zero_copy_only=False)
    return is_filler


def _named(ids: pa.Array, texts: Sequence[str]) -> pa.Array:
    if not arrow_types.is_integer(ids.type):
        return pa.array(texts, pa.large_string())
    numbers = [int(text) for text in texts if re.fullmatch("-?[0-9]{1,18}", text)]
    return pa.array(numbers, pa.int64()).cast(ids.type, safe=False)


def without_items(table: RankingTable, no_item: NoItems) -> RankingTable:
    """Remove these items and their scores from the lists. The item -1 equals the text "-1"."""
    if not no_item:
        return table
    ids = one_array(pa.array(table.items))
    is_item = ~is_padding(ids, id_column(ids, "items", ""), no_item)
    lengths = _count_selected(np.diff(table.offsets), is_item)
    scores = None if table.scores is None else table.scores[is_item]
    return replace(table, offsets=offsets_of(lengths), items=table.items[is_item], scores=scores)


def order_rows(owners: Integers, ranks: Array, items: pa.Array | Ids | None = None) -> Rows | None:
    """Sort the rows of a long table by owner and rank. None if they are already sorted.

    The result is the sorted row numbers. If ``items`` is given, rows with equal owner and rank are
    sorted by the item as text.
    """
    is_same_owner = owners[1:] == owners[:-1]
    is_after = (owners[1:] > owners[:-1]) | (is_same_owner & (ranks[1:] > ranks[:-1]))
    if bool(is_after.all()):
        return None
    order = np.lexsort((ranks, owners))
    if items is None or not _has_ties(owners[order], ranks[order]):
        return order
    by_text = pc.sort_indices(pa.array(items).cast(pa.large_string())).to_numpy()
    ordered: Rows = by_text[np.lexsort((ranks[by_text], owners[by_text]))]
    return ordered


def _has_ties(owners: Integers, ranks: Array) -> bool:
    return bool(((owners[1:] == owners[:-1]) & (ranks[1:] == ranks[:-1])).any())


def parse_json(text: str | bytes) -> object:
    """The value of a JSON text. Raises ValueError if the text is not JSON."""
    try:
        return _read_json(text)
    except (TypeError, ValueError):
        # Python's reader is slower, but it accepts byte order marks and lone surrogates.
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError from None


def parse_cell(cell: object) -> object:
    """The value that a JSON text or bytes represent. Any other cell is returned unchanged."""
    if not isinstance(cell, str | bytes):
        return cell
    try:
        return parse_json(cell)
    except ValueError:
        return cell


def parse_numbers(cells: pa.Array | Sequence[object]) -> pa.Array | None:
    """The lists in a column of texts, each of which is a JSON list of numbers like 0 or 42.

    Null stays null. The result is None if any other cell is not such a text. Arrow needs a fifth of
    the time that Python needs to parse a list.
    """
    with suppress(pa.ArrowException, UnicodeError):  # another type, or a lone surrogate
        texts = pa.array(cells, pa.large_string())
        # The first cell is tested first, because most columns with other lists have no such text.
        for part in (texts[:1], texts):
            if not pc.all(pc.match_substring_regex(part, _NUMBERS), min_count=0).as_py():
                return None
        digits = pc.replace_substring(pc.utf8_trim(texts, "[]"), " ", "")
        numbers = pc.split_pattern(digits, ",")
        for kind in (pa.int32(), pa.int64()):
            with suppress(pa.ArrowInvalid):  # a number needs more bits
                return numbers.cast(pa.large_list(kind))
    return None


def parse_column(cells: Sequence[str | None]) -> list[Any]:
    """The values that a column of JSON texts represents."""
    try:
        values = _read_json(f"[{','.join(cell or 'null' for cell in cells)}]")
    except (TypeError, ValueError):
        return list(map(parse_cell, cells))
    return list(values)


def _describe(cell: object) -> str:
    # The text does not contain the cell itself, because it may contain anything.
    if isinstance(cell, str | bytes):
        if isinstance(parse_cell(cell), list):
            return "expected a list of ids, found a JSON array in a text: write the array itself"
        dialect = recognize_dialect(cell)
        problem = "the text is not a JSON array of ids"
        return problem if dialect is None else f"{problem}, but {dialect.name}: {dialect.advice}"
    plain_names = {int: "a number", float: "a number"}
    kind = plain_names.get(type(cell)) or describe_value(cell)
    return f"expected a list of ids, found {kind}"
