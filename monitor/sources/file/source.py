"""Files as tables, and what is read from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from monitor.slot_templates import fill_slot
from monitor.sources.file import FileOptions
from monitor.sources.file.formats import read_batches
from monitor.sources.table_readers import (
    TableBatch,
    TableItemTitles,
    TableItemWeights,
    TableRelevance,
    TableSource,
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


file_lists = over_table(TableSource, FileTable)
file_users = over_table(TableUsers, FileTable)
file_item_weights = over_table(TableItemWeights, FileTable)
file_item_titles = over_table(TableItemTitles, FileTable)
file_relevance = over_table(TableRelevance, FileTable)
