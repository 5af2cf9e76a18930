"""Lists of a table's rows, in either form: one list a row, or one item a row.

Needs numpy, pandas and pyarrow, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.foreign_errors import file_cause
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Integers
from monitor.model.id_forms import Forms, speller
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, Pull, RankingTable
from monitor.model.unreadable import Need
from monitor.reading.ids import describe_type, id_array, is_list, is_text
from monitor.reading.padding import NoItems, is_padding, without_items
from monitor.reading.tally import Tally
from monitor.sources import columns
from monitor.sources.list_collector import ListCollector, pull_without, spell_items

_MERGED_BYTES = 1 << 29  # far from 2 GiB, where offsets of arrow's plain text end

ArrowBatch = Mapping[str, pa.Array]

_NOTES = {
    CoverageReason.MISSING: "the user's list is null",
    CoverageReason.DUPLICATE_USER: "a user has more than one list",
}
_MALFORMED = "null or no id among the items, or two items at one rank"
_MALFORMED_SCORES = _MALFORMED + ", or scores that are no numbers or not as many as the items"
TableBatch = Mapping[
    str, Any
]  # some rows: columns by name, Arrow arrays or sequences of Python values


def merge_batches(batches: Iterable[ArrowBatch], rows: int) -> Iterator[ArrowBatch]:
    """Batches of at least so many rows, joined from smaller ones."""
    # Looking up the users of a batch costs as much as the panel is long, however small the batch
    # is.
    waiting: list[ArrowBatch] = []
    for batch in batches:
        waiting.append(batch)
        if (
            _row_count(waiting) >= rows
            or sum(each.nbytes for part in waiting for each in part.values()) > _MERGED_BYTES
        ):
            yield join_batches(waiting)
            waiting = []
    if waiting:
        yield join_batches(waiting)


def _row_count(parts: Sequence[ArrowBatch]) -> int:
    return sum(len(next(iter(part.values()))) for part in parts)


def join_batches(parts: list[ArrowBatch]) -> ArrowBatch:
    """One batch of all of them; of columns whose types differ all are text."""
    parts = [part for part in parts if _row_count([part])] or parts[:1]
    return {name: _join_columns([part[name] for part in parts]) for name in parts[0]}


def _join_columns(parts: list[pa.Array]) -> pa.Array:
    if len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.large_string()) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


class WantedUsers:
    """The users asked for, and where each row of a column finds its user among them."""

    def __init__(self, users: pd.Index[str]) -> None:
        self.index = users
        self._keys = pa.array(users, type=pa.large_string())

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, users: pa.Array) -> Integers:
        """Position of each user, -1 for one that is not wanted or is null."""
        if users.equals(self._keys):
            return np.arange(len(users))
        found = pc.index_in(users, value_set=self._keys).fill_null(-1)
        rows: Integers = found.to_numpy().astype(np.int64)
        return rows

    def take(self, rows: Integers) -> pd.Index[str]:
        """Return the users at these positions."""
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self.index
        return columns.user_index(self._keys.take(pa.array(rows)))

    def failures(self, reasons: Mapping[CoverageReason, Integers]) -> dict[str, CoverageReason]:
        """Reasons by user; a later reason does not replace an earlier one."""
        failed: dict[str, CoverageReason] = {}
        for reason, rows in reasons.items():
            for user in self.take(np.unique(rows)) if len(rows) else ():
                failed.setdefault(user, reason)
        return failed


def wide_lists(
    wanted: WantedUsers,
    rows: Integers,
    cells: ArrowBatch,
    options: ListColumnOptions | ListColumns,
    tally: Tally,
) -> Pull:
    """Lists from a column of lists, and perhaps one of scores, as many, else ``malformed``.

    ``rows`` says whose each is.
    """
    lists = cells[str(options.items)]
    values, lengths = columns.flat_lists(lists)
    is_null, is_bad = (
        lists.is_null().to_numpy(zero_copy_only=False),
        np.zeros(len(rows), dtype=np.bool_),
    )
    numbers = None
    if options.scores:
        numbers, is_bad = columns.numbers_of_lists(
            lengths, cells[options.scores], options.scores, tally.where
        )
    if options.no_item and (is_empty := is_padding(values, options.no_item)).any():
        places = np.repeat(np.arange(len(rows)), lengths)[~is_empty]
        values, lengths = (
            values.filter(pa.array(~is_empty)),
            np.bincount(places, minlength=len(rows)),
        )
        numbers = None if numbers is None else numbers[~is_empty]
    items = tally.list_items(values, str(options.items), lengths)
    if items.null_count:
        is_bad[
            np.repeat(np.arange(len(rows)), lengths)[items.is_null().to_numpy(zero_copy_only=False)]
        ] = True
    is_repeated = np.bincount(rows, minlength=len(wanted))[rows] > 1
    reasons = {
        CoverageReason.DUPLICATE_USER: rows[is_repeated],
        CoverageReason.MISSING: rows[is_null],
        CoverageReason.MALFORMED: rows[is_bad],
    }
    kept = ~(is_repeated | is_null | is_bad)
    if not kept.all():
        keep_item = np.repeat(kept, lengths)
        rows, lengths, items = rows[kept], lengths[kept], items.filter(pa.array(keep_item))
        numbers = None if numbers is None else numbers[keep_item]
    return _pull(wanted, rows, lengths, items, reasons, numbers)


def long_lists(
    wanted: WantedUsers,
    rows: Integers,
    cells: ArrowBatch,
    options: ListColumnOptions | ListColumns,
    tally: Tally,
) -> Pull:
    """Lists from an item column with one of ranks, of scores, or both.

    ``rows`` says whose each item is.

    The lowest rank is first; without ranks the highest score, and of equal ones the id first as
    text. ``malformed``: two items at one rank, a null item or rank, without ranks a null score, or
    a score that is no number.
    """
    if options.no_item:
        is_item = ~is_padding(cells[str(options.item)], options.no_item)
        rows, cells = (
            rows[is_item],
            {name: column.filter(pa.array(is_item)) for name, column in cells.items()},
        )
    items = tally.ids(cells[str(options.item)], str(options.item))
    is_odd = items.is_null().to_numpy(zero_copy_only=False)
    numbers = ranks = None
    if options.scores:
        numbers, is_bad = columns.number_column(cells[options.scores], options.scores, tally.where)
        tally.flags(
            options.scores,
            Need.NUMBERS,
            is_bad | (np.isnan(numbers) & (options.rank is None)),
            cells[options.scores],
        )
        is_odd = is_odd | is_bad
    if options.rank:
        ranks, _ = columns.number_column(cells[options.rank], options.rank, tally.where)
        tally.flags(options.rank, Need.NUMBERS, np.isnan(ranks), cells[options.rank])
    places = -numbers if ranks is None and numbers is not None else ranks
    assert places is not None  # noqa: S101 - options have a rank or scores
    is_odd = is_odd | np.isnan(places)
    order = _order(rows, places, None if ranks is not None else items)
    if order is not None:
        rows, places, is_odd, items = (
            rows[order],
            places[order],
            is_odd[order],
            items.take(pa.array(order)),
        )
        numbers = None if numbers is None else numbers[order]
    is_bad_user = np.zeros(len(wanted), dtype=np.bool_)
    is_bad_user[rows[is_odd]] = True
    if ranks is not None:
        is_bad_user[rows[1:][(rows[1:] == rows[:-1]) & (places[1:] == places[:-1])]] = True
    kept = ~is_bad_user[rows]
    if not kept.all():
        rows, items, numbers = (
            rows[kept],
            items.filter(pa.array(kept)),
            None if numbers is None else numbers[kept],
        )
    lengths = np.bincount(rows, minlength=len(wanted)).astype(np.int64)
    present = np.flatnonzero(lengths)
    reasons = {CoverageReason.MALFORMED: np.flatnonzero(is_bad_user)}
    return _pull(wanted, present, lengths[present], items, reasons, numbers)


def _order(rows: Integers, places: Floats, items: pa.Array | None) -> npt.NDArray[np.intp] | None:
    """Order by user and place, and by the items' text where they share one and items are given.

    None where it is so already.
    """
    ahead = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (places[1:] > places[:-1]))
    if bool(ahead.all()):
        return None
    order = np.lexsort((places, rows))
    tied = (rows[order][1:] == rows[order][:-1]) & (places[order][1:] == places[order][:-1])
    if items is None or not tied.any():
        return order
    texts = np.empty(len(rows), dtype=np.int64)
    texts[pc.sort_indices(items.cast(pa.large_string())).to_numpy()] = np.arange(len(rows))
    return np.lexsort((texts, places, rows))


def _pull(
    wanted: WantedUsers,
    rows: Integers,
    lengths: Integers,
    items: pa.Array,
    reasons: Mapping[CoverageReason, Integers],
    scores: Floats | None,
) -> Pull:
    table = RankingTable(
        users=wanted.take(rows),
        offsets=offsets_of(lengths),
        items=columns.join_items([items]),
        scores=scores,
    )
    notes = _NOTES | {CoverageReason.MALFORMED: _MALFORMED if scores is None else _MALFORMED_SCORES}
    return Pull(
        rankings=table,
        failures=wanted.failures(reasons),
        notes={reason: notes[reason] for reason, failed in reasons.items() if len(failed)},
    )


if TYPE_CHECKING:
    from monitor.sources.table_options import ListColumnOptions


@dataclass(frozen=True, kw_only=True)
class ListColumns:
    """Which columns hold users and lists, as in ``ListColumnOptions``, for where no option can be loaded."""

    user: str
    items: str | None
    item: str | None
    rank: str | None
    scores: str | None
    model_version: str | None
    user_ids: Forms
    item_ids: Forms
    no_item: NoItems


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLists:
    """The first k items of these users' lists of a table in either form: null is ``missing``, two are ``duplicate_user``."""

    options: ListColumnOptions | ListColumns
    users: pd.Index[str]
    k: int
    where: str
    max_bytes: int | None = None

    def pull(self, batches: Iterable[TableBatch]) -> Pull:
        """The lists that batches of the table hold.

        SourceError when its columns cannot hold lists.
        """
        tally = Tally(self.where)
        pull = self._pull(batches, tally)
        notes = {reason: f"{self.where}: {note}" for reason, note in pull.notes.items()}
        return replace(pull, notes=notes, unreadable=tally.unreadable)

    def _pull(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        batches, items = iter(batches), self.options.items
        with arrow_errors(self.where):
            if (first := next(batches, None)) is None:
                return self._cells((), tally)
            batches = chain([first], batches)
            if items is not None:
                column = first[items]
                if not isinstance(column, pa.Array):
                    return self._cells(batches, tally)
                if is_text(column.type):
                    return self._cells(map(_python_values, batches), tally)
                require_lists(column, items, self.where, "rank")
            return self._columns(batches, tally)

    def _columns(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        options, wanted = self.options, WantedUsers(self.users)
        rows, cells = self._rows_of(wanted, batches, tally)
        pull = self._lists(wanted, rows, cells, tally)
        if options.model_version is None:
            return pull
        placed, first = np.unique(rows, return_index=True)
        is_listed = ~wanted.take(placed).isin(list(pull.failures))
        versions = (
            cells[options.model_version].take(pa.array(first[is_listed])).cast(pa.large_string())
        )
        return replace(pull, versions=count_versions({}, Counter(versions.to_pylist()).items()))

    def _lists(self, wanted: WantedUsers, rows: Integers, cells: ArrowBatch, tally: Tally) -> Pull:
        options = self.options
        read = long_lists if options.items is None else wide_lists
        pull = read(wanted, rows, cells, options, tally)
        pull = replace(pull, rankings=without_items(pull.rankings, options.no_item))
        pull = spell_items(pull, options.item_ids)
        if options.items is not None or not options.user_ids:
            return pull
        spellings = cells[options.user].to_pandas().groupby(rows).nunique()
        merged = wanted.take(spellings.index[spellings > 1].to_numpy())
        return (
            pull_without(
                pull, merged, CoverageReason.DUPLICATE_USER, "user_ids make one of several"
            )
            if len(merged)
            else pull
        )

    def _rows_of(
        self, wanted: WantedUsers, batches: Iterable[TableBatch], tally: Tally
    ) -> tuple[Integers, ArrowBatch]:
        """Whose each row is of the users asked, and the other columns of these rows.

        Rows of others are dropped at once.
        """
        options, rows, kept, nbytes = self.options, list[Integers](), list[ArrowBatch](), 0
        user = options.user if options.user_ids and options.item else None
        given = (
            options.items,
            options.item,
            options.rank,
            options.scores,
            options.model_version,
            user,
        )
        names = [name for name in given if name is not None]
        for batch in merge_batches(map(partial(self._arrays, tally), batches), len(wanted)):
            found = wanted.rows(columns.spell_column(batch[options.user], options.user_ids))
            part = {name: batch[name] for name in names}
            is_wanted = found >= 0
            if not is_wanted.all():
                part, found = (
                    {name: part[name].filter(pa.array(is_wanted)) for name in names},
                    found[is_wanted],
                )
            rows.append(found)
            kept.append(part)
            nbytes += found.nbytes + sum(column.nbytes for column in part.values())
            check_size(nbytes, self.max_bytes, self.where)
        return np.concatenate(rows), join_batches(kept)

    def _arrays(self, tally: Tally, batch: TableBatch) -> dict[str, pa.Array]:
        options = self.options
        arrays = {options.user: tally.users(batch[options.user], options.user)}
        for name, column in batch.items():
            if isinstance(column, pa.Array):
                arrays.setdefault(name, column)
            elif name == options.item:
                arrays[name] = tally.convert(column, name)
            else:
                arrays.setdefault(
                    name, arrow_array(column, is_number=name in {options.rank, options.scores})
                )
        return arrays

    def _cells(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        options, wanted, name = self.options, set(self.users), str(self.options.items)
        lists = ListCollector(
            self.k, has_scores=options.scores is not None, no_item=options.no_item
        )
        spell, cells = speller(options.user_ids), 0
        for batch in batches:
            values = batch[name]
            scores = batch[options.scores] if options.scores else [None] * len(values)
            versions = (
                batch[options.model_version] if options.model_version else [None] * len(values)
            )
            users = spell(tally.users(batch[options.user], options.user).to_pylist())
            for user, value, numbers, version in zip(users, values, scores, versions, strict=True):
                if user is not None and user in wanted:
                    lists.add_cell(user, value, numbers, version)
                    cells += 1
            check_size(lists.nbytes, self.max_bytes, self.where)
        tally.count(name, Need.LISTS, lists.unreadable, cells, lists.example)
        return spell_items(lists.pull(), options.item_ids)


def _python_values(batch: TableBatch) -> TableBatch:
    return {name: column.to_pylist() for name, column in batch.items()}


@contextmanager
def arrow_errors(where: str) -> Iterator[None]:
    """Turn pyarrow's errors over what rows hold into a SourceError of one line."""
    try:
        yield
    except pa.ArrowException as error:
        raise SourceError(f"{where} cannot be read: {file_cause(error)}") from None


def check_size(nbytes: int, most: int | None, where: str) -> None:
    """SourceError when what is kept of a table grew beyond its limit."""
    if most is not None and nbytes > most:
        raise SourceError(
            f"{where} holds more than {most} bytes for the users asked: sample fewer users, or "
            "raise max_bytes"
        )


def arrow_arrays(batch: TableBatch, numbers: Collection[str | None] = ()) -> dict[str, pa.Array]:
    """The batch with Arrow arrays only: ids, or numbers in the columns of these names."""
    return {name: arrow_array(column, is_number=name in numbers) for name, column in batch.items()}


def arrow_array(column: Any, *, is_number: bool = False) -> pa.Array:  # noqa: ANN401 - pyarrow has no stubs
    """A column as an Arrow array, of ids or numbers where it holds Python values."""
    if isinstance(column, pa.Array):
        return column
    return columns.value_array(column) if is_number else id_array(column)


def require_lists(column: pa.Array, name: str, where: str, beside: str) -> None:
    """SourceError when the column does not hold lists."""
    if not is_list(column.type):
        held = describe_type(column.type)
        msg = (
            f"column {name!r} of {where} holds {held}, expected lists: for one item a row give "
            f"item and {beside}"
        )
        raise SourceError(msg)
