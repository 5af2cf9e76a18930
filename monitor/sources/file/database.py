"""A DuckDB in memory that reads files of one reading, and views of them: texts of CSV stay texts, values of JSON its text."""

from __future__ import annotations

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

from monitor.deadline import (
    Deadline,
    OverdueError,
    interrupt_when_given_up,
    interrupted_at,
    interrupted_by_signals,
)
from monitor.errors import SourceError
from monitor.foreign_errors import file_cause
from monitor.model.id_forms import Forms
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.options import format_duration
from monitor.reading.ids import (
    describe_type,
    exact_half_sql,
    id_column,
    id_sql,
    is_list,
    is_text,
    json_id_sql,
    short_text_sql,
)
from monitor.reading.tally import unreadable_of
from monitor.scratch import room_trouble, scratch_database, sql_text
from monitor.sources.columns import require_columns, spell_column
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.diagnosis import diagnosed, utf16_fault
from monitor.sources.file.file_set import LONGEST_LINE, FileSet, opened_parquet, source_errors
from monitor.sources.list_collector import from_json
from monitor.sources.table_options import (
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    SECONDS,
    ServedOptions,
)

MEMORY_MB = 250
"""Most memory that a reading takes, twice as much where lists are joined that hold a hundred items; what does not fit goes to a
temporary directory, which is removed in the end."""
KEY = "rankwatch_key"
"""The column of users' keys that views add to those of files, which have none of this name."""
PLACE = "rankwatch_place"
"""The column of a row's place in a table whose rows stand in order."""
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_OURS = "Invalid Input Error: rankwatch: "
"""How DuckDB begins an error that one of our views raises."""
_THREADS = 2  # of more of them each would have too little of the memory

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_SPAN = timedelta(days=365 * 1900) // timedelta(microseconds=1)
_LONGEST_TEXT = 1 << 18
_LONGEST_LIST = 100_000
_LONGEST_HEADER = 1 << 20
_MOST_COLUMNS = 4000


@contextmanager
def open_database(
    files: Sequence[FileSet],
    deadline: Deadline | None = None,
    *,
    k: int = 1,
    in_order: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only.

    ``in_order``: the order of rows matters, ``k``: items a list.

    It ends at the deadline with OverdueError, by a signal, or when nobody waits for it; else
    SourceError in one sentence."""
    memory_mb = MEMORY_MB * max(50, min(k, 100)) // 50
    paths = [path for each in files for path in each.paths]
    stores = {id(each.store): each.store for each in files if each.store is not None}.values()
    with (
        _one_sentence(files, deadline),
        scratch_database(
            f"{memory_mb}MB", paths, threads=_THREADS, stores=stores, in_order=in_order
        ) as database,
        interrupted_at(deadline, database.interrupt),
        interrupt_when_given_up(database.interrupt),
        interrupted_by_signals(database.interrupt),
    ):
        yield database


@contextmanager
def _one_sentence(files: Sequence[FileSet], deadline: Deadline | None) -> Iterator[None]:
    try:
        with readable(" and ".join(dict.fromkeys(each.where for each in files))), diagnosed(files):
            yield
    except SourceError:
        # Interrupted at the deadline, which may surface as any error.
        if deadline is not None and deadline.is_past:
            raise OverdueError from None
        raise


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn what goes wrong over these files into a SourceError of one sentence, an interrupt into an OverdueError."""
    try:
        yield
    except RuntimeError as error:
        # So DuckDB says that a signal came, whose handler's exception it drops.
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise
    # What a stream of batches runs into comes as an error of Arrow's or the system's.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        # A database that is busy refuses to be closed; what ended its use before that counts.
        if error.__context__ is not None and not isinstance(error.__context__, Exception):
            raise error.__context__ from None
        said = (str(error).splitlines() or [type(error).__name__])[0]
        if "INTERRUPT" in said:
            raise OverdueError from None
        if said.startswith(_OURS):
            raise SourceError(said.removeprefix(_OURS), permanent=False) from None
        trouble = room_trouble(str(error))
        if trouble is not None:
            msg = f"{where} cannot be read in {MEMORY_MB}MB of memory: {trouble}"
            raise SourceError(msg, permanent=False) from None
        raise SourceError(f"{where} cannot be read: {file_cause(error)}", permanent=False) from None


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class FileView:
    """The rows of a table of files.

    SourceError when they cannot be read, or have not these columns.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        columns: Sequence[str],
        name: str,
        log: FileSourceOptions | FileUsersOptions | None = None,
    ) -> None:
        self.name, self.where = name, files.where
        served = None if log is None else log.served
        if served is not None:
            columns = tuple(
                dict.fromkeys((*columns, served.time, *served.arm, *filter(None, [served.request])))
            )
        self.is_json = files.format == "jsonl"
        self.unreadable: tuple[Unreadable, ...] = ()
        self._database = database
        with readable(files.where), diagnosed([files]):
            rows = _READERS[files.format](
                database, files, [each for each in columns if each != PLACE]
            )
            if PLACE in columns:
                rows = f"SELECT *, row_number() OVER () AS {PLACE} FROM ({rows})"  # noqa: S608 - quoted names
            database.execute(f"CREATE TEMP VIEW {name} AS {_uuids_as_text(database, rows)}")
            empty = database.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table()  # noqa: S608 - a name of ours
        self._empty = {each: empty[each].combine_chunks() for each in columns}
        self._halves = _half_floats(files, columns) if files.format == "parquet" else frozenset()
        if files.format == "parquet":
            self._refuse_long_texts()
        if log is not None and served is not None:
            self._keep_served(served, log, files.slot)

    def empty(self, columns: Sequence[str]) -> dict[str, Any]:
        """These columns without a row."""
        return {name: self.values(self._empty[name]) for name in columns}

    def values(self, column: pa.Array) -> Any:  # noqa: ANN401 - pyarrow has no stubs
        """A column of the view as readers of tables take it: as it is, or what JSON says."""
        return [_json_or_text(cell) for cell in column.to_pylist()] if self.is_json else column

    def is_list(self, column: str) -> bool:
        """Whether a column holds lists, and no texts of lists."""
        return is_list(self._empty[column].type)

    def key(self, column: str, forms: Forms) -> str:
        """The expression for a column of users as text in these forms, null where there is none.

        SourceError if it has none.
        """
        if not self.is_json:
            id_column(self._empty[column], column, self.where)
        if not forms:
            return self.text(column)
        name = f"spell_{self.name}"
        self._database.create_function(
            name,
            lambda users: spell_column(users, forms),
            ["VARCHAR"],
            "VARCHAR",
            type="arrow",
            null_handling="special",
        )  # type: ignore[call-overload]
        return f"{name}({self.text(column)})"

    def count_unreadable(
        self, rows: str, checks: Sequence[tuple[str, Need, str]]
    ) -> tuple[Unreadable, ...]:
        """How many of these rows have no readable value, by column: what it needs, and the condition of a row that has none."""
        counts = "".join(
            f", count(*) FILTER (WHERE {is_unreadable})" for _, _, is_unreadable in checks
        )
        ((total, *found),) = self._database.execute(
            f"SELECT count(*){counts} FROM {rows}"
        ).fetchall()  # noqa: S608 - quoted
        unreadable = []
        for (column, need, condition), count in zip(checks, found, strict=True):
            if count:
                query = f"SELECT {sql_name(column)} FROM {rows} WHERE {condition} LIMIT 1"  # noqa: S608 - quoted names
                column_of_one = self._database.sql(query).to_arrow_table().column(0)
                example = (
                    from_json(column_of_one[0].as_py())
                    if self.is_json
                    else column_of_one[0].as_py()
                )
                unreadable.append(unreadable_of(self.where, column, need, count, total, example))
        return tuple(unreadable)

    def label(self, column: str) -> str:
        """The expression for a column of segment values: text that may be a value, and other values as they are.

        Null for a list or an object, which are counted as unreadable.
        """
        if not self.is_json:
            return self.text(column) if is_text(self._empty[column].type) else sql_name(column)
        name = sql_name(column)
        bare = (
            f"CASE WHEN json_type({name}) NOT IN ('ARRAY', 'OBJECT') THEN CAST({name} AS "
            "VARCHAR) END"
        )
        return (
            f"coalesce({self.text(column)}, CASE WHEN json_type({name}) <> 'VARCHAR' THEN "
            f"{bare} END)"
        )

    def text(self, column: str) -> str:
        """The expression for a column of ids as text, null where a value is no id."""
        name = sql_name(column)
        if self.is_json:
            return json_id_sql(name)
        return id_sql(pa.float16() if column in self._halves else self._empty[column].type, name)

    def raw_text(self, column: str) -> str:
        """The expression for a column as text, whatever it holds."""
        return (
            f"({sql_name(column)} ->> '$')"
            if self.is_json
            else f"CAST({sql_name(column)} AS VARCHAR)"
        )

    def item(self, column: str) -> str:
        """The expression for a column of ids, those that are too long for one left out."""
        name = sql_name(column)
        if column in self._halves:
            return exact_half_sql(name)
        return (
            short_text_sql(name) if not self.is_json and is_text(self._empty[column].type) else name
        )

    def items(self, column: str, k: int | None) -> str:
        """The expression for a column of lists of ids, cut to k, or of texts of lists."""
        name = sql_name(column)
        if not self.is_list(column):
            return name
        first = name if k is None else f"{name}[:{k}]"
        if column in self._halves:
            return f"list_transform({first}, lambda each: {exact_half_sql('each')})"
        if not is_text(self._empty[column].type.value_type):
            return first
        return f"list_transform({first}, lambda each: {short_text_sql('each')})"

    def _keep_served(
        self, served: ServedOptions, log: FileSourceOptions | FileUsersOptions, slot: datetime
    ) -> None:
        """Leave the rows of each user's newest list of the slot.

        Of two at one time that whose request's id is greater.
        """
        end, length = (each // timedelta(microseconds=1) for each in (slot - _EPOCH, served.within))
        is_of_arm = " AND ".join(
            [
                "TRUE",
                *(f"{self.text(each)} = {sql_text(value)}" for each, value in served.arm.items()),
            ]
        )
        at = _instant_sql(self.raw_text(served.time))
        request = "rankwatch_at" if served.request is None else self.text(served.request)
        columns = (
            f"{self.text(log.user)} AS rankwatch_to, {at} AS rankwatch_at, {request} AS "
            "rankwatch_as"
        )
        rows = f"SELECT *, {columns} FROM {self.name} WHERE {is_of_arm}"  # noqa: S608
        arm, newest, name = f"arm_{self.name}", f"newest_{self.name}", f"served_{self.name}"
        self._database.execute(f"CREATE TEMP VIEW {arm} AS {rows}")
        checks = [
            (served.time, Need.TIMES, "rankwatch_at IS NULL"),
            (log.user, Need.IDS, "rankwatch_to IS NULL"),
        ]
        if served.request is not None:
            checks.append((served.request, Need.IDS, "rankwatch_as IS NULL"))
        self.unreadable = self.count_unreadable(arm, checks)
        require_readable(self.unreadable, log.max_unreadable)
        is_in_time = f"rankwatch_at > {end - length} AND rankwatch_at <= {end}"
        self._require_served(
            arm, is_in_time, f"{format_duration(served.within)} up to {slot:%Y-%m-%dT%H:%M:%SZ}"
        )
        of_last = (
            "max_by(rankwatch_as, struct_pack(rankwatch_at := rankwatch_at, rankwatch_as "
            ":= rankwatch_as)) AS rankwatch_as"
        )
        of_user = f"SELECT rankwatch_to, {of_last} FROM {name} GROUP BY rankwatch_to"  # noqa: S608 - a name of ours
        kept = f"SELECT * FROM {name} SEMI JOIN ({of_user}) USING (rankwatch_to, rankwatch_as)"  # noqa: S608
        self._database.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {arm} WHERE {is_in_time}")  # noqa: S608
        self._database.execute(f"CREATE TEMP VIEW {newest} AS {kept}")
        self.name = newest

    def _require_served(self, rows: str, is_in_time: str, span: str) -> None:
        query = f"SELECT count(*) FILTER (WHERE {is_in_time}), max(rankwatch_at) FROM {rows}"  # noqa: S608
        ((count, last),) = self._database.execute(query).fetchall()
        if count:
            return
        newest = "no row of this arm"
        if last is not None:
            # Beyond Python's years, where a unit was mistaken.
            at = _EPOCH + timedelta(microseconds=min(max(last, -_LONGEST_SPAN), _LONGEST_SPAN))
            newest = f"the newest row is of {at:%Y-%m-%dT%H:%M:%SZ}"
        msg = (
            f"{self.where} holds nothing that was served in the {span}: {newest}; check "
            "served, and that the log is written"
        )
        raise SourceError(msg, permanent=False)

    def _refuse_long_texts(self) -> None:
        # A text that stands once in a dictionary would be repeated in memory for each of its rows.
        texts = [name for name, column in self._empty.items() if is_text(column.type)]
        for name in texts:
            query = f"SELECT max(strlen({sql_name(name)})) FROM {self.name}"  # noqa: S608 - quoted
            ((longest,),) = self._database.execute(query).fetchall()
            if longest is not None and longest > _LONGEST_TEXT:
                msg = (
                    f"column {name!r} of {self.where} holds a text of {longest} bytes: leave "
                    f"out those above {_LONGEST_TEXT}"
                )
                raise SourceError(msg)


def _json_or_text(cell: str | None) -> object:
    """What the JSON says; its text where it is nested so deep that nobody can read it."""
    try:
        return from_json(cell)
    except ValueError:
        return cell


def _instant_sql(text: str) -> str:
    """Microseconds since 1970 of a time of ISO 8601 or of a number, whose size tells its unit.

    Null where it is neither.
    """
    number = f"TRY_CAST({text} AS DECIMAL(38, 9))"
    size, whole = f"abs({number})", f"CAST({number} AS HUGEINT)"
    units = (
        f"WHEN {size} < {SECONDS:.0f} THEN {number} * 1000000 WHEN {size} < {MILLISECONDS:.0f} "
        f"THEN {number} * 1000"
    )
    units += f" WHEN {size} < {MICROSECONDS:.0f} THEN {whole} WHEN {size} < {NANOSECONDS:.0f} THEN {whole} // 1000"
    return f"coalesce(epoch_us(TRY_CAST({text} AS TIMESTAMPTZ)), CAST(CASE {units} END AS BIGINT))"


def _parquet(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    first: dict[str, pa.DataType] = {}
    how = "hive_partitioning = false"
    for path in files.paths:
        with source_errors(path), opened_parquet(files, path) as file:
            schema = file.schema_arrow
            roots = {name: root_of(name, schema.names) for name in columns}
            _require_once(tuple(roots.values()), schema.names, path)
            _refuse_long_lists(file.metadata, tuple(roots.values()), path)
            for name, root in roots.items():
                kind = schema.field(root).type
                same = first.setdefault(name, kind)
                if same != kind:
                    how = "hive_partitioning = false, union_by_name = true"  # takes more memory
                if _family(same) != _family(kind) and _NULLS not in {_family(same), _family(kind)}:
                    held = (
                        f"holds {describe_type(kind)}, and that of {files.paths[0]} holds "
                        f"{describe_type(same)}"
                    )
                    raise SourceError(f"column {name!r} of {path} {held}: write all parts alike")
    taken = ", ".join(
        f"{_field_sql(name, roots[name], schema.field(roots[name]).type)} AS {sql_name(name)}"
        for name in columns
    )
    return f"SELECT {taken} FROM read_parquet({_paths(files)}, {how})"  # noqa: S608 - quoted


def _uuids_as_text(database: duckdb.DuckDBPyConnection, rows: str) -> str:
    """The rows with UUIDs, alone and in lists, as text."""
    found = database.sql(f"SELECT * FROM ({rows}) LIMIT 0")  # noqa: S608 - quoted names
    texts = {"UUID": "VARCHAR", "UUID[]": "VARCHAR[]"}
    kinds = {
        name: texts[str(kind)]
        for name, kind in zip(found.columns, found.types, strict=True)
        if str(kind) in texts
    }
    casts = ", ".join(
        f"CAST({sql_name(name)} AS {kind}) AS {sql_name(name)}" for name, kind in kinds.items()
    )
    return f"SELECT * REPLACE ({casts}) FROM ({rows})" if casts else rows  # noqa: S608


def _half_floats(files: FileSet, columns: Sequence[str]) -> frozenset[str]:
    """Columns of floats of 16 bits, or of lists of them, which DuckDB widens."""
    halves = set()
    for path in files.paths:
        with source_errors(path), files.open(path) as raw:
            schema = pyarrow.parquet.read_schema(raw)
            for name in set(columns).intersection(schema.names):
                kind = schema.field(name).type
                if pa.types.is_float16(kind.value_type if is_list(kind) else kind):
                    halves.add(name)
    return frozenset(halves)


_NULLS = "nulls"


def _family(kind: pa.DataType) -> str:
    """What columns have in common that can be read as one without changing an id."""
    if is_list(kind):
        inner = _family(kind.value_type)
        return inner if inner == _NULLS else f"lists of {inner}"
    if pa.types.is_null(kind):
        return _NULLS
    if is_text(kind):
        return "text"
    return "integers" if pa.types.is_integer(kind) else str(kind)


def _field_sql(name: str, root: str, kind: pa.DataType) -> str:
    """The expression for a column, or for a field of its objects, or of those in its lists."""
    value = sql_name(root)
    for field in name.removeprefix(root).split(".")[1:]:
        is_listed = is_list(kind)
        inner = kind.value_type if is_listed else kind
        names = (
            [inner.field(place).name for place in range(inner.num_fields)]
            if pa.types.is_struct(inner)
            else []
        )
        require_columns([field], names, f"column {root!r}")
        value = (
            f"list_transform({value}, lambda each: each.{sql_name(field)})"
            if is_listed
            else f"{value}.{sql_name(field)}"
        )
        kind = pa.list_(inner.field(field).type) if is_listed else inner.field(field).type
    return value


def _refuse_long_lists(metadata: Any, columns: Sequence[str], path: str) -> None:  # noqa: ANN401 - pyarrow has no stubs
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[
                0
            ] in columns and chunk.num_values > _LONGEST_LIST * max(1, group.num_rows):
                msg = (
                    f"{path} holds lists of {chunk.num_values // max(1, group.num_rows)} "
                    f"items, more than {_LONGEST_LIST}"
                )
                raise SourceError(msg)


def _csv(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    headers = [_csv_header(files, path) for path in files.paths]
    for path, header in zip(files.paths, headers, strict=True):
        _require_known_header(columns, header[0], path)
        _require_once(columns, header[0], path)
        if header != headers[0]:
            msg = (
                f"the header or the line ends of {path} differ from those of {files.paths[0]}: "
                "write all parts alike"
            )
            raise SourceError(msg)
    (names, line_end), comma = headers[0], _SEPARATORS[files.format]
    given = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(names)))
    how = (
        f"auto_detect = false, header = true, delim = '{comma}', quote = '\"', escape = '\"', "
        f"new_line = '{line_end}'"
    )
    taken = ", ".join(f"c{names.index(name)} AS {sql_name(name)}" for name in columns)
    return f"SELECT {taken} FROM read_csv({_paths(files)}, {how}, columns = {{{given}}})"  # noqa: S608 - quoted


def _require_known_header(columns: Sequence[str], names: Sequence[str], path: str) -> None:
    """SourceError that names no word of the file where its first line is nothing like the header that it should be.

    Such a file may be anything, and its first line a password.
    """
    if not any(difflib.get_close_matches(column, names, n=1) for column in columns):
        wanted = ", ".join(map(repr, columns))
        raise SourceError(
            f"{path} has no column {wanted}: check the path, and the names in its first line"
        )


def _csv_header(files: FileSet, path: str) -> tuple[list[str], str]:
    """The names in a file's first line, and how its lines end.

    It is read here: DuckDB's own look at it has no bounds.
    """
    with (
        source_errors(path),
        files.open(path) as raw,
        gzip.open(raw) if path.lower().endswith(".gz") else raw as file,
    ):
        head = file.read(_LONGEST_HEADER)
    text = head.decode("utf-8-sig", errors="replace")
    line = text.splitlines(keepends=True)[0] if text else ""
    if fault := utf16_fault(head, path):
        raise SourceError(fault)
    try:
        names = next(
            csv.reader(io.StringIO(text, newline=""), delimiter=_SEPARATORS[files.format]), []
        )
    except csv.Error:
        names = []
    if (
        not names
        or len(names) > _MOST_COLUMNS
        or (len(head) == _LONGEST_HEADER and not line.endswith(("\r", "\n")))
    ):
        raise SourceError(
            (
                f"{path} begins with no header of 1 to {_MOST_COLUMNS} columns: write their names "
                "in the first line"
            )
        )
    separators = set(";\t|,") - {_SEPARATORS[files.format]}
    if len(names) == 1 and (others := sorted(separators.intersection(names[0]))):
        msg = (
            f"the header of {path} is one column with {others[0]!r} in it: write "
            f"{_SEPARATORS[files.format]!r} between values"
        )
        raise SourceError(msg)
    return names, {"\r\n": "\\r\\n", "\r": "\\r"}.get(line[len(line.rstrip("\r\n")) :], "\\n")


def _jsonl(database: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    paths = _paths(files)
    how = f"format = 'newline_delimited', maximum_object_size = {LONGEST_LINE}"
    objects = f"FROM read_json_objects({paths}, {how})"
    roots = {name: name for name in columns}
    if any("." in name for name in columns):
        for (keys,) in database.execute(f"SELECT json_keys(json) {objects} LIMIT 1").fetchall():
            roots = {name: root_of(name, keys) for name in columns}
    given = ", ".join(f"{sql_text(name)}: 'JSON'" for name in dict.fromkeys(roots.values()))
    rows = f"FROM read_json({paths}, {how}, records = 'true', columns = {{{given}}})"
    for name in dict.fromkeys(roots.values()):
        # A column that no row has is a wrong name; one that some rows have not is null there.
        if not database.execute(
            f"SELECT 1 {rows} WHERE {sql_name(name)} IS NOT NULL LIMIT 1"
        ).fetchall():
            _require_some(database, objects, name, files.where)
    taken = ", ".join(
        f"{_json_field_sql(name, root)} AS {sql_name(name)}" for name, root in roots.items()
    )
    return f"SELECT {taken} {rows}"


def _json_field_sql(name: str, root: str) -> str:
    value = sql_name(root)
    for field in name.removeprefix(root).split(".")[1:]:
        path = sql_text('$."' + field.replace('"', '\\"') + '"')
        of_each = f"to_json(list_transform(CAST({value} AS JSON[]), lambda each: each -> {path}))"
        value = f"CASE WHEN json_type({value}) = 'ARRAY' THEN {of_each} ELSE {value} -> {path} END"
    return value


def root_of(name: str, present: Sequence[str]) -> str:
    """The column that a name means: the column of this very name, or the one whose field it names behind a dot."""
    if name in present:
        return name
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((each for each in beginnings if each in present), name)


def _require_some(database: duckdb.DuckDBPyConnection, rows: str, name: str, where: str) -> None:
    found = database.execute(
        f"SELECT 1 {rows} WHERE list_contains(json_keys(json), {sql_text(name)}) LIMIT 1"
    ).fetchall()
    if not found:
        for (keys,) in database.execute(f"SELECT json_keys(json) {rows} LIMIT 1").fetchall():
            require_columns([name], keys, where)


def _require_once(columns: Sequence[str], present: Sequence[str], where: str) -> None:
    require_columns(columns, present, where)
    for name in columns:
        # As SQL compares names.
        if sum(each.lower() == name.lower() for each in present) > 1:
            raise SourceError(
                (
                    f"{where} has more than one column {name!r}, upper and lower case aside: "
                    "rename all but one"
                )
            )


def _paths(files: FileSet) -> str:
    return f"[{', '.join(map(sql_text, files.paths))}]"


_READERS: dict[str, Callable[[duckdb.DuckDBPyConnection, FileSet, Sequence[str]], str]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": _csv,
    "jsonl": _jsonl,
}
