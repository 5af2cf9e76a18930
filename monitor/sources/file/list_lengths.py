"""Says how long the lists of a file are, for a note if they are longer than k."""

from datetime import datetime

from monitor.sources.file import FileSourceOptions
from monitor.sources.file.database import FileView, open_database
from monitor.sources.file.file_set import find_files
from monitor.sources.file.formats import sql_name

_FIRST_ROWS = 20_000


def count_longest(options: FileSourceOptions, slot: datetime) -> int:
    """Return the most items of a list in the first rows of the file.

    It is 0 if some values fill up short lists, because these are no items. Raises SourceError if
    the file cannot be read.
    """
    if options.no_item:
        return 0
    files = find_files(options, slot)
    with open_database([files]) as database:
        view = FileView(database, files, options.columns, "listed")
        rows = f"(SELECT * FROM {view.name} LIMIT {_FIRST_ROWS})"
        ((longest,),) = database.execute(_length_query(options, view, rows)).fetchall()
    return longest or 0


def _length_query(options: FileSourceOptions, view: FileView, rows: str) -> str:
    if options.items is None:
        item = sql_name(str(options.item))
        user = sql_name(options.user)
        counts = f"SELECT count(DISTINCT {item}) AS items FROM {rows} GROUP BY {user}"
        return f"SELECT max(items) FROM ({counts})"
    items = sql_name(options.items)
    if view.is_list(options.items):
        return f"SELECT max(len({items})) FROM {rows}"
    text = f"CASE WHEN json_valid({items}) THEN {items} END"
    return f"SELECT max(json_array_length({text})) FROM {rows}"
