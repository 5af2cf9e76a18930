"""Where SQLite and PostgreSQL differ in a statement."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, String, Table, func, text, type_coerce
from sqlalchemy.dialects import postgresql, sqlite

from monitor.storage.column_types import Instant

_T = TypeVar("_T")
_COMPARISON_LOCK = 0x72616E6B  # "rank": the first half of the advisory locks on comparisons


def is_sqlite(connection: Connection) -> bool:
    """Whether this is SQLite, where a writing transaction is the only one."""
    return connection.dialect.name == "sqlite"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that accepts ON CONFLICT."""
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)


def day_of(connection: Connection, instant: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Midnight at which the instant's UTC day began."""
    if is_sqlite(connection):
        return type_coerce(func.substr(instant, 1, 10, type_=String).concat("T00:00:00.000000Z"), Instant)
    return func.date_trunc("day", instant, "UTC", type_=Instant)


IN_LIST = 10_000
"""Values of one IN list: SQLite takes 32,766 in a statement, PostgreSQL 65,535."""


def chunks(values: Iterable[_T]) -> Iterator[list[_T]]:
    """The values in lists that one statement can hold."""
    listed = list(values)
    for start in range(0, len(listed), IN_LIST):
        yield listed[start : start + IN_LIST]


def lock_comparisons(connection: Connection, names: Iterable[str]) -> None:
    """Let no other transaction change these comparisons' alerts until this one ends."""
    if is_sqlite(connection):
        return
    # A row that is not there yet cannot be locked, hence advisory locks; they end with the transaction, so poolers do no harm.
    for number in sorted({zlib.crc32(name.encode(errors="surrogatepass")) - 2**31 for name in names}):
        connection.execute(text("SELECT pg_advisory_xact_lock(:space, :number)"), {"space": _COMPARISON_LOCK, "number": number})
