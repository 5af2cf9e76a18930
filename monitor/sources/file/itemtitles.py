"""FileItemTitles: titles of items from a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from monitor.sources.file.formats import arrow, read_batches
from monitor.sources.file.options import FileItemTitlesOptions
from monitor.sources.itemtitles import Column, item_titles
from monitor.sources.templates import fill_slot


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

    def _batches(self, path: Path) -> Iterator[tuple[pa.Array, Column]]:
        options = self._options
        for batch in read_batches(path, options.format, (options.item, options.title), options.max_bytes):
            yield arrow(batch[options.item]), batch[options.title]
