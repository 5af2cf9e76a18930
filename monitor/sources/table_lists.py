"""Makes lists from the rows of a table.

A table has one of two forms: a list in each row (wide), or an item in each row (long). This module
also runs on Spark's executors. So it needs only numpy, pandas and pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.boundary.foreign_errors import file_cause
from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.ids import (
    describe_type,
    id_column,
    is_list,
    is_text,
    join_columns,
    to_ids,
    user_index,
)
from monitor.measures.reading.lists import (
    Cells,
    FlatLists,
    NoItems,
    is_padding,
    join_lists,
    order_rows,
    parse_cell,
    parse_numbers,
    read_lists,
)
from monitor.measures.reading.numbers import number_column, value_array
from monitor.measures.reading.unreadable_values import Tally
from monitor.model.arrays import Flags, Integers
from monitor.model.errors import SourceError
from monitor.model.id_forms import Forms
from monitor.model.immutable import immutable
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, Pull, RankingTable
from monitor.model.unreadable import ColumnKind
from monitor.sources.columns import spell_column
from monitor.sources.list_collector import pull_without, spell_items

if TYPE_CHECKING:
    from monitor.sources.table_options import ListColumnOptions

ArrowBatch = Mapping[str, pa.Array]
TableBatch = Mapping[str, Any]
"""Rows of a table, as columns by name. A column is an Arrow array or a sequence of Python's
values."""

_MALFORMED = "an item is null or no id, or two items have the same rank"
_NOTES = {
    CoverageReason.MISSING: "the user's list is null",
    CoverageReason.DUPLICATE_USER: "a user has more than one list",
}
_SAME_TIME = (
    "a user has more than one list of the newest time: name the column with the request id in "
    "served.request"
)
_MALFORMED_SCORES = (
    _MALFORMED + ", or a score is no number, or there are more or fewer scores than items"
)


def join_batches(parts: list[ArrowBatch]) -> ArrowBatch:
    """Join all parts into one batch. A column with several types becomes text."""
    parts = [part for part in parts if any(map(len, part.values()))] or parts[:1]
    return {name: join_columns([part[name] for part in parts]) for name in parts[0]}


class WantedUsers:
    """The requested users. Finds the position of a user's key among them."""

    def __init__(self, users: pd.Index[str]) -> None:
        self.index = users
        self._keys = pa.array(users, type=pa.large_string())
        self._next = 0  # the position after the last batch whose users were in order

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def _hashes(self) -> pd.Index[int]:
        return _hash(self._keys)

    def positions(self, users: pa.Array) -> Integers:
        """The position of each of these users. It is -1 for null and for users not requested."""
        # Rows are often in the order of the users.
        start, end = self._next, self._next + len(users)
        if users.equals(self._keys.slice(start, len(users))):
            self._next = end
            return np.arange(start, end)
        if not self._hashes.is_unique:
            return self.index.get_indexer(user_index(users))
        # Numbers are found much faster than texts. Another text may have the same hash.
        positions = self._hashes.get_indexer(_hash(users))
        with_hash = self._keys.take(pa.array(positions, mask=positions < 0))
        is_same = pc.fill_null(pc.equal(with_hash, users), fill_value=False)
        return np.where(is_same, positions, -1)

    def take(self, positions: Integers) -> pd.Index[str]:
        """The users at these positions."""
        if len(positions) == len(self) and bool((positions == np.arange(len(positions))).all()):
            return self.index
        return user_index(self._keys.take(pa.array(positions)))

    def failures(self, reasons: Mapping[CoverageReason, Integers]) -> dict[str, CoverageReason]:
        """The reason of each failed user.

        ``reasons`` has the positions of the users that fail for each reason. If a user has several
        reasons, the first one is used.
        """
        failed: dict[str, CoverageReason] = {}
        for reason, positions in reasons.items():
            if len(positions):
                for user in self.take(np.unique(positions)):
                    failed.setdefault(user, reason)
        return failed


def _hash(users: pa.Array) -> pd.Index[int]:
    texts = users.to_numpy(zero_copy_only=False)
    return pd.Index(pd.util.hash_array(texts, categorize=False))


def wide_lists(wanted: WantedUsers, positions: Integers, lists: FlatLists) -> Pull:
    """The lists of the wide form. ``positions`` has the position of each list's user.

    A user is ``malformed`` if an item is no id, or if the scores do not fit the items.
    """
    is_repeated = np.bincount(positions, minlength=len(wanted))[positions] > 1
    failures = wanted.failures(
        {
            CoverageReason.DUPLICATE_USER: positions[is_repeated],
            CoverageReason.MISSING: positions[lists.is_missing],
            CoverageReason.MALFORMED: positions[lists.is_malformed],
        }
    )
    is_left = ~(is_repeated | lists.is_missing | lists.is_malformed)
    table = lists.only(is_left).table(wanted.take(positions[is_left]))
    return _make_pull(table, failures, lists.note)


def long_lists(
    wanted: WantedUsers,
    positions: Integers,
    cells: ArrowBatch,
    options: ListColumnOptions | ListColumns,
    tally: Tally,
) -> Pull:
    """The lists of the long form. It has a column of item ids, and ranks, scores or both.

    ``positions`` has the position of each item's user. The lowest rank comes first. If there are no
    ranks, the highest score comes first. Then items with equal scores are ordered by their ids as
    text. A user is ``malformed`` in these cases: two items have the same rank, an item or a rank is
    null, a rank is no whole number, a score is no number, or a score is null and there are no
    ranks.
    """
    items = cells[str(options.item)]
    is_bad = items.is_null().to_numpy(zero_copy_only=False)
    scores = None
    if options.scores:
        column = cells[options.scores]
        scores, is_no_number = number_column(column, options.scores, tally.where)
        if not options.rank:  # a null has no place in the order
            is_no_number = is_no_number | np.isnan(scores)
        tally.count_marked(options.scores, ColumnKind.NUMBERS, is_no_number, column)
        is_bad = is_bad | is_no_number
    if options.rank:
        column = cells[options.rank]
        ranks, _ = number_column(column, options.rank, tally.where)
        is_no_rank = ranks != np.floor(ranks)  # also true for NaN
        tally.count_marked(options.rank, ColumnKind.RANKS, is_no_rank, column)
        is_bad = is_bad | is_no_rank
    else:
        assert scores is not None  # noqa: S101 - options have a rank or scores
        ranks = -scores
    order = order_rows(positions, ranks, None if options.rank else items)
    if order is not None:
        positions = positions[order]
        ranks = ranks[order]
        is_bad = is_bad[order]
        items = items.take(pa.array(order))
        scores = None if scores is None else scores[order]
    is_bad_user = np.zeros(len(wanted), dtype=np.bool_)
    is_bad_user[positions[is_bad]] = True
    if options.rank:
        # The rows are sorted by user and rank, so equal ranks of a user are neighbours.
        is_same_rank = (positions[1:] == positions[:-1]) & (ranks[1:] == ranks[:-1])
        is_bad_user[positions[1:][is_same_rank]] = True
    is_left = ~is_bad_user[positions]
    lengths = np.bincount(positions[is_left], minlength=len(wanted)).astype(np.int64)
    present = np.flatnonzero(lengths)
    table = RankingTable(
        users=wanted.take(present),
        offsets=offsets_of(lengths[present]),
        items=to_ids(items if is_left.all() else items.filter(pa.array(is_left))),
        scores=None if scores is None else scores[is_left],
    )
    note = _MALFORMED if scores is None else _MALFORMED_SCORES
    return _make_pull(
        table, wanted.failures({CoverageReason.MALFORMED: np.flatnonzero(is_bad_user)}), note
    )


def _make_pull(table: RankingTable, failures: dict[str, CoverageReason], malformed: str) -> Pull:
    notes = {reason: _NOTES.get(reason, malformed) for reason in failures.values()}
    return Pull(rankings=table, failures=failures, notes=notes)


@dataclass(frozen=True, kw_only=True)
class ListColumns:
    """A copy of `ListColumnOptions` for Spark's executors, which cannot import options."""

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

    If a list consists of Python's values, only its first k items are read. A user with a null list
    is ``missing``. A user with two lists is ``duplicate_user``.
    """

    options: ListColumnOptions | ListColumns
    users: pd.Index[str]
    k: int
    where: str
    max_bytes: int | None = None
    column_kind: ColumnKind | None = None
    """What cells with lists must be. None: lists if the cells are texts, and otherwise ids."""

    def pull(self, batches: Iterable[TableBatch]) -> Pull:
        """The lists in the batches of the table.

        Raises SourceError if the columns cannot contain lists.
        """
        tally = Tally(self.where)
        with arrow_errors(self.where):
            pull = self._pull(iter(batches), tally)
        notes = {reason: f"{self.where}: {note}" for reason, note in pull.notes.items()}
        is_log = getattr(self.options, "served", None) is not None
        if is_log and CoverageReason.DUPLICATE_USER in notes:
            notes[CoverageReason.DUPLICATE_USER] = f"{self.where}: {_SAME_TIME}"
        return replace(pull, notes=notes, unreadable=tally.unreadable)

    def _pull(self, batches: Iterable[TableBatch], tally: Tally) -> Pull:
        """Collect the rows of the requested users, and make lists of all of them at the end."""
        options = self.options
        wanted = WantedUsers(self.users)
        item = options.item
        names = [options.model_version]
        if item is not None:
            names += [options.rank, options.scores]
            if options.user_ids:
                names.append(options.user)
        all_positions = [np.zeros(0, dtype=np.int64)]
        lists = [read_lists([], "", "", scores=[] if options.scores else None)]
        parts: list[ArrowBatch] = []
        nbytes = 0
        for batch in batches:
            users = tally.users(batch[options.user], options.user)
            positions = wanted.positions(spell_column(users, options.user_ids))
            is_wanted = positions >= 0
            rows = filter_rows({**batch, options.user: users}, is_wanted)
            positions = positions[is_wanted]
            if options.items is not None:
                lists.append(self._read_lists(rows, tally))
            if item is not None and options.no_item:
                ids = id_column(rows[item], item, self.where)
                is_item = ~is_padding(rows[item], ids, options.no_item)
                rows = filter_rows(rows, is_item)
                positions = positions[is_item]
            arrays = {name: value_array(rows[name]) for name in names if name is not None}
            if item is not None:
                arrays[item] = tally.ids(rows[item], item)
            all_positions.append(positions)
            parts.append(arrays)
            nbytes += lists[-1].nbytes + sum(array.nbytes for array in arrays.values())
            check_size(nbytes, self.max_bytes, self.where)
        positions = np.concatenate(all_positions)
        columns_read = join_batches(parts) if parts else {}
        if options.items is not None or not parts:
            pull = wide_lists(wanted, positions, join_lists(lists))
        else:
            pull = long_lists(wanted, positions, columns_read, options, tally)
        pull = spell_items(pull, options.item_ids)
        if options.model_version is not None and parts:
            versions = columns_read[options.model_version].cast(pa.large_string())
            pull = replace(pull, versions=_count_versions(pull, wanted, positions, versions))
        if options.user in columns_read:
            pull = _without_merged(pull, wanted, positions, columns_read[options.user])
        return pull

    def _read_lists(self, rows: TableBatch, tally: Tally) -> FlatLists:
        options = self.options
        name = str(options.items)
        scores = rows[options.scores] if options.scores else None
        cells, scores = lists_in(rows[name], scores, name, self.where, "rank")
        kind = self.column_kind
        if kind is None:
            kind = ColumnKind.IDS if cells is rows[name] else ColumnKind.LISTS
        lists = read_lists(
            cells,
            name,
            self.where,
            scores=scores,
            scores_column=str(options.scores),
            k=self.k,
            no_item=options.no_item,
        )
        tally.count(name, kind, lists.unreadable, len(cells), lists.example)
        return lists


def filter_rows(rows: TableBatch, is_left: Flags) -> TableBatch:
    """The marked rows."""
    if is_left.all():
        return rows
    left = {}
    for name, column in rows.items():
        if isinstance(column, pa.Array):
            left[name] = column.filter(pa.array(is_left))
        else:
            left[name] = list(compress(column, is_left))
    return left


def _parse_cells(column: Any) -> pa.Array | list[object]:  # noqa: ANN401 - Arrow or Python
    """Convert the cells of a column to lists. Texts are parsed as JSON.

    The result is an Arrow array if all texts are lists of whole numbers, and Python's values
    otherwise.
    """
    numbers = parse_numbers(column)
    if numbers is not None:
        return numbers
    return list(map(parse_cell, column.to_pylist() if isinstance(column, pa.Array) else column))


def _count_versions(
    pull: Pull, wanted: WantedUsers, positions: Integers, versions: pa.Array
) -> dict[str, int]:
    """The number of lists of each version. The version is read from the user's first row."""
    listed, first = np.unique(positions, return_index=True)
    has_list = ~wanted.take(listed).isin(list(pull.failures))
    return count_versions({}, Counter(versions.take(pa.array(first[has_list])).to_pylist()).items())


def _without_merged(pull: Pull, wanted: WantedUsers, positions: Integers, users: pa.Array) -> Pull:
    """The pull without users whose rows write the user in several ways."""
    spellings = users.to_pandas().groupby(positions).nunique()
    merged = spellings.index[spellings > 1].to_numpy()
    note = "user_ids give the same id to several users"
    if not len(merged):
        return pull
    return pull_without(pull, wanted.take(merged), CoverageReason.DUPLICATE_USER, note)


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
            f"{where} has more than {most} bytes of rows for the requested users: sample fewer "
            "users, or raise max_bytes"
        )


def lists_in(
    cells: Cells, numbers: Cells, name: str, where: str, order: str
) -> tuple[Cells, Cells]:
    """The lists in a column, and the numbers of their items. Texts are parsed as JSON.

    Raises SourceError if the column does not contain lists. ``order`` is the option that the long
    form needs together with ``item``.
    """
    if not isinstance(cells, pa.Array) or is_text(cells.type):
        return _parse_cells(cells), None if numbers is None else _parse_cells(numbers)
    if not is_list(cells.type):
        raise SourceError(
            f"column {name!r} of {where} has {describe_type(cells.type)} and no lists: if each "
            f"row has one item, give item and {order}"
        )
    return cells, numbers
