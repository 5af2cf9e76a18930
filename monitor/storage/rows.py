"""Converts dataclasses to rows and back, and writes SQL that differs between the databases."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    Table,
    bindparam,
    func,
    text,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite

from monitor.storage.column_types import Instant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)

_Value = TypeVar("_Value")
_NAME_LOCK = 0x72616E6B  # the first half of the keys of advisory locks on names: "rank" in ASCII
RUN_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
"""A parameter of statements: the ids of runs."""
IN_LIST = 10_000
"""The largest number of values in an IN list. SQLite allows 32,766, and PostgreSQL 65,535."""


def to_row(
    values: DataclassInstance,
    table: Table,
    *,
    without: frozenset[str] = frozenset(),
    **others: object,
) -> dict[str, Any]:
    """Return a row for the table: the fields of ``values`` except ``without``, and ``others``.

    ``values`` is an object of a dataclass. ``others`` replace fields of the same name. Raises
    TypeError if a field has no column.
    """
    names = _column_names(type(values), table, without)
    return {name: getattr(values, name) for name in names} | others


def from_row(kind: type[_T], row: Row[Any], **others: object) -> _T:
    """Return an object of the dataclass ``kind`` with the row's values.

    ``others`` add fields, or replace fields.
    """
    return kind(**_values_by_name(kind, row) | others)


def read_first(
    kind: type[_T],
    connection: Connection,
    query: Select[Any],
    parameters: Mapping[str, object] | None = None,
) -> _T | None:
    """Return an object of the dataclass ``kind`` for the query's first row. None without rows."""
    row = connection.execute(query, parameters).first()
    return None if row is None else from_row(kind, row)


def from_rows(kind: type[_T], rows: Iterable[Row[Any]]) -> tuple[_T, ...]:
    """Return an object of the dataclass ``kind`` for each row of one query."""
    return tuple(kind(**_values_by_name(kind, row)) for row in rows)


def _values_by_name(kind: type[DataclassInstance], row: Row[Any]) -> dict[str, Any]:
    positions = _shared_positions(kind, row._fields)
    # This takes half the time of `getattr` for each name.
    return dict(zip(positions, map(row.__getitem__, positions.values()), strict=True))


@cache
def _column_names(
    kind: type[DataclassInstance], table: Table, without: frozenset[str]
) -> list[str]:
    names = [field.name for field in fields(kind) if field.name not in without]
    missing = [name for name in names if name not in table.c]
    if missing:
        raise TypeError(f"{table.name} has no column for {kind.__name__}.{', '.join(missing)}")
    return names


@cache
def _shared_positions(kind: type[DataclassInstance], columns: tuple[str, ...]) -> Mapping[str, int]:
    """Return the positions of the columns that have the names of the dataclass's fields."""
    names = [field.name for field in fields(kind) if field.name in columns]
    return {name: columns.index(name) for name in names}


def is_sqlite(connection: Connection) -> bool:
    """Return whether the database is SQLite. On SQLite only one transaction writes at a time."""
    return connection.dialect.name == "sqlite"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that accepts ON CONFLICT."""
    return insert_in(connection.dialect.name, table)


def insert_in(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that accepts ON CONFLICT, in this dialect of SQL."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def day_of(connection: Connection, instant: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Return SQL for the midnight at which the instant's UTC day began."""
    if is_sqlite(connection):
        day = func.substr(instant, 1, 10, type_=String)
        return type_coerce(day.concat("T00:00:00.000000Z"), Instant)
    return func.date_trunc("day", instant, "UTC", type_=Instant)


def midnight(instant: datetime) -> datetime:
    """Return when the instant's UTC day began."""
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def chunks(values: Iterable[_Value]) -> Iterator[list[_Value]]:
    """Yield the values in lists of at most `IN_LIST` values, which fit into one statement."""
    listed = list(values)
    for start in range(0, len(listed), IN_LIST):
        yield listed[start : start + IN_LIST]


def lock_names(connection: Connection, names: Iterable[str]) -> None:
    """Lock these names until this transaction ends. Other transactions wait for the locks.

    A transaction locks a comparison before it changes the comparison's daily sums, alerts or
    accepted levels. It locks a receiver before it claims deliveries to the receiver.
    """
    # On SQLite only one transaction writes at a time, so no lock is needed.
    if is_sqlite(connection):
        return
    # Advisory locks need no row, so names without rows can be locked too. Locks that end with the
    # transaction also work behind a connection pooler.
    lock = text("SELECT pg_advisory_xact_lock(:space, :number)")
    # PostgreSQL takes a signed number of 32 bits, and CRC-32 is unsigned. If two names have the
    # same number, transactions wait needlessly.
    numbers = {zlib.crc32(name.encode(errors="surrogatepass")) - 2**31 for name in names}
    # All transactions lock in the same order, so that there is no deadlock.
    for number in sorted(numbers):
        connection.execute(lock, {"space": _NAME_LOCK, "number": number})
