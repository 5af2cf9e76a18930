"""A database in memory (DuckDB) that reads files, and views of these files."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from monitor.boundary.deadline import (
    Deadline,
    interrupt_when_given_up,
    interrupted_at,
    interrupted_by_signals,
)
from monitor.boundary.temporary_database import scratch_database, sql_text
from monitor.measures.reading.ids import (
    MAX_ID_LENGTH,
    id_column,
    is_list,
    is_text,
    one_array,
)
from monitor.measures.reading.lists import parse_cell, parse_column
from monitor.measures.reading.unreadable_values import unreadable_of
from monitor.model.errors import SourceError
from monitor.model.id_forms import Forms
from monitor.model.unpaired import ARM_COLUMN
from monitor.model.unreadable import ColumnKind, Unreadable
from monitor.sources.columns import spell_column
from monitor.sources.file.diagnosis import MEMORY_MB, file_errors
from monitor.sources.file.file_set import FileSet
from monitor.sources.file.formats import select_rows, sql_name
from monitor.sources.table_options import (
    MICROSECONDS,
    MILLISECONDS,
    NANOSECONDS,
    SECONDS,
    ServedOptions,
)

KEY = "rankwatch_key"
"""The name of the column of users' keys in our views."""
ROW_NUMBER = "rankwatch_row_number"
"""The name of the column of row numbers, for files whose rows are in order."""
MOST_SORTED = 4_000_000
"""The largest number of hashes that `has_repeated` sorts in memory. They take 32 MB."""
_THREADS = 2  # with more threads, each thread has too little memory

_INSTANTS = frozenset({"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})  # types with microseconds
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_TEXT = 1 << 18  # the number of bytes


@contextmanager
def open_database(
    files: Sequence[FileSet],
    deadline: Deadline | None = None,
    *,
    k: int = 1,
    in_order: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory that can read only these files.

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


class FileView:
    """A view of files with these columns. `LogView` is a view of some rows.

    ``checked`` names columns whose texts are not too long, because another view has checked them.

    Raises SourceError if the files cannot be read or lack one of the columns.
    """

    unreadable: tuple[Unreadable, ...] = ()
    """The rows of a log that were skipped."""
    has_arms = False
    """Whether the view also has `ARM_COLUMN`."""
    has_one_row = False
    """Whether each user has only one row. If the view has arms, one row of each arm."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        columns: Sequence[str],
        name: str,
        checked: Collection[str] = (),
    ) -> None:
        self.name = name
        self.where = files.where
        self.is_json = files.format == "jsonl"
        self._database = database
        self._functions = 0
        with file_errors([files]):
            file_columns = [column for column in columns if column != ROW_NUMBER]
            # DuckDB reads 16-bit floats as 32-bit floats.
            rows, self._halves = select_rows(database, files, file_columns)
            if ROW_NUMBER in columns:
                rows = f"SELECT *, row_number() OVER () AS {ROW_NUMBER} FROM ({rows})"
            database.execute(f"CREATE TEMP VIEW {self.all_rows} AS {rows}")
            view = database.sql(f"SELECT * FROM {self.all_rows} LIMIT 0")
            empty = view.to_arrow_table()
        self._types = dict(zip(view.columns, view.types, strict=True))
        self._empty = {column: empty[column].combine_chunks() for column in columns}
        if files.format == "parquet":
            self._refuse_long_texts(checked)

    @property
    def all_rows(self) -> str:
        """The name of the view of all rows of the files."""
        return self.name

    @property
    def columns(self) -> Collection[str]:
        """The columns of the files in this view."""
        return self._empty

    def empty(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return these columns with their types, but without any rows."""
        return {name: self.values(name, self._empty[name]) for name in columns}

    def values(self, name: str, column: pa.Array) -> Any:  # noqa: ANN401 - pyarrow has no stubs
        """Return the values in a column of the view. The texts of JSON lines are parsed."""
        if name in self._halves:
            # A 16-bit float can represent fewer whole numbers than a 32-bit float, so the checks of
            # ids need the type of the file.
            half = pa.float16()
            return column.cast(pa.list_(half) if is_list(column.type) else half)
        if not self.is_json:
            return column
        return parse_column(column.to_pylist())

    def is_list(self, column: str) -> bool:
        """Return whether the type of a column is a list.

        A text that contains a list is not of this type.
        """
        return is_list(self._empty[column].type)

    def ids(self, column: str, forms: Forms = None) -> str:
        """Return the SQL expression for the ids in a column as text, rewritten by ``forms``.

        It is null if a value is no id. Raises SourceError if values of the column's type cannot be
        ids.
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
        # Text that is surely an id stays in SQL. In Python, reading it would take twice as long.
        text = sql_name(column)
        return f"CASE WHEN {_is_plain(text)} THEN {text} ELSE {function}({value}) END"

    def count(
        self, rows: str, checks: Sequence[tuple[str, ColumnKind, str]], more: Sequence[str] = ()
    ) -> tuple[tuple[Unreadable, ...], list[Any]]:
        """Return the counts of unreadable values in these rows, and further SQL aggregates.

        Each check names a column, says what its values must be, and has an SQL condition. The
        condition is true for unreadable values.
        """
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
        """Return the SQL expression for the segment values in a column.

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
        """Return the SQL expression for all values in a column as text."""
        if self.is_json:
            return f"({sql_name(column)} ->> '$')"
        return f"CAST({sql_name(column)} AS VARCHAR)"

    def item(self, column: str) -> str:
        """Return the SQL expression for the ids in a column. It is null if a text is too long."""
        name = sql_name(column)
        if not self.is_json and is_text(self._empty[column].type):
            return _short_text(name)
        return name

    def items(self, column: str, k: int | None) -> str:
        """Return the SQL expression for lists, cut to k items. Lists as text are not cut."""
        lists = sql_name(column)
        if not self.is_list(column):
            return lists
        if k is not None:
            lists = cut_lists(lists, k)
        if is_text(self._empty[column].type.value_type):
            return f"list_transform({lists}, lambda item: {_short_text('item')})"
        return lists

    def _instant(self, column: str) -> str:
        """Return the SQL expression for the times in a column, in microseconds since 1970."""
        if str(self._types[column]) in _INSTANTS:
            return f"epoch_us({sql_name(column)})"
        return _instant_sql(self.raw_text(column))

    def time_sql(self, instant: str | None, served: ServedOptions, slot: datetime) -> str:
        """Return the SQL condition for a time in the period. None is the time of the row."""
        instant = instant or self._instant(served.time)
        start, end = served.period(slot)
        condition = f"{instant} <= {_microseconds(end)}"
        if start is not None:
            condition += f" AND {instant} > {_microseconds(start)}"
        return condition

    def arm_sql(self, served: ServedOptions) -> tuple[str, list[str]]:
        """Return the SQL expression for the arm of a log's row, and the conditions for its rows."""
        conditions = ["TRUE"]
        for column, value in served.arm.items():
            conditions.append(f"{self._arm_value(column)} = {sql_text(value)}")
        if served.arms is None:
            return "NULL", conditions
        cases = []
        for arm, value in served.arms.value_of.items():
            cases.append(f"WHEN {sql_text(value)} THEN {sql_text(arm)}")
        conditions.append(f"{ARM_COLUMN} IS NOT NULL")
        return f"CASE {self._arm_value(served.arms.name)} {' '.join(cases)} END", conditions

    def _arm_value(self, column: str) -> str:
        """Return the SQL expression for the values of arms: ids, or the texts true and false."""
        if self.is_json:
            return self.label(column)
        if str(self._types[column]) == "BOOLEAN":
            return self.raw_text(column)
        return self.ids(column)

    def _refuse_long_texts(self, checked: Collection[str]) -> None:
        """Raise SourceError if a column has a long text, except in columns ``checked`` before."""
        # A file with a dictionary stores each text once. In memory, each row gets its own copy.
        names = []
        for name, column in self._empty.items():
            if is_text(column.type) and name not in checked:
                names.append(name)
        if not names:
            return
        lengths = ", ".join(f"max(strlen({sql_name(name)}))" for name in names)
        (longest,) = self._database.execute(f"SELECT {lengths} FROM {self.all_rows}").fetchall()
        for name, length in zip(names, longest, strict=True):
            if length is not None and length > _LONGEST_TEXT:
                raise SourceError(
                    f"column {name!r} of {self.where} has a text of {length} bytes: leave out "
                    f"texts of more than {_LONGEST_TEXT} bytes"
                )


def _microseconds(instant: datetime) -> int:
    """Return the number of microseconds since 1970."""
    return (instant - _UNIX_EPOCH) // _MICROSECOND


def has_repeated(database: duckdb.DuckDBPyConnection, hashes: str) -> bool:
    """Return whether two rows have the same hash. ``hashes`` is a query for one column of them.

    Sorting the hashes takes less than half the CPU time of DuckDB's GROUP BY. But DuckDB can write
    data to disk, so it compares the hashes if there are more than `MOST_SORTED`.
    """
    few = f"SELECT h FROM ({hashes}) AS rows(h) LIMIT {MOST_SORTED + 1}"
    in_order = np.sort(database.execute(few).fetchnumpy()["h"])
    if len(in_order) <= MOST_SORTED:
        return bool((in_order[1:] == in_order[:-1]).any())
    count = f"SELECT count(DISTINCT h) < count(*) FROM ({hashes}) AS rows(h)"
    ((is_repeated,),) = database.execute(count).fetchall()
    return bool(is_repeated)


def cut_lists(lists: str, k: int) -> str:
    """Return the SQL expression for lists, cut to k items. ``lists`` is an SQL expression too.

    Cutting copies a list, so lists that need no cut are left as they are. This saves a tenth of the
    join's CPU time.
    """
    return f"CASE WHEN len({lists}) > {k} THEN {lists}[:{k}] ELSE {lists} END"


def _short_text(value: str) -> str:
    """Return the SQL expression for the text. It is null if the text is too long for any id.

    A character of an id takes at most 12 bytes in JSON.
    """
    return f"CASE WHEN strlen({value}) <= {12 * MAX_ID_LENGTH + 2} THEN {value} END"


def _is_plain(value: str) -> str:
    """Return the SQL condition for text that is surely an id. It is short and has no NUL."""
    return f"strlen({value}) BETWEEN 1 AND {MAX_ID_LENGTH} AND NOT contains({value}, chr(0))"


def _instant_sql(text: str) -> str:
    """Return the SQL expression that converts a text to microseconds since 1970.

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
