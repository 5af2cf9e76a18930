"""Lists of a table's rows, in either form: one list a row, or one item a row. Needs numpy, pandas and pyarrow, nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from monitor.errors import SourceError
from monitor.model import Pull, PullRequest
from monitor.model.arrays import Integers
from monitor.sources.arrow_lists import ArrowBatch, WantedUsers, join_batches, long_lists, merge_batches, wide_lists
from monitor.sources.columns import id_array, is_list, is_text, user_column, user_key, value_array
from monitor.sources.list_collector import ListCollector

if TYPE_CHECKING:
    from monitor.sources.table_options import ListColumnOptions

TableBatch = Mapping[str, Any]  # some rows: columns by name, Arrow arrays or sequences of Python values


@dataclass(frozen=True, kw_only=True)
class ListColumns:
    """Which columns hold users and lists, as in ``ListColumnOptions``, for where no option can be loaded."""

    user: str
    items: str | None
    item: str | None
    rank: str | None
    scores: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLists:
    """Lists of the requested users of a table, in either form.

    A null list is ``missing``; a null among the items, or two items of a user at one rank, ``malformed``; a user with two
    lists ``duplicate_user``.
    """

    options: ListColumnOptions | ListColumns
    request: PullRequest
    where: str
    max_bytes: int | None = None

    def pull(self, batches: Iterable[TableBatch]) -> Pull:
        """The lists that batches of the table hold. SourceError when its columns cannot hold lists."""
        batches, items = iter(batches), self.options.items
        with arrow_errors(self.where):
            if (first := next(batches, None)) is None:
                return self._cells(())
            batches = chain([first], batches)
            if items is not None:
                column = first[items]
                if not isinstance(column, pa.Array):
                    return self._cells(batches)
                if is_text(column.type):
                    return self._cells(map(self._python_values, batches))
                require_lists(column, items, self.where, "rank")
            return self._columns(batches)

    def _columns(self, batches: Iterable[TableBatch]) -> Pull:
        """Take lists and single items that are columns of Arrow's."""
        options, wanted, where = self.options, WantedUsers(self.request.users), self.where
        rows, columns = self._rows_of(wanted, batches)
        scores = columns[options.scores] if options.scores else None
        if options.items is not None:
            return wide_lists(wanted, rows, columns[options.items], scores, where)
        ranks = columns[options.rank] if options.rank else None
        return long_lists(wanted, rows, columns[str(options.item)], ranks, scores, where)

    def _rows_of(self, wanted: WantedUsers, batches: Iterable[TableBatch]) -> tuple[Integers, ArrowBatch]:
        """Whose each row is of the users asked, and the other columns of these rows; rows of others are dropped at once."""
        options, rows, kept, nbytes = self.options, list[Integers](), list[ArrowBatch](), 0
        names = [name for name in (options.items, options.item, options.rank, options.scores) if name is not None]
        columns = (arrow_arrays(batch, {options.rank, options.scores}) for batch in batches)
        for batch in merge_batches(columns, len(wanted)):
            found = wanted.rows(user_column(batch[options.user], f"the user column of {self.where}"))
            part = {name: batch[name] for name in names}
            is_wanted = found >= 0
            if not is_wanted.all():
                part, found = {name: part[name].filter(pa.array(is_wanted)) for name in names}, found[is_wanted]
            rows.append(found)
            kept.append(part)
            nbytes += found.nbytes + sum(column.nbytes for column in part.values())
            check_size(nbytes, self.max_bytes, self.where)
        return np.concatenate(rows), join_batches(kept)

    def _cells(self, batches: Iterable[TableBatch]) -> Pull:
        """Take lists that are Python values or the text of JSON."""
        options, wanted = self.options, set(self.request.users)
        lists = ListCollector(self.request.k, has_scores=options.scores is not None)
        for batch in batches:
            values = batch[str(options.items)]
            scores = batch[options.scores] if options.scores else [None] * len(values)
            for user, value, numbers in zip(map(user_key, batch[options.user]), values, scores, strict=True):
                if user is not None and user in wanted:
                    lists.add_cell(user, value, numbers)
            check_size(lists.nbytes, self.max_bytes, self.where)
        return lists.pull()

    def _python_values(self, batch: TableBatch) -> TableBatch:
        user = self.options.user
        users = user_column(batch[user], f"column {user!r} of {self.where}")
        return {name: (users if name == user else column).to_pylist() for name, column in batch.items()}


@contextmanager
def arrow_errors(where: str) -> Iterator[None]:
    """Turn pyarrow's errors over what rows hold into a SourceError of one line."""
    try:
        yield
    except pa.ArrowException as error:
        msg = f"{where} cannot be understood: {(str(error).splitlines() or ['no reason given'])[0][:200]}"
        raise SourceError(msg) from None


def check_size(nbytes: int, most: int | None, where: str) -> None:
    """SourceError when what is kept of a table grew beyond its limit."""
    if most is not None and nbytes > most:
        msg = f"{where} holds more than {most} bytes for the users asked: sample fewer users, or raise max_bytes"
        raise SourceError(msg)


def arrow_arrays(batch: TableBatch, numbers: Collection[str | None] = ()) -> dict[str, pa.Array]:
    """The batch with Arrow arrays only: ids, or numbers in the columns of these names."""
    return {name: arrow_array(column, is_number=name in numbers) for name, column in batch.items()}


def arrow_array(column: Any, *, is_number: bool = False) -> pa.Array:  # noqa: ANN401 - pyarrow has no stubs
    """A column as an Arrow array, of ids or numbers where it holds Python values."""
    if isinstance(column, pa.Array):
        return column
    return value_array(column) if is_number else id_array(column)


def require_lists(column: pa.Array, name: str, where: str, beside: str) -> None:
    """SourceError when the column does not hold lists."""
    if not is_list(column.type):
        msg = f"column {name!r} of {where} holds {column.type}, expected lists: for one item a row give item and {beside}"
        raise SourceError(msg)
