"""A database in memory (DuckDB) that reads files, and views of these files.

The values of CSV files stay text. The values of JSON lines are the text of JSON.
"""

import csv
import difflib
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from monitor.boundary.deadline import (
    Deadline,
    interrupt_when_given_up,
    interrupted_at,
    interrupted_by_signals,
)
from monitor.boundary.options import format_duration
from monitor.boundary.scratch import scratch_database, sql_text
from monitor.measures.reading.ids import (
    MAX_ID_LENGTH,
    describe_type,
    id_column,
    is_list,
    is_text,
    one_array,
)
from monitor.measures.reading.lists import parse_cell, parse_column
from monitor.measures.reading.tally import unreadable_of
from monitor.model.errors import SourceError
from monitor.model.id_forms import Forms
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.sources.columns import require_columns, root_of, spell_column
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.diagnosis import MEMORY_MB, file_errors, utf16_fault
from monitor.sources.file.file_set import LONGEST_LINE, FileSet, opened_parquet, source_errors
from monitor.sources.table_options import (
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    SECONDS,
    ServedOptions,
)

KEY = "rankwatch_key"
"""The name of the column of users' keys in our views."""
PLACE = "rankwatch_place"
"""The name of the column of row numbers, for files whose rows are in order."""
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_THREADS = 2  # with more threads, each thread has too little memory

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_SPAN = timedelta(days=365 * 1900) // _MICROSECOND  # in microseconds
_LONGEST_TEXT = 1 << 18  # the number of bytes
_LONGEST_LIST = 100_000  # the number of items
_LONGEST_HEADER = 1 << 20  # the number of bytes
_MOST_COLUMNS = 4000


@contextmanager
def open_database(
    files: Sequence[FileSet],
    deadline: Deadline | None = None,
    *,
    k: int = 1,
    in_order: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that can read only these files.

    ``in_order`` says whether the order of the rows matters. ``k`` is the number of items in a list.

    A query ends at the deadline, at a signal, or if the caller no longer waits.

    Raises:
        OverdueError: The deadline passed.
        SourceError: The files cannot be read.
    """
    memory_mb = MEMORY_MB * max(50, min(k, 100)) // 50
    paths: list[str] = []
    stores = {}
    for file_set in files:
        paths += file_set.paths
        if file_set.store is not None:
            stores[id(file_set.store)] = file_set.store
    with (
        file_errors(files, deadline),
        scratch_database(
            f"{memory_mb}MB",
            paths,
            threads=_THREADS,
            stores=stores.values(),
            in_order=in_order,
        ) as database,
        interrupted_at(deadline, database.interrupt),
        interrupt_when_given_up(database.interrupt),
        interrupted_by_signals(database.interrupt),
    ):
        yield database


def sql_name(name: str) -> str:
    """The name of a column, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


class FileView:
    """A view of files with these columns.

    If the files are a log, the view has only the rows of the slot's lists. Raises SourceError if
    the files cannot be read or lack one of the columns.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        columns: Sequence[str],
        name: str,
        log: FileSourceOptions | FileUsersOptions | None = None,
    ) -> None:
        self.name = name
        self.where = files.where
        self.is_json = files.format == "jsonl"
        self.unreadable: tuple[Unreadable, ...] = ()
        self._database = database
        served = None if log is None else log.served
        if served is not None:
            log_columns = [served.time, *served.arm]
            if served.request is not None:
                log_columns.append(served.request)
            columns = tuple(dict.fromkeys([*columns, *log_columns]))
        with file_errors([files]):
            file_columns = [column for column in columns if column != PLACE]
            rows = _READERS[files.format](database, files, file_columns)
            if PLACE in columns:
                rows = f"SELECT *, row_number() OVER () AS {PLACE} FROM ({rows})"
            database.execute(f"CREATE TEMP VIEW {name} AS {_uuids_as_text(database, rows)}")
            view = database.sql(f"SELECT * FROM {name} LIMIT 0")
            empty = view.to_arrow_table()
        self._types = dict(zip(view.columns, view.types, strict=True))
        self._functions = 0
        self._empty = {column: empty[column].combine_chunks() for column in columns}
        self._halves = set[str]()
        if files.format == "parquet":
            self._halves = _half_floats(files, columns)
            self._refuse_long_texts()
        if log is not None and served is not None:
            self._select_served(served, log, files.slot)

    def empty(self, columns: Sequence[str]) -> dict[str, Any]:
        """These columns, without any rows."""
        return {name: self.values(name, self._empty[name]) for name in columns}

    def values(self, name: str, column: pa.Array) -> Any:  # noqa: ANN401 - pyarrow has no stubs
        """A column of the view. For JSON lines, these are the values of the JSON texts."""
        if name in self._halves:
            # DuckDB reads 16-bit floats as 32-bit floats. These can represent more whole numbers.
            half = pa.float16()
            return column.cast(pa.list_(half) if is_list(column.type) else half)
        if not self.is_json:
            return column
        return parse_column(column.to_pylist())

    def is_list(self, column: str) -> bool:
        """Whether a column has lists. Lists that are written as text are no lists."""
        return is_list(self._empty[column].type)

    def ids(self, column: str, forms: Forms = None) -> str:
        """The SQL expression for the ids in a column as text, rewritten in these forms.

        It is null if a value is no id. Raises SourceError if the type of the column cannot be ids.
        """
        id_column(self.values(column, self._empty[column]), column, self.where)
        value = sql_name(column)
        kind: object = self._types[column]
        if self.is_json:
            value = f"CAST({value} AS VARCHAR)"
            kind = "VARCHAR"
        if self.is_json or is_text(self._empty[column].type):
            value = _short_text(value)

        def read(cells: pa.Array) -> pa.Array:
            ids = id_column(self.values(column, one_array(cells)), column, self.where)
            return spell_column(ids.cast(pa.large_string()), forms).cast(pa.string())

        function = f"ids_{self._functions}_{self.name}"
        self._functions += 1
        self._database.create_function(
            function, read, [kind], "VARCHAR", type="arrow", null_handling="special"
        )  # type: ignore[call-overload]
        if forms or self.is_json or kind != "VARCHAR":
            return f"{function}({value})"
        # Reading plain text in Python would double the time of a query of ids.
        text = sql_name(column)
        return f"CASE WHEN {_is_plain(text)} THEN {text} ELSE {function}({value}) END"

    def count_unreadable(
        self, rows: str, checks: Sequence[tuple[str, Need, str]]
    ) -> tuple[Unreadable, ...]:
        """Count the unreadable values of these rows.

        A check has a column, what the column needs, and an SQL condition. The condition is true for
        unreadable values.
        """
        return self.count(rows, checks)[0]

    def count(
        self, rows: str, checks: Sequence[tuple[str, Need, str]], more: Sequence[str] = ()
    ) -> tuple[tuple[Unreadable, ...], list[int]]:
        """`count_unreadable`, and the values of more SQL aggregates in the same pass."""
        filters = [f"count(*) FILTER (WHERE {condition})" for _, _, condition in checks]
        query = f"SELECT {', '.join(['count(*)', *filters, *more])} FROM {rows}"
        ((total, *counts),) = self._database.execute(query).fetchall()
        unreadable = []
        for (column, need, condition), count in zip(checks, counts, strict=False):
            if count:
                query = f"SELECT {sql_name(column)} FROM {rows} WHERE {condition} LIMIT 1"
                example = self._database.sql(query).to_arrow_table().column(0)[0].as_py()
                if self.is_json:
                    example = parse_cell(example)
                unreadable.append(unreadable_of(self.where, column, need, count, total, example))
        return tuple(unreadable), counts[len(checks) :]

    def label(self, column: str) -> str:
        """The SQL expression for the segment values in a column.

        It is null for text that cannot be a segment value. Lists and objects of JSON lines are null
        too.
        """
        name = sql_name(column)
        if self.is_json:
            is_other = f"json_type({name}) NOT IN ('ARRAY', 'OBJECT', 'VARCHAR')"
            other = f"CASE WHEN {is_other} THEN CAST({name} AS VARCHAR) END"
            return f"coalesce({self.ids(column)}, {other})"
        if is_text(self._empty[column].type):
            return self.ids(column)
        return name

    def raw_text(self, column: str) -> str:
        """The SQL expression for all values in a column as text."""
        if self.is_json:
            return f"({sql_name(column)} ->> '$')"
        return f"CAST({sql_name(column)} AS VARCHAR)"

    def item(self, column: str) -> str:
        """The SQL expression for the ids in a column. It is null if a text is too long."""
        name = sql_name(column)
        if not self.is_json and is_text(self._empty[column].type):
            return _short_text(name)
        return name

    def items(self, column: str, k: int | None) -> str:
        """The SQL expression for the lists in a column, cut to k, or for the texts of the lists."""
        lists = sql_name(column)
        if not self.is_list(column):
            return lists
        if k is not None:
            lists += f"[:{k}]"
        if is_text(self._empty[column].type.value_type):
            return f"list_transform({lists}, lambda item: {_short_text('item')})"
        return lists

    def _select_served(
        self,
        served: ServedOptions,
        log: FileSourceOptions | FileUsersOptions,
        slot: datetime,
    ) -> None:
        """Select the rows of each user's newest list of the slot.

        If two lists of a user have the same time, the list with the greater request id is selected.
        """
        execute = self._database.execute
        conditions = ["TRUE"]
        for column, value in served.arm.items():
            conditions.append(f"{self.ids(column)} = {sql_text(value)}")
        time = _instant_sql(self.raw_text(served.time))
        checks = [
            (served.time, Need.TIMES, "rankwatch_at IS NULL"),
            (log.user, Need.IDS, "rankwatch_to IS NULL"),
        ]
        request = "rankwatch_at"
        if served.request is not None:
            request = self.ids(served.request)
            checks.append((served.request, Need.IDS, "rankwatch_as IS NULL"))
        arm = f"arm_{self.name}"
        execute(
            f"CREATE TEMP VIEW {arm} AS SELECT *, {self.ids(log.user)} AS rankwatch_to, {time} "
            f"AS rankwatch_at, {request} AS rankwatch_as FROM {self.name} "
            f"WHERE {' AND '.join(conditions)}"
        )
        self.unreadable = self.count_unreadable(arm, checks)
        require_readable(self.unreadable, log.max_unreadable)
        end = (slot - _EPOCH) // _MICROSECOND
        start = end - served.within // _MICROSECOND
        is_in_time = f"rankwatch_at > {start} AND rankwatch_at <= {end}"
        span = f"{format_duration(served.within)} up to {slot:%Y-%m-%dT%H:%M:%SZ}"
        self._require_served(arm, is_in_time, span)
        in_time = f"served_{self.name}"
        execute(f"CREATE TEMP VIEW {in_time} AS SELECT * FROM {arm} WHERE {is_in_time}")
        last = (
            "SELECT rankwatch_to, max_by(rankwatch_as, struct_pack(rankwatch_at := rankwatch_at, "
            f"rankwatch_as := rankwatch_as)) AS rankwatch_as FROM {in_time} GROUP BY rankwatch_to"
        )
        newest = f"newest_{self.name}"
        execute(
            f"CREATE TEMP VIEW {newest} AS SELECT * FROM {in_time} SEMI JOIN ({last}) "
            "USING (rankwatch_to, rankwatch_as)"
        )
        self.name = newest

    def _require_served(self, rows: str, is_in_time: str, span: str) -> None:
        query = f"SELECT count(*) FILTER (WHERE {is_in_time}), max(rankwatch_at) FROM {rows}"
        ((count, last),) = self._database.execute(query).fetchall()
        if count:
            return
        newest = "no row of this arm"
        if last is not None:
            # A time in the wrong unit may have a year that Python cannot represent.
            at = _EPOCH + timedelta(microseconds=min(max(last, -_LONGEST_SPAN), _LONGEST_SPAN))
            newest = f"the newest row is of {at:%Y-%m-%dT%H:%M:%SZ}"
        msg = (
            f"{self.where} has no list that was served in the {span} ({newest}): check "
            "`served`, and check that the log is written"
        )
        raise SourceError(msg, permanent=False)

    def _refuse_long_texts(self) -> None:
        # A file with a dictionary has each text once. In memory, each row has its own text.
        for name, column in self._empty.items():
            if not is_text(column.type):
                continue
            query = f"SELECT max(strlen({sql_name(name)})) FROM {self.name}"
            ((longest,),) = self._database.execute(query).fetchall()
            if longest is not None and longest > _LONGEST_TEXT:
                msg = (
                    f"column {name!r} of {self.where} has a text of {longest} bytes: leave out "
                    f"texts of more than {_LONGEST_TEXT} bytes"
                )
                raise SourceError(msg)


def _short_text(value: str) -> str:
    """The SQL expression for the text. It is null if the text is too long for any id.

    A character of an id takes at most 12 bytes in JSON.
    """
    return f"CASE WHEN strlen({value}) <= {12 * MAX_ID_LENGTH + 2} THEN {value} END"


def _is_plain(value: str) -> str:
    """The SQL condition for text that is an id whatever its characters are: short, without NUL."""
    return f"strlen({value}) BETWEEN 1 AND {MAX_ID_LENGTH} AND NOT contains({value}, chr(0))"


def _instant_sql(text: str) -> str:
    """The SQL expression for the microseconds since 1970 of a text.

    The text is a time in ISO 8601 or a number. The size of the number decides its unit. The
    expression is null for any other text.
    """
    number = f"TRY_CAST({text} AS DECIMAL(38, 9))"
    integer = f"CAST({number} AS HUGEINT)"
    units = (
        (SECONDS, f"{number} * 1000000"),
        (MILLISECONDS, f"{number} * 1000"),
        (MICROSECONDS, integer),
        (NANOSECONDS, f"{integer} // 1000"),
    )
    cases = " ".join(f"WHEN abs({number}) < {end:.0f} THEN {value}" for end, value in units)
    return f"coalesce(epoch_us(TRY_CAST({text} AS TIMESTAMPTZ)), CAST(CASE {cases} END AS BIGINT))"


def _parquet(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
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
                if first != kind:  # the next option takes more memory
                    options = "hive_partitioning = false, union_by_name = true"
                if len({_family(first), _family(kind)} - {_NULLS}) > 1:
                    raise SourceError(
                        f"column {name!r} of {path} has {describe_type(kind)}, but that of "
                        f"{files.paths[0]} has {describe_type(first)}: write the same type in "
                        "all parts"
                    )
    selected = []
    for name, root in roots.items():
        value = _field_sql(name, root, schema.field(root).type)
        selected.append(f"{value} AS {sql_name(name)}")
    return f"SELECT {', '.join(selected)} FROM read_parquet({_paths(files)}, {options})"


def _uuids_as_text(database: duckdb.DuckDBPyConnection, rows: str) -> str:
    """The rows, with UUIDs and lists of UUIDs converted to text."""
    table = database.sql(f"SELECT * FROM ({rows}) LIMIT 0")
    texts = {"UUID": "VARCHAR", "UUID[]": "VARCHAR[]"}
    casts = []
    for name, kind in zip(table.columns, map(str, table.types), strict=True):
        if kind in texts:
            casts.append(f"CAST({sql_name(name)} AS {texts[kind]}) AS {sql_name(name)}")
    if not casts:
        return rows
    return f"SELECT * REPLACE ({', '.join(casts)}) FROM ({rows})"


def _half_floats(files: FileSet, columns: Sequence[str]) -> set[str]:
    """The columns of 16-bit floats, or of lists of these. DuckDB converts them to 32 bits."""
    halves = set()
    for path in files.paths:
        with source_errors(path), files.open(path) as raw:
            schema = pyarrow.parquet.read_schema(raw)
            for name in set(columns).intersection(schema.names):
                kind = schema.field(name).type
                if pa.types.is_float16(kind.value_type if is_list(kind) else kind):
                    halves.add(name)
    return halves


_NULLS = "nulls"


def _family(kind: pa.DataType) -> str:
    """The family of a type. If columns have the same family, joining them changes no id."""
    if is_list(kind):
        inner = _family(kind.value_type)
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
                    f"{path} has lists of {int(length)} items: write at most {_LONGEST_LIST}"
                )


def _csv(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    headers = [_csv_header(files, path) for path in files.paths]
    for path, header in zip(files.paths, headers, strict=True):
        _require_known_header(columns, header[0], path)
        _require_once(columns, header[0], path)
        if header != headers[0]:
            raise SourceError(
                f"the header or the line ends of {path} differ from those of {files.paths[0]}: "
                "write the same header and line ends in all parts"
            )
    names, line_end = headers[0]
    options = (
        f"auto_detect = false, header = true, delim = '{_SEPARATORS[files.format]}', quote = '\"', "
        f"escape = '\"', new_line = '{line_end}'"
    )
    types = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(names)))
    selected = ", ".join(f"c{names.index(name)} AS {sql_name(name)}" for name in columns)
    return f"SELECT {selected} FROM read_csv({_paths(files)}, {options}, columns = {{{types}}})"


def _require_known_header(columns: Sequence[str], names: Sequence[str], path: str) -> None:
    """Raise SourceError if the first line names none of these columns.

    The error repeats no word of the file. The path may be wrong, and the first line a password.
    """
    if not any(difflib.get_close_matches(column, names, n=1) for column in columns):
        wanted = ", ".join(map(repr, columns))
        raise SourceError(
            f"{path} has no column {wanted}: check the path, and check the names in the first line"
        )


def _csv_header(files: FileSet, path: str) -> tuple[list[str], str]:
    """The names in a file's first line, and the file's line end as an escape.

    DuckDB can find these too, but it uses unlimited memory for this.
    """
    with (
        source_errors(path),
        files.open(path) as raw,
        gzip.open(raw) if path.lower().endswith(".gz") else raw as file,
    ):
        head = file.read(_LONGEST_HEADER)
    fault = utf16_fault(head, path)
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
            f"{path} does not begin with a header of 1 to {_MOST_COLUMNS} columns: write the "
            "names of the columns in the first line"
        )
    others = sorted(set(";\t|,").intersection(names[0]) - {separator})
    if len(names) == 1 and others:
        raise SourceError(
            f"the header of {path} is one column with {others[0]!r} in it: write {separator!r} "
            "between values"
        )
    return names, {"\r\n": "\\r\\n", "\r": "\\r"}.get(line_end, "\\n")


def _jsonl(database: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    options = f"format = 'newline_delimited', maximum_object_size = {LONGEST_LINE}"
    objects = f"FROM read_json_objects({_paths(files)}, {options})"
    roots = {name: name for name in columns}
    if any("." in name for name in columns):
        for (keys,) in database.execute(f"SELECT json_keys(json) {objects} LIMIT 1").fetchall():
            roots = {name: root_of(name, keys) for name in columns}
    distinct = dict.fromkeys(roots.values())
    types = ", ".join(f"{sql_text(root)}: 'JSON'" for root in distinct)
    rows = f"FROM read_json({_paths(files)}, {options}, records = 'true', columns = {{{types}}})"
    for root in distinct:
        # If no row has a column, its name is wrong. If only some rows lack it, it is null there.
        query = f"SELECT 1 {rows} WHERE {sql_name(root)} IS NOT NULL LIMIT 1"
        if not database.execute(query).fetchall():
            _require_key(database, objects, root, files.where)
    selected = []
    for name, root in roots.items():
        selected.append(f"{_json_field_sql(name, root)} AS {sql_name(name)}")
    return f"SELECT {', '.join(selected)} {rows}"


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


_READERS: dict[str, Callable[[duckdb.DuckDBPyConnection, FileSet, Sequence[str]], str]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": _csv,
    "jsonl": _jsonl,
}
