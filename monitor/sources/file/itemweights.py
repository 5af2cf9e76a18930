"""FileItemWeights: weights of items from a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from monitor.model import ItemWeights
from monitor.sources.file.formats import arrows, check_size, read_batches
from monitor.sources.file.options import FileItemWeightsOptions
from monitor.sources.itemweights import item_weights
from monitor.sources.templates import fill_slot


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
            columns = arrows(batch, {options.weight})
            size += sum(column.nbytes for column in columns.values())
            check_size(size, options.max_bytes, path)
            yield columns[options.item], columns[options.weight]
