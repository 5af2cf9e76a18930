"""Files as tables, and lists from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from monitor.deadline import Deadline, OverdueError
from monitor.model import CoverageReason, Pull, PullRequest
from monitor.sources.file import FileOptions, FileSourceOptions
from monitor.sources.file.formats import read_batches
from monitor.sources.list_collector import failed_pull
from monitor.sources.slot_templates import fill_slot
from monitor.sources.table_readers import (
    TableBatch,
    TableItemTitles,
    TableItemWeights,
    TableLists,
    TableRelevance,
    TableUsers,
    over_table,
)


class FileTable:
    """One file a slot, read anew each time. Port: Table."""

    def __init__(self, options: FileOptions) -> None:
        self._options = options
        self.max_bytes = options.max_bytes

    def where(self, slot: datetime) -> str:
        """The path of the slot's file."""
        return fill_slot(self._options.path, slot)

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Rows of the slot's file; at least one batch, even when it has no row."""
        return read_batches(Path(self.where(slot)), self._options.format, columns, self.max_bytes)

    def close(self) -> None:
        """Nothing is held between reads."""


class FileSource:
    """One arm's lists from a file, read anew each pull. Port: Source.

    When the deadline passes, everybody is ``timeout``: half a file is no answer.
    """

    def __init__(self, options: FileSourceOptions) -> None:
        self._options = options
        self._table = FileTable(options)

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        where, options = self._table.where(request.slot), self._options
        lists = TableLists(options=options, request=request, where=where, max_bytes=options.max_bytes)
        batches = self._table.batches(request.slot, options.columns)
        try:
            return lists.pull(_in_time(batches, Deadline.after(request.timeout_s)))
        except OverdueError:
            return failed_pull(request.users, CoverageReason.TIMEOUT, f"{where} was not read in time")

    def close(self) -> None:
        """Nothing is held between pulls."""


def _in_time(batches: Iterator[TableBatch], deadline: Deadline) -> Iterator[TableBatch]:
    for batch in batches:
        deadline.require_time()
        yield batch


file_users = over_table(TableUsers, FileTable)
file_item_weights = over_table(TableItemWeights, FileTable)
file_item_titles = over_table(TableItemTitles, FileTable)
file_relevance = over_table(TableRelevance, FileTable)
