"""Checks files of each format, and makes the query by which DuckDB reads their columns.

Values of CSV files stay text. Each value of JSON lines is read as a text in JSON.
"""

import csv
import difflib
import io
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from monitor.boundary.temporary_database import sql_text
from monitor.measures.reading.ids import describe_type, is_list, is_text
from monitor.model.errors import SourceError
from monitor.sources.columns import require_columns, root_of
from monitor.sources.file.diagnosis import utf16_fault
from monitor.sources.file.file_set import MAX_LINE_BYTES, FileSet, opened_parquet, source_errors

_SEPARATORS = {"csv": ",", "tsv": "\t"}
_LONGEST_LIST = 100_000  # the number of items
_LONGEST_HEADER = 1 << 20  # the number of bytes
_MOST_COLUMNS = 4000
_FIRST_OBJECTS = 10_000
_LINES = f"format = 'newline_delimited', maximum_object_size = {MAX_LINE_BYTES}"
"""Options of DuckDB for JSON lines."""


def sql_name(name: str) -> str:
    """Return the name of a column, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def select_rows(
    database: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]
) -> tuple[str, set[str]]:
    """Return the query for these columns, and the names of those that contain 16-bit floats.

    Raises SourceError if a file cannot be read or lacks one of the columns.
    """
    halves = set[str]()
    if files.format == "parquet":
        rows, halves = _select_parquet(files, columns)
    elif files.format == "jsonl":
        rows = _select_jsonl(database, files, columns)
    else:
        rows = _select_csv(files, columns)
    return _uuids_as_text(database, rows), halves


def find_columns(database: duckdb.DuckDBPyConnection, files: FileSet) -> list[str]:
    """Return the names of the first file's columns. For JSON lines, the first objects' keys.

    Raises SourceError if the file cannot be read.
    """
    path = files.paths[0]
    if files.format == "parquet":
        with source_errors(path), opened_parquet(files, path) as file:
            return list(file.schema_arrow.names)
    if files.format == "jsonl":
        objects = f"SELECT json {_objects(files)} LIMIT {_FIRST_OBJECTS}"
        keys = f"SELECT DISTINCT unnest(json_keys(json)) FROM ({objects})"
        return [key for (key,) in database.execute(keys).fetchall()]
    return _csv_header(files, path)[0]


def _select_parquet(files: FileSet, columns: Sequence[str]) -> tuple[str, set[str]]:
    halves = set[str]()
    first_kinds: dict[str, pa.DataType] = {}
    options = "hive_partitioning = false"
    for path in files.paths:
        with source_errors(path), opened_parquet(files, path) as file:
            schema = file.schema_arrow
            roots = {name: root_of(name, schema.names) for name in columns}
            _require_once(tuple(roots.values()), schema.names, path)
            _refuse_long_lists(file.metadata, tuple(roots.values()), path)
            for name, root in roots.items():
                kind = schema.field(root).type
                first = first_kinds.setdefault(name, kind)
                if pa.types.is_float16(kind.value_type if is_list(kind) else kind):
                    halves.add(name)
                if first != kind:  # union_by_name takes more memory
                    options = "hive_partitioning = false, union_by_name = true"
                if len({_family_of_type(first), _family_of_type(kind)} - {_NULLS}) > 1:
                    raise SourceError(
                        f"column {name!r} has {describe_type(kind)} in {path}, but "
                        f"{describe_type(first)} in {files.paths[0]}: write the same type in "
                        "all parts"
                    )
    selected = []
    for name, root in roots.items():
        value = _field_sql(name, root, schema.field(root).type)
        selected.append(f"{value} AS {sql_name(name)}")
    return f"SELECT {', '.join(selected)} FROM read_parquet({_paths(files)}, {options})", halves


def _uuids_as_text(database: duckdb.DuckDBPyConnection, rows: str) -> str:
    """Return the rows, with UUIDs and lists of UUIDs converted to text."""
    table = database.sql(f"SELECT * FROM ({rows}) LIMIT 0")
    texts = {"UUID": "VARCHAR", "UUID[]": "VARCHAR[]"}
    casts = []
    for name, kind in zip(table.columns, map(str, table.types), strict=True):
        if kind in texts:
            casts.append(f"CAST({sql_name(name)} AS {texts[kind]}) AS {sql_name(name)}")
    if not casts:
        return rows
    return f"SELECT * REPLACE ({', '.join(casts)}) FROM ({rows})"


_NULLS = "nulls"


def _family_of_type(kind: pa.DataType) -> str:
    """Return the family of a type.

    If a column has the same family in all parts, reading the parts together changes no id.
    """
    if is_list(kind):
        inner = _family_of_type(kind.value_type)
        return inner if inner == _NULLS else f"lists of {inner}"
    if pa.types.is_null(kind):
        return _NULLS
    if is_text(kind):
        return "text"
    if pa.types.is_integer(kind):
        return "integers"
    return str(kind)


def _field_sql(name: str, root: str, kind: pa.DataType) -> str:
    """The SQL expression for a column, or for a field of its objects or of objects in its lists."""
    value = sql_name(root)
    for field in name.removeprefix(root).split(".")[1:]:
        is_listed = is_list(kind)
        struct = kind.value_type if is_listed else kind
        names = [inner.name for inner in struct] if pa.types.is_struct(struct) else []
        require_columns([field], names, f"column {root!r}")
        kind = struct.field(field).type
        if is_listed:
            kind = pa.list_(kind)
            value = f"list_transform({value}, lambda item: item.{sql_name(field)})"
        else:
            value += f".{sql_name(field)}"
    return value


def _refuse_long_lists(metadata: Any, columns: Sequence[str], path: str) -> None:  # noqa: ANN401
    for group_number in range(metadata.num_row_groups):
        group = metadata.row_group(group_number)
        for column_number in range(group.num_columns):
            chunk = group.column(column_number)
            root = chunk.path_in_schema.partition(".")[0]
            length = chunk.num_values / max(1, group.num_rows)
            if root in columns and length > _LONGEST_LIST:
                raise SourceError(
                    f"{path} has lists of {int(length)} items: write at most {_LONGEST_LIST} items"
                )


def _select_csv(files: FileSet, columns: Sequence[str]) -> str:
    headers = [_csv_header(files, path) for path in files.paths]
    paths = [files.name_of(path) for path in files.paths]
    for path, header in zip(paths, headers, strict=True):
        _require_known_header(columns, header[0], path)
        _require_once(columns, header[0], path)
        if header != headers[0]:
            raise SourceError(
                f"the header or the line ends of {path} differ from those of {paths[0]}: "
                "write the same header and line ends in all parts"
            )
    names, line_end = headers[0]
    options = (
        f"auto_detect = false, header = true, delim = '{_SEPARATORS[files.format]}', quote = '\"', "
        f"escape = '\"', new_line = '{line_end}'"
    )
    types = ", ".join(f"c{number}: 'VARCHAR'" for number in range(len(names)))
    selected = ", ".join(f"c{names.index(name)} AS {sql_name(name)}" for name in columns)
    return f"SELECT {selected} FROM read_csv({_paths(files)}, {options}, columns = {{{types}}})"


def _require_known_header(columns: Sequence[str], names: Sequence[str], path: str) -> None:
    """Raise SourceError if the first line names none of these columns.

    The error repeats no word of the file, because a wrong path may lead to a file of passwords.
    """
    if not any(difflib.get_close_matches(column, names, n=1) for column in columns):
        wanted = ", ".join(map(repr, columns))
        raise SourceError(
            f"{path} has no column {wanted}: check the path, and check the names in the first line"
        )


def _csv_header(files: FileSet, path: str) -> tuple[list[str], str]:
    """Return the names in a file's first line, and the file's line end as an escape.

    DuckDB could find both too, but it would use unlimited memory.
    """
    name = files.name_of(path)
    with source_errors(name):
        head = files.read_head(path, _LONGEST_HEADER)
    fault = utf16_fault(head, name)
    if fault is not None:
        raise SourceError(fault)
    content = head.decode("utf-8-sig", errors="replace")
    header = content.splitlines(keepends=True)[0] if content else ""
    line_end = header[len(header.rstrip("\r\n")) :]
    separator = _SEPARATORS[files.format]
    try:
        names = next(csv.reader(io.StringIO(content, newline=""), delimiter=separator), [])
    except csv.Error:
        names = []
    is_cut = len(head) == _LONGEST_HEADER and not line_end
    if not names or len(names) > _MOST_COLUMNS or is_cut:
        raise SourceError(
            f"{name} does not begin with a header of 1 to {_MOST_COLUMNS} columns: write the "
            "names of the columns in the first line"
        )
    others = sorted(set(";\t|,").intersection(names[0]) - {separator})
    if len(names) == 1 and others:
        raise SourceError(
            f"the header of {name} is one column with {others[0]!r} in it: write {separator!r} "
            "between values"
        )
    return names, {"\r\n": "\\r\\n", "\r": "\\r"}.get(line_end, "\\n")


def _select_jsonl(
    database: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]
) -> str:
    objects = _objects(files)
    roots = {name: name for name in columns}
    if any("." in name for name in columns):
        for (keys,) in database.execute(f"SELECT json_keys(json) {objects} LIMIT 1").fetchall():
            roots = {name: root_of(name, keys) for name in columns}
    distinct = dict.fromkeys(roots.values())
    types = ", ".join(f"{sql_text(root)}: 'JSON'" for root in distinct)
    options = f"{_LINES}, records = 'true', columns = {{{types}}}"
    rows = f"FROM read_json({_paths(files)}, {options})"
    # If no row has a column, its name is wrong. A row that lacks the column has null. The first row
    # usually has all columns, so one query is enough.
    has_value = {root: f"{sql_name(root)} IS NOT NULL" for root in distinct}
    first = f"SELECT {' AND '.join(has_value.values())} {rows} LIMIT 1"
    if database.execute(first).fetchall() != [(True,)]:
        for root, condition in has_value.items():
            if not database.execute(f"SELECT 1 {rows} WHERE {condition} LIMIT 1").fetchall():
                _require_key(database, objects, root, files.where)
    selected = []
    for name, root in roots.items():
        selected.append(f"{_json_field_sql(name, root)} AS {sql_name(name)}")
    return f"SELECT {', '.join(selected)} {rows}"


def _objects(files: FileSet) -> str:
    return f"FROM read_json_objects({_paths(files)}, {_LINES})"


def _json_field_sql(name: str, root: str) -> str:
    value = sql_name(root)
    for field in name.removeprefix(root).split(".")[1:]:
        path = sql_text('$."' + field.replace('"', '\\"') + '"')
        fields = f"to_json(list_transform(CAST({value} AS JSON[]), lambda item: item -> {path}))"
        value = f"CASE WHEN json_type({value}) = 'ARRAY' THEN {fields} ELSE {value} -> {path} END"
    return value


def _require_key(
    database: duckdb.DuckDBPyConnection,
    rows: str,
    name: str,
    where: str,
) -> None:
    """Raise SourceError if no object has this key."""
    has_key = f"list_contains(json_keys(json), {sql_text(name)})"
    if not database.execute(f"SELECT 1 {rows} WHERE {has_key} LIMIT 1").fetchall():
        for (keys,) in database.execute(f"SELECT json_keys(json) {rows} LIMIT 1").fetchall():
            require_columns([name], keys, where)


def _require_once(columns: Sequence[str], present: Sequence[str], where: str) -> None:
    require_columns(columns, present, where)
    names = [name.lower() for name in present]  # because SQL ignores upper and lower case
    for name in columns:
        if names.count(name.lower()) > 1:
            raise SourceError(
                f"{where} has several columns {name!r} if upper and lower case are ignored: "
                "rename all but one of them"
            )


def _paths(files: FileSet) -> str:
    return f"[{', '.join(map(sql_text, files.paths))}]"
