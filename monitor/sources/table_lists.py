"""Makes lists from the rows of a table.

A table has one of two forms: a list in each row (wide), or an item in each row (long). This module
also runs on Spark's executors. So it needs only numpy, pandas and pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.foreign_errors import file_cause
from monitor.immutable import immutable
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Integers, Rows
from monitor.model.id_forms import Forms, speller
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, Pull, RankingTable
from monitor.model.unreadable import Need
from monitor.reading.ids import describe_type, id_array, is_list, is_text
from monitor.reading.padding import NoItems, is_padding, without_items
from monitor.reading.tally import Tally
from monitor.sources import columns
from monitor.sources.list_collector import ListCollector, pull_without, spell_items

if TYPE_CHECKING:
    from monitor.sources.table_options import ListColumnOptions

_MERGED_BYTES = 1 << 29  # much less than 2 GiB, the limit of Arrow's plain text

ArrowBatch = Mapping[str, pa.Array]
TableBatch = Mapping[str, Any]
"""Rows of a table, as columns by name. A column is an Arrow array or has Python values."""

_MALFORMED = "an item is null or no id, or two items have the same rank"
_NOTES = {
    CoverageReason.MISSING: "the user's list is null",
    CoverageReason.DUPLICATE_USER: "a user has more than one list",
    CoverageReason.MALFORMED: _MALFORMED,
}
_MALFORMED_SCORES = (
    _MALFORMED + ", or a score is no number, or there are more or fewer scores than items"
)


def merge_batches(batches: Iterable[ArrowBatch], rows: int) -> Iterator[ArrowBatch]:
    """Join small batches into batches of at least this number of rows.

    The time to find the users of a batch depends on the size of the panel, not on that of the
    batch. So small batches are slow.
    """
    waiting: list[ArrowBatch] = []
    count = nbytes = 0
    for batch in batches:
        waiting.append(batch)
        count += _row_count(batch)
        nbytes += sum(column.nbytes for column in batch.values())
        if count >= rows or nbytes > _MERGED_BYTES:
            yield join_batches(waiting)
            waiting = []
            count = nbytes = 0
    if waiting:
        yield join_batches(waiting)


def _row_count(batch: ArrowBatch) -> int:
    return len(next(iter(batch.values())))


def join_batches(parts: list[ArrowBatch]) -> ArrowBatch:
    """Join all parts into one batch. A column with several types becomes text."""
    parts = [part for part in parts if _row_count(part)] or parts[:1]
    return {name: _join_columns([part[name] for part in parts]) for name in parts[0]}


def _join_columns(parts: list[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    if len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.large_string()) for part in parts]
    return pa.concat_arrays(parts)


class WantedUsers:
    """The requested users, and the position of each key."""

    def __init__(self, users: pd.Index[str]) -> None:
        self.index = users
        self._keys = pa.array(users, type=pa.large_string())

    def __len__(self) -> int:
        return len(self._keys)

    def positions(self, users: pa.Array) -> Integers:
        """The position of each of these users. It is -1 for null and for users not requested."""
        if users.equals(self._keys):
            return np.arange(len(users))
        places = pc.index_in(users, value_set=self._keys).fill_null(-1)
        positions: Integers = places.to_numpy().astype(np.int64)
        return positions

    def take(self, positions: Integers) -> pd.Index[str]:
        """The users at these positions."""
        if len(positions) == len(self) and bool((positions == np.arange(len(positions))).all()):
            return self.index
        return columns.user_index(self._keys.take(pa.array(positions)))

    def failures(self, reasons: Mapping[CoverageReason, Integers]) -> dict[str, CoverageReason]:
        """The reason of each user, from the positions for each reason.

        If a user has several reasons, the first one is used.
        """
        failed: dict[str, CoverageReason] = {}
        for reason, positions in reasons.items():
            if len(positions):
                for user in self.take(np.unique(positions)):
                    failed.setdefault(user, reason)
        return failed


def wide_lists(
    wanted: WantedUsers,
    positions: Integers,
    cells: ArrowBatch,
    options: ListColumnOptions | ListColumns,
    tally: Tally,
) -> Pull:
    """The lists of the wide form. It has a column of lists, and optionally a column of scores.

    ``positions`` has the position of each list's user. A user is ``malformed`` if an item is no id,
    or if there are more or fewer scores than items.
    """
    name = str(options.items)
    lists = cells[name]
    values, lengths = columns.flat_lists(lists)
    is_null = lists.is_null().to_numpy(zero_copy_only=False)
    is_bad = np.zeros(len(positions), dtype=np.bool_)
    scores = None
    if options.scores:
        scores, is_bad = columns.numbers_of_lists(
            lengths,
            cells[options.scores],
            options.scores,
            tally.where,
        )
    if options.no_item:
        is_item = ~is_padding(values, options.no_item)
        list_numbers = np.repeat(np.arange(len(positions)), lengths)[is_item]
        values = values.filter(pa.array(is_item))
        lengths = np.bincount(list_numbers, minlength=len(positions))
        if scores is not None:
            scores = scores[is_item]
    items = tally.list_items(values, name, lengths)
    if items.null_count:
        list_numbers = np.repeat(np.arange(len(positions)), lengths)
        is_bad[list_numbers[items.is_null().to_numpy(zero_copy_only=False)]] = True
    is_repeated = np.bincount(positions, minlength=len(wanted))[positions] > 1
    reasons = {
        CoverageReason.DUPLICATE_USER: positions[is_repeated],
        CoverageReason.MISSING: positions[is_null],
        CoverageReason.MALFORMED: positions[is_bad],
    }
    is_left = ~(is_repeated | is_null | is_bad)
    if not is_left.all():
        is_item_left = np.repeat(is_left, lengths)
        positions = positions[is_left]
        lengths = lengths[is_left]
        items = items.filter(pa.array(is_item_left))
        if scores is not None:
            scores = scores[is_item_left]
    return _pull(wanted, positions, lengths, items, reasons, scores)


def long_lists(
    wanted: WantedUsers,
    positions: Integers,
    cells: ArrowBatch,
    options: ListColumnOptions | ListColumns,
    tally: Tally,
) -> Pull:
    """The lists of the long form. It has a column of items, and ranks, scores or both.

    ``positions`` has the position of each item's user. The lowest rank comes first. If there are no
    ranks, the highest score comes first. Then items with equal scores are ordered by their ids as
    text. A user is ``malformed`` in these cases: two items have the same rank, an item or a rank is
    null, a score is no number, or a score is null and there are no ranks.
    """
    name = str(options.item)
    if options.no_item:
        is_item = ~is_padding(cells[name], options.no_item)
        positions = positions[is_item]
        cells = {key: column.filter(pa.array(is_item)) for key, column in cells.items()}
    items = tally.ids(cells[name], name)
    is_bad = items.is_null().to_numpy(zero_copy_only=False)
    scores = None
    rank = options.rank
    if options.scores:
        column = cells[options.scores]
        scores, is_no_number = columns.number_column(column, options.scores, tally.where)
        is_bad = is_bad | is_no_number
        if not rank:
            is_no_number = is_no_number | np.isnan(scores)
        tally.flags(options.scores, Need.NUMBERS, is_no_number, column)
    if rank:
        column = cells[rank]
        places, _ = columns.number_column(column, rank, tally.where)
        tally.flags(rank, Need.NUMBERS, np.isnan(places), column)
        order = _order(positions, places, None)
    else:
        assert scores is not None  # noqa: S101 - options have a rank or scores
        places = -scores
        order = _order(positions, places, items)
    is_bad = is_bad | np.isnan(places)
    if order is not None:
        positions = positions[order]
        places = places[order]
        is_bad = is_bad[order]
        items = items.take(pa.array(order))
        if scores is not None:
            scores = scores[order]
    is_bad_user = np.zeros(len(wanted), dtype=np.bool_)
    is_bad_user[positions[is_bad]] = True
    if rank:
        is_same_rank = (positions[1:] == positions[:-1]) & (places[1:] == places[:-1])
        is_bad_user[positions[1:][is_same_rank]] = True
    is_left = ~is_bad_user[positions]
    if not is_left.all():
        positions = positions[is_left]
        items = items.filter(pa.array(is_left))
        if scores is not None:
            scores = scores[is_left]
    lengths = np.bincount(positions, minlength=len(wanted)).astype(np.int64)
    present = np.flatnonzero(lengths)
    reasons = {CoverageReason.MALFORMED: np.flatnonzero(is_bad_user)}
    return _pull(wanted, present, lengths[present], items, reasons, scores)


def _order(
    positions: Integers,
    places: Floats,
    items: pa.Array | None,
) -> Rows | None:
    """The order of the rows by user and place. None if the rows have this order already.

    If ``items`` is given, equal places are ordered by the text of the items.
    """
    is_same_user = positions[1:] == positions[:-1]
    is_after = (positions[1:] > positions[:-1]) | (is_same_user & (places[1:] > places[:-1]))
    if bool(is_after.all()):
        return None
    order = np.lexsort((places, positions))
    if items is None:
        return order
    positions_in_order = positions[order]
    places_in_order = places[order]
    is_tied = positions_in_order[1:] == positions_in_order[:-1]
    is_tied &= places_in_order[1:] == places_in_order[:-1]
    if not is_tied.any():
        return order
    text_places = np.empty(len(positions), dtype=np.int64)
    text_places[pc.sort_indices(items.cast(pa.large_string())).to_numpy()] = np.arange(
        len(positions)
    )
    return np.lexsort((text_places, places, positions))


def _pull(
    wanted: WantedUsers,
    positions: Integers,
    lengths: Integers,
    items: pa.Array,
    reasons: Mapping[CoverageReason, Integers],
    scores: Floats | None,
) -> Pull:
    table = RankingTable(
        users=wanted.take(positions),
        offsets=offsets_of(lengths),
        items=columns.join_items([items]),
        scores=scores,
    )
    notes = {reason: _NOTES[reason] for reason, failed in reasons.items() if len(failed)}
    if scores is not None and CoverageReason.MALFORMED in notes:
        notes[CoverageReason.MALFORMED] = _MALFORMED_SCORES
    return Pull(rankings=table, failures=wanted.failures(reasons), notes=notes)


@dataclass(frozen=True, kw_only=True)
class ListColumns:
    """The columns of `ListColumnOptions` for Spark's executors. They cannot load options."""

    user: str
    items: str | None
    item: str | None
    rank: str | None
    scores: str | None
    model_version: str | None
    user_ids: Forms
    item_ids: Forms
    no_item: NoItems


@immutable
class TableLists:
    """Reads the lists of these users from a table of either form.

    Of Python lists, at most k items are read. A user with a null list is ``missing``. A user with
    two lists is ``duplicate_user``.
    """

    options: ListColumnOptions | ListColumns
    users: pd.Index[str]
    k: int
    where: str
    max_bytes: int | None = None

    def pull(self, batches: Iterable[TableBatch]) -> Pull:
        """The lists in the batches of the table.

        Raises SourceError if the columns cannot contain lists.
        """
        tally = Tally(self.where)
        with arrow_errors(self.where):
            pull = self._pull(iter(batches), tally)
        notes = {reason: f"{self.where}: {note}" for reason, note in pull.notes.items()}
        return replace(pull, notes=notes, unreadable=tally.unreadable)

    def _pull(self, batches: Iterator[TableBatch], tally: Tally) -> Pull:
        first = next(batches, None)
        if first is None:
            return self._cells((), tally)
        batches = chain([first], batches)
        items = self.options.items
        if items is not None:
            column = first[items]
            if not isinstance(column, pa.Array):
                return self._cells(batches, tally)
            if is_text(column.type):
                return self._cells(map(_python_values, batches), tally)
            require_lists(column, items, self.where, "rank")
        return self._columns(batches, tally)

    def _columns(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        wanted = WantedUsers(self.users)
        positions, cells = self._rows_of(wanted, batches, tally)
        pull = self._lists(wanted, positions, cells, tally)
        version = self.options.model_version
        if version is None:
            return pull
        listed, first = np.unique(positions, return_index=True)
        has_list = ~wanted.take(listed).isin(list(pull.failures))
        versions = cells[version].take(pa.array(first[has_list])).cast(pa.large_string())
        return replace(pull, versions=count_versions({}, Counter(versions.to_pylist()).items()))

    def _lists(
        self,
        wanted: WantedUsers,
        positions: Integers,
        cells: ArrowBatch,
        tally: Tally,
    ) -> Pull:
        options = self.options
        read = long_lists if options.items is None else wide_lists
        pull = read(wanted, positions, cells, options, tally)
        pull = replace(pull, rankings=without_items(pull.rankings, options.no_item))
        pull = spell_items(pull, options.item_ids)
        if options.items is not None or not options.user_ids:
            return pull
        spellings = cells[options.user].to_pandas().groupby(positions).nunique()
        merged = spellings.index[spellings > 1].to_numpy()
        if not len(merged):
            return pull
        reason = CoverageReason.DUPLICATE_USER
        return pull_without(
            pull, wanted.take(merged), reason, "user_ids give the same id to several users"
        )

    def _rows_of(
        self,
        wanted: WantedUsers,
        batches: Iterable[TableBatch],
        tally: Tally,
    ) -> tuple[Integers, ArrowBatch]:
        """The rows of requested users. Rows of other users are dropped at once.

        Returns the position of each row's user, and the other columns.
        """
        options = self.options
        columns_read = [
            options.items,
            options.item,
            options.rank,
            options.scores,
            options.model_version,
        ]
        if options.user_ids and options.item:
            columns_read.append(options.user)
        names = [name for name in columns_read if name is not None]
        all_positions: list[Integers] = []
        parts: list[ArrowBatch] = []
        nbytes = 0
        for batch in merge_batches(map(partial(self._arrays, tally), batches), len(wanted)):
            positions = wanted.positions(
                columns.spell_column(batch[options.user], options.user_ids)
            )
            is_wanted = positions >= 0
            part = {}
            for name in names:
                column = batch[name]
                if not is_wanted.all():
                    column = column.filter(pa.array(is_wanted))
                part[name] = column
                nbytes += column.nbytes
            positions = positions[is_wanted]
            nbytes += positions.nbytes
            all_positions.append(positions)
            parts.append(part)
            check_size(nbytes, self.max_bytes, self.where)
        return np.concatenate(all_positions), join_batches(parts)

    def _arrays(self, tally: Tally, batch: TableBatch) -> dict[str, pa.Array]:
        options = self.options
        arrays = {options.user: tally.users(batch[options.user], options.user)}
        for name, column in batch.items():
            if name == options.item and not isinstance(column, pa.Array):
                arrays[name] = tally.convert(column, name)
            else:
                is_number = name in {options.rank, options.scores}
                arrays.setdefault(name, arrow_array(column, is_number=is_number))
        return arrays

    def _cells(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        options = self.options
        name = str(options.items)
        wanted = set(self.users)
        spell = speller(options.user_ids)
        lists = ListCollector(
            self.k,
            has_scores=options.scores is not None,
            no_item=options.no_item,
        )
        count = 0
        for batch in batches:
            values = batch[name]
            nothing = [None] * len(values)
            scores = batch[options.scores] if options.scores else nothing
            versions = batch[options.model_version] if options.model_version else nothing
            users = spell(tally.users(batch[options.user], options.user).to_pylist())
            for user, value, numbers, version in zip(users, values, scores, versions, strict=True):
                if user is not None and user in wanted:
                    lists.add_cell(user, value, numbers, version)
                    count += 1
            check_size(lists.nbytes, self.max_bytes, self.where)
        tally.count(name, Need.LISTS, lists.unreadable, count, lists.example)
        return spell_items(lists.pull(), options.item_ids)


def _python_values(batch: TableBatch) -> TableBatch:
    return {name: column.to_pylist() for name, column in batch.items()}


@contextmanager
def arrow_errors(where: str) -> Iterator[None]:
    """Turn errors that pyarrow raises for values into a SourceError."""
    try:
        yield
    except pa.ArrowException as error:
        raise SourceError(f"{where} cannot be read: {file_cause(error)}") from None


def check_size(nbytes: int, most: int | None, where: str) -> None:
    """Raise SourceError if the rows in use take more bytes than the limit."""
    if most is not None and nbytes > most:
        raise SourceError(
            f"{where} has more than {most} bytes for the users asked: sample fewer users, or "
            "raise max_bytes"
        )


def arrow_arrays(batch: TableBatch, numbers: Collection[str | None]) -> dict[str, pa.Array]:
    """The batch with Arrow arrays only. The columns in ``numbers`` are numbers, the others ids."""
    return {name: arrow_array(column, is_number=name in numbers) for name, column in batch.items()}


def arrow_array(column: Any, *, is_number: bool = False) -> pa.Array:  # noqa: ANN401 - any values
    """A column as an Arrow array. Python values become numbers or ids."""
    if isinstance(column, pa.Array):
        return column
    if is_number:
        return columns.value_array(column)
    return id_array(column)


def require_lists(column: pa.Array, name: str, where: str, order: str) -> None:
    """Raise SourceError if the column does not contain lists.

    ``order`` is the option that the long form needs together with ``item``.
    """
    if not is_list(column.type):
        raise SourceError(
            f"column {name!r} of {where} has {describe_type(column.type)} and no lists: if each "
            f"row "
            f"has one item, give item and {order}"
        )
