"""Lists, users, item weights, item titles and relevance from files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from monitor.deadline import Deadline, OverdueError
from monitor.errors import SourceError
from monitor.model import CoverageReason, ItemWeights, Pull, PullRequest, RelevanceTable, UserTable
from monitor.sources.arrow_lists import LongLists, WantedUsers, WideLists, merge_batches
from monitor.sources.file.formats import FileBatch, MissingFileError, arrow_array, arrow_arrays, check_size, read_batches
from monitor.sources.file.options import (
    FileItemTitlesOptions,
    FileItemWeightsOptions,
    FileRelevanceOptions,
    FileSourceOptions,
    FileUsersOptions,
)
from monitor.sources.graded_items import GradedItems
from monitor.sources.id_columns import is_list, is_text, user_column, user_key
from monitor.sources.list_collector import ListCollector, failed_pull
from monitor.sources.lookup_tables import TitleColumn, item_titles, item_weights, label_array, user_table
from monitor.sources.slot_templates import fill_slot


class FileSource:
    """One arm's lists from a file, read anew each pull. Port: Source.

    A null list is ``missing``; a null among the items, or two items of a user at one rank, ``malformed``; a user with two
    lists ``duplicate_user``. When the deadline passes, everybody is ``timeout``: half a file says nothing.
    """

    def __init__(self, options: FileSourceOptions) -> None:
        self._options = options

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        path = Path(fill_slot(self._options.path, request.slot))
        deadline = Deadline.after(request.timeout_s)
        read = self._wide if self._options.items else self._long
        try:
            return read(path, request, deadline)
        except OverdueError:
            return failed_pull(request.users, CoverageReason.TIMEOUT, f"{path} was not read in time")
        except pa.ArrowException as error:
            msg = f"{path} cannot be understood: {(str(error).splitlines() or ['no reason given'])[0][:200]}"
            raise SourceError(msg) from None

    def close(self) -> None:
        """Nothing is held between pulls."""

    def _batches(self, path: Path, deadline: Deadline) -> Iterator[FileBatch]:
        for batch in read_batches(path, self._options.format, self._options.columns, self._options.max_bytes):
            deadline.require_time()
            yield batch

    def _long(self, path: Path, request: PullRequest, deadline: Deadline) -> Pull:
        options, lists = self._options, LongLists(WantedUsers(request.users), str(path))
        batches = (arrow_arrays(batch, options.numbers) for batch in self._batches(path, deadline))
        for batch in merge_batches(batches, len(request.users)):
            lists.add(
                batch[options.user],
                batch[str(options.item)],
                ranks=batch[options.rank] if options.rank else None,
                scores=batch[options.scores] if options.scores else None,
            )
            check_size(lists.nbytes, options.max_bytes, path)
        return lists.pull()

    def _wide(self, path: Path, request: PullRequest, deadline: Deadline) -> Pull:
        user, items, scores = self._options.user, str(self._options.items), self._options.scores
        batches = self._batches(path, deadline)
        first = next(batches)
        rest = chain([first], batches)
        if not isinstance(first[items], pa.Array):
            return self._collect(rest, request, path)
        if is_text(first[items].type):
            return self._collect((_texts(batch, user, path) for batch in rest), request, path)
        if not is_list(first[items].type):
            msg = f"column {items!r} of {path} holds {first[items].type}, expected lists: for one item a row give item and rank"
            raise SourceError(msg)
        lists = WideLists(WantedUsers(request.users), str(path))
        for batch in merge_batches(map(arrow_arrays, rest), len(request.users)):
            lists.add(batch[user], batch[items], batch[scores] if scores else None)
            check_size(lists.nbytes, self._options.max_bytes, path)
        return lists.pull()

    def _collect(self, batches: Iterable[Mapping[str, Sequence[object]]], request: PullRequest, path: Path) -> Pull:
        """Take lists that are Python values or JSON text."""
        options = self._options
        wanted, lists = set(request.users), ListCollector(request.k, has_scores=options.scores is not None)
        for batch in batches:
            values = batch[str(options.items)]
            scores = batch[options.scores] if options.scores else [None] * len(values)
            for user, value, numbers in zip(map(user_key, batch[options.user]), values, scores, strict=True):
                if user is not None and user in wanted:
                    lists.add_cell(user, value, numbers)
            check_size(lists.nbytes, options.max_bytes, path)
        return lists.pull()


class FileUsers:
    """Users from a file, read anew each time. Port: UserSource."""

    def __init__(self, options: FileUsersOptions) -> None:
        self._options = options

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the file with these columns as segments."""
        path = Path(fill_slot(self._options.path, slot))
        columns = list(dict.fromkeys([self._options.user, *dimensions]))
        rows, size = [], 0
        for batch in read_batches(path, self._options.format, columns, self._options.max_bytes):
            users = arrow_array(batch[self._options.user])
            segments = {name: _segment(batch[name], name, path) for name in dimensions}
            rows.append((users, segments))
            size += users.nbytes + sum(column.nbytes for column in segments.values())
            check_size(size, self._options.max_bytes, path)
        return user_table(rows, str(path))

    def close(self) -> None:
        """Nothing is held between reads."""


def _texts(batch: FileBatch, user: str, path: Path) -> dict[str, list[object]]:
    """A batch of arrow columns as Python values."""
    users = user_column(batch[user], f"column {user!r} of {path}")
    return {name: (users if name == user else column).to_pylist() for name, column in batch.items()}


def _segment(column: Any, name: str, path: Path) -> pa.Array:  # noqa: ANN401 - pyarrow has no stubs
    return column if isinstance(column, pa.Array) else label_array(column, name, str(path))


class FileItemWeights:
    """Weights of items from a file, read anew each time. Port: ItemWeightSource."""

    def __init__(self, options: FileItemWeightsOptions) -> None:
        self._options = options

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights of the file as of this slot."""
        path = Path(fill_slot(self._options.path, slot))
        return item_weights(self._batches(path), str(path))

    def close(self) -> None:
        """Nothing is held between reads."""

    def _batches(self, path: Path) -> Iterator[tuple[pa.Array, pa.Array]]:
        options, size = self._options, 0
        for batch in read_batches(path, options.format, (options.item, options.weight), options.max_bytes):
            columns = arrow_arrays(batch, {options.weight})
            size += sum(column.nbytes for column in columns.values())
            check_size(size, options.max_bytes, path)
            yield columns[options.item], columns[options.weight]


class FileItemTitles:
    """Titles of items from a file, read anew each time. Port: ItemTitleSource."""

    def __init__(self, options: FileItemTitlesOptions) -> None:
        self._options = options

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles that the file has of these items as of this slot."""
        path = Path(fill_slot(self._options.path, slot))
        return item_titles(self._batches(path), items, str(path))

    def close(self) -> None:
        """Nothing is held between reads."""

    def _batches(self, path: Path) -> Iterator[tuple[pa.Array, TitleColumn]]:
        options = self._options
        for batch in read_batches(path, options.format, (options.item, options.title), options.max_bytes):
            yield arrow_array(batch[options.item]), batch[options.title]


class FileRelevance:
    """What users found relevant from a file, read anew each time. Port: RelevanceSource.

    A file without a row has arrived and says that nobody found anything relevant.
    """

    def __init__(self, options: FileRelevanceOptions) -> None:
        self._options = options

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What the file of this slot says; None while there is none."""
        path = Path(fill_slot(self._options.path, slot))
        options, graded = self._options, GradedItems(str(path))
        take = self._take_rows if options.item else self._take_lists
        try:
            for batch in read_batches(path, options.format, options.columns, options.max_bytes):
                take(graded, batch, path)
                check_size(graded.nbytes, options.max_bytes, path)
        except MissingFileError:
            return None
        except pa.ArrowException as error:
            msg = f"{path} cannot be understood: {(str(error).splitlines() or ['no reason given'])[0][:200]}"
            raise SourceError(msg) from None
        return graded.table()

    def close(self) -> None:
        """Nothing is held between reads."""

    def _take_rows(self, graded: GradedItems, batch: FileBatch, path: Path) -> None:
        del path
        options = self._options
        grades = arrow_array(batch[options.grade], is_number=True) if options.grade else None
        graded.add_rows(arrow_array(batch[options.user]), arrow_array(batch[str(options.item)]), grades)

    def _take_lists(self, graded: GradedItems, batch: FileBatch, path: Path) -> None:
        options, lists = self._options, batch[str(self._options.items)]
        users, grades = batch[options.user], batch[options.grades] if options.grades else None
        if not isinstance(lists, pa.Array):
            graded.add_cells(users, lists, grades)
        elif is_text(lists.type):
            users = user_column(users, f"column {options.user!r} of {path}")
            graded.add_cells(users.to_pylist(), lists.to_pylist(), None if grades is None else grades.to_pylist())
        elif is_list(lists.type):
            graded.add_lists(users, lists, grades)
        else:
            msg = (
                f"column {options.items!r} of {path} holds {lists.type}, expected lists: for one item a row give item and grade"
            )
            raise SourceError(msg)
