"""FileRelevance: what users found relevant, from a file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa

from monitor.errors import SourceError
from monitor.model import RelevanceTable
from monitor.sources.columns import is_list, is_text, user_column
from monitor.sources.file.formats import Batch, MissingFileError, arrow, check_size, read_batches
from monitor.sources.file.options import FileRelevanceOptions
from monitor.sources.relevance import GradedItems
from monitor.sources.templates import fill_slot


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

    def _take_rows(self, graded: GradedItems, batch: Batch, path: Path) -> None:
        del path
        options = self._options
        grades = arrow(batch[options.grade], is_number=True) if options.grade else None
        graded.add_rows(arrow(batch[options.user]), arrow(batch[str(options.item)]), grades)

    def _take_lists(self, graded: GradedItems, batch: Batch, path: Path) -> None:
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
