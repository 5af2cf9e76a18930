"""A DuckDB in memory that reads files of one reading, and views of them: texts of CSV stay texts, values of JSON its text."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from monitor.deadline import Deadline, OverdueError, interrupt_when_given_up, interrupted_at, interrupted_by_signals
from monitor.errors import SourceError
from monitor.options import format_duration
from monitor.scratch import SPILL, scratch_database, sql_text
from monitor.sources.columns import MAX_ID_LENGTH, is_list, is_text, on_one_line, require_columns, spell_column, user_column
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.file_set import LONGEST_LINE, FileSet, source_errors
from monitor.sources.id_forms import Forms
from monitor.sources.list_collector import from_json
from monitor.sources.table_options import ServedOptions

MEMORY_MB = 250
"""Most memory that a reading takes, twice as much where lists are joined that hold a hundred items; what does not fit goes to a
temporary directory, which is removed in the end."""
KEY = "rankwatch_key"
"""The column of users' keys that views add to those of files, which have none of this name."""
PLACE = "rankwatch_place"
"""The column of a row's place in a table whose rows stand in order."""
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_NO_ROOM = ("Out of Memory", "max_temp_directory_size", "No space left", "temporary directory")
_THREADS = 2  # of more of them each would have too little of the memory

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TEXT = 1 << 18
_LONGEST_LIST = 100_000
_LONGEST_HEADER = 1 << 20
_MOST_COLUMNS = 4000
_MOST_BYTES = 4 * MAX_ID_LENGTH


@contextmanager
def open_database(
    files: Sequence[FileSet], deadline: Deadline | None = None, *, k: int = 1, in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only; ``in_order``: the order of rows matters, ``k``: items a list.

    It ends at the deadline with OverdueError, by a signal, or when nobody waits for it; else SourceError in one sentence.
    """
    memory_mb = MEMORY_MB * max(50, min(k, 100)) // 50
    paths = [path for each in files for path in each.paths]
    stores = {id(each.store): each.store for each in files if each.store is not None}.values()
    with (
        _one_sentence(files, deadline),
        scratch_database(f"{memory_mb}MB", paths, threads=_THREADS, stores=stores, in_order=in_order) as database,
        interrupted_at(deadline, database.interrupt),
        interrupt_when_given_up(database.interrupt),
        interrupted_by_signals(database.interrupt),
    ):
        yield database


@contextmanager
def _one_sentence(files: Sequence[FileSet], deadline: Deadline | None) -> Iterator[None]:
    try:
        with readable(" and ".join(dict.fromkeys(each.where for each in files))):
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
        # What stood in the file is not repeated.
        reason = on_one_line(said.partition(": Object {")[0] + (", a key stands twice" if "duplicate key" in said else ""), 300)
        msg = f"{where} cannot be read, it may be damaged or still being written: {reason}"
        if any(reason in said for reason in _NO_ROOM):
            room = f"{MEMORY_MB}MB of memory and {SPILL} of temporary files"
            msg = f"{where} cannot be read in {room}: free disk where TMPDIR says"
        raise SourceError(msg, permanent=False) from None


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class FileView:
    """The rows of a table of files. SourceError when they cannot be read, or have not these columns."""

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
            columns = tuple(dict.fromkeys((*columns, served.time, *served.arm, *filter(None, [served.request]))))
        self.is_json = files.format == "jsonl"
        self._database = database
        with readable(files.where):
            rows = _READERS[files.format](database, files, [each for each in columns if each != PLACE])
            if PLACE in columns:
                rows = f"SELECT *, row_number() OVER () AS {PLACE} FROM ({rows})"  # noqa: S608 - quoted names
            database.execute(f"CREATE TEMP VIEW {name} AS {rows}")
            empty = database.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table()  # noqa: S608 - a name of ours
        self._empty = {each: empty[each].combine_chunks() for each in columns}
        if files.format == "parquet":
            self._refuse_long_texts()
        if log is not None and served is not None:
            self._keep_served(served, log.user, files.slot)

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
        """The expression for a column of users as text in these forms, null where there is none; SourceError if it has none."""
        if not self.is_json:
            user_column(self._empty[column], f"the user column of {self.where}")
        if not forms:
            return self.text(column)
        name = f"spell_{self.name}"
        self._database.create_function(
            name, lambda users: spell_column(users, forms), ["VARCHAR"], "VARCHAR", type="arrow", null_handling="special"
        )  # type: ignore[call-overload]
        return f"{name}({self.text(column)})"

    def label(self, column: str) -> str:
        """The expression for a column of segment values: text that may be a value, and other values as they are."""
        if not self.is_json:
            return self.text(column) if is_text(self._empty[column].type) else sql_name(column)
        odd = sql_text(
            f"segment column {column!r} of {self.where} holds lists or objects: it must hold text, numbers or booleans"
        )
        name = sql_name(column)
        bare = f"CASE WHEN json_type({name}) IN ('ARRAY', 'OBJECT') THEN error({odd}) ELSE CAST({name} AS VARCHAR) END"
        return f"coalesce({self.text(column)}, CASE WHEN json_type({name}) <> 'VARCHAR' THEN {bare} END)"

    def text(self, column: str) -> str:
        """The expression for a column of ids as text, null where a value is no id."""
        name, kind = sql_name(column), self._empty[column].type
        if self.is_json:
            raw, unquoted = f"CAST({name} AS VARCHAR)", f"({name} ->> '$')"
            texts = f"WHEN json_type({name}) = 'VARCHAR' THEN {_id_text(unquoted)}"
            whole = f"WHEN regexp_full_match({raw}, '-?[0-9]{{1,300}}') THEN {raw}"
            floats = f"WHEN json_type({name}) = 'DOUBLE' THEN {_whole_text(f'CAST({name} AS DOUBLE)')}"
            return f"CASE {texts} {whole} {floats} END"
        if pa.types.is_integer(kind):
            return f"CAST({name} AS VARCHAR)"
        return _whole_text(name) if pa.types.is_floating(kind) else _id_text(name)

    def item(self, column: str) -> str:
        """The expression for a column of ids, those that are too long for one left out."""
        name = sql_name(column)
        is_plain = self.is_json or not is_text(self._empty[column].type)
        return name if is_plain else f"CASE WHEN strlen({name}) <= {_MOST_BYTES} THEN {name} END"

    def items(self, column: str, k: int) -> str:
        """The expression for a column of lists of ids, cut to k, or of texts of lists."""
        name = sql_name(column)
        if not self.is_list(column):
            return name
        first = f"{name}[:{k}]"
        if not is_text(self._empty[column].type.value_type):
            return first
        return f"list_transform({first}, lambda each: CASE WHEN strlen(each) <= {_MOST_BYTES} THEN each END)"

    def _keep_served(self, served: ServedOptions, user: str, slot: datetime) -> None:
        """Leave the rows of each user's newest list of the slot; of two at one time that whose request's id is greater."""
        text = f"({sql_name(served.time)} ->> '$')" if self.is_json else f"CAST({sql_name(served.time)} AS VARCHAR)"
        number = f"TRY_CAST({text} AS DOUBLE)"
        unix = f"CAST({number} * CASE WHEN abs({number}) < 1e11 THEN 1e6 ELSE 1e3 END AS BIGINT)"
        at = f"coalesce(epoch_us(TRY_CAST({text} AS TIMESTAMPTZ)), {unix})"
        end, length = (each // timedelta(microseconds=1) for each in (slot - _EPOCH, served.within))
        is_in_time = f"rankwatch_at > {end - length} AND rankwatch_at <= {end}"
        is_of_arm = "".join(f" AND {self.text(column)} = {sql_text(value)}" for column, value in served.arm.items())
        request = "rankwatch_at" if served.request is None else self.text(served.request)
        rows = f"SELECT *, {self.text(user)} AS rankwatch_to, {at} AS rankwatch_at, {request} AS rankwatch_as FROM {self.name}"  # noqa: S608
        newest = "max_by(rankwatch_as, struct_pack(rankwatch_at := rankwatch_at, rankwatch_as := rankwatch_as)) AS rankwatch_as"
        of_user = f"SELECT rankwatch_to, {newest} FROM served_{self.name} GROUP BY rankwatch_to"  # noqa: S608 - a name of ours
        kept = f"SELECT * FROM served_{self.name} SEMI JOIN ({of_user}) USING (rankwatch_to, rankwatch_as)"  # noqa: S608
        self._database.execute(f"CREATE TEMP VIEW served_{self.name} AS SELECT * FROM ({rows}) WHERE {is_in_time}{is_of_arm}")  # noqa: S608
        self._database.execute(f"CREATE TEMP VIEW newest_{self.name} AS {kept}")
        self.name = f"newest_{self.name}"
        if not self._database.execute(f"SELECT 1 FROM {self.name} LIMIT 1").fetchall():  # noqa: S608
            span = f"{format_duration(served.within)} up to {slot:%Y-%m-%dT%H:%M:%SZ}"
            msg = f"{self.where} holds nothing that was served in the {span}: check served, and that the log is written"
            raise SourceError(msg, permanent=False)

    def _refuse_long_texts(self) -> None:
        # A text that stands once in a dictionary would be repeated in memory for each of its rows.
        texts = [name for name, column in self._empty.items() if is_text(column.type)]
        for name in texts:
            query = f"SELECT max(strlen({sql_name(name)})) FROM {self.name}"  # noqa: S608 - quoted
            ((longest,),) = self._database.execute(query).fetchall()
            if longest is not None and longest > _LONGEST_TEXT:
                msg = f"column {name!r} of {self.where} holds a text of {longest} bytes: leave out those above {_LONGEST_TEXT}"
                raise SourceError(msg)


def _json_or_text(cell: str | None) -> object:
    """What the JSON says; its text where it is nested so deep that nobody can read it."""
    try:
        return from_json(cell)
    except ValueError:
        return cell


def _id_text(text: str) -> str:
    is_id = f"strlen({text}) <= {_MOST_BYTES} AND length({text}) BETWEEN 1 AND {MAX_ID_LENGTH} AND NOT contains({text}, chr(0))"
    return f"CASE WHEN {is_id} THEN {text} END"


def _whole_text(number: str) -> str:
    is_whole = f"{number} = floor({number}) AND abs({number}) < 2**53"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({number} AS BIGINT) AS VARCHAR) END"


def _parquet(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    kinds: dict[str, pa.DataType] = {}
    for path in files.paths:
        with source_errors(path), files.open(path) as raw, pyarrow.parquet.ParquetFile(raw) as file:
            _require_once(columns, file.schema_arrow.names, path)
            _refuse_long_lists(file.metadata, columns, path)
            for name in columns:
                kind = file.schema_arrow.field(name).type
                if kinds.setdefault(name, kind) != kind:
                    first = f"{files.paths[0]} holds {kinds[name]}"
                    raise SourceError(f"column {name!r} of {path} holds {kind}, and that of {first}: write all parts alike")
    names = ", ".join(map(sql_name, columns))
    return f"SELECT {names} FROM read_parquet({_paths(files)}, hive_partitioning = false)"  # noqa: S608 - quoted


def _refuse_long_lists(metadata: Any, columns: Sequence[str], path: str) -> None:  # noqa: ANN401 - pyarrow has no stubs
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] in columns and chunk.num_values > _LONGEST_LIST * max(1, group.num_rows):
                msg = f"{path} holds lists of {chunk.num_values // max(1, group.num_rows)} items, more than {_LONGEST_LIST}"
                raise SourceError(msg)


def _csv(_: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    headers = [_csv_header(files, path) for path in files.paths]
    for path, header in zip(files.paths, headers, strict=True):
        _require_once(columns, header[0], path)
        if header != headers[0]:
            msg = f"the header or the line ends of {path} differ from those of {files.paths[0]}: write all parts alike"
            raise SourceError(msg)
    (names, line_end), comma = headers[0], _SEPARATORS[files.format]
    given = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(names)))
    how = f"auto_detect = false, header = true, delim = '{comma}', quote = '\"', escape = '\"', new_line = '{line_end}'"
    taken = ", ".join(f"c{names.index(name)} AS {sql_name(name)}" for name in columns)
    return f"SELECT {taken} FROM read_csv({_paths(files)}, {how}, columns = {{{given}}})"  # noqa: S608 - quoted


def _csv_header(files: FileSet, path: str) -> tuple[list[str], str]:
    """The names in a file's first line, and how its lines end. It is read here: DuckDB's own look at it has no bounds."""
    with source_errors(path), files.open(path) as raw, gzip.open(raw) if path.lower().endswith(".gz") else raw as file:
        head = file.read(_LONGEST_HEADER)
    text = head.decode("utf-8-sig", errors="replace")
    line = text.splitlines(keepends=True)[0] if text else ""
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=_SEPARATORS[files.format]), [])
    except csv.Error:
        names = []
    if not names or len(names) > _MOST_COLUMNS or (len(head) == _LONGEST_HEADER and not line.endswith(("\r", "\n"))):
        raise SourceError(f"{path} begins with no header of 1 to {_MOST_COLUMNS} columns: write their names in the first line")
    return names, {"\r\n": "\\r\\n", "\r": "\\r"}.get(line[len(line.rstrip("\r\n")) :], "\\n")


def _jsonl(database: duckdb.DuckDBPyConnection, files: FileSet, columns: Sequence[str]) -> str:
    paths = _paths(files)
    how = f"format = 'newline_delimited', maximum_object_size = {LONGEST_LINE}"
    given = ", ".join(f"{sql_text(name)}: 'JSON'" for name in columns)
    rows = f"FROM read_json({paths}, {how}, records = 'true', columns = {{{given}}})"
    for name in columns:
        # A column that no row has is a wrong name; one that some rows have not is null there.
        if not database.execute(f"SELECT 1 {rows} WHERE {sql_name(name)} IS NOT NULL LIMIT 1").fetchall():
            _require_some(database, f"FROM read_json_objects({paths}, {how})", name, files.where)
    return f"SELECT * {rows}"


def _require_some(database: duckdb.DuckDBPyConnection, rows: str, name: str, where: str) -> None:
    found = database.execute(f"SELECT 1 {rows} WHERE list_contains(json_keys(json), {sql_text(name)}) LIMIT 1").fetchall()
    if not found:
        for (keys,) in database.execute(f"SELECT json_keys(json) {rows} LIMIT 1").fetchall():
            require_columns([name], keys, where)


def _require_once(columns: Sequence[str], present: Sequence[str], where: str) -> None:
    require_columns(columns, present, where)
    for name in columns:
        # As SQL compares names.
        if sum(each.lower() == name.lower() for each in present) > 1:
            raise SourceError(f"{where} has more than one column {name!r}, upper and lower case aside: rename all but one")


def _paths(files: FileSet) -> str:
    return f"[{', '.join(map(sql_text, files.paths))}]"


_READERS: dict[str, Callable[[duckdb.DuckDBPyConnection, FileSet, Sequence[str]], str]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": _csv,
    "jsonl": _jsonl,
}
