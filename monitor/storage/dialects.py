"""Where SQLite and PostgreSQL differ in a statement."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql, sqlite

_T = TypeVar("_T")
_COMPARISON_LOCK = 0x72616E6B  # "rank": the first half of the advisory locks on comparisons


def is_sqlite(connection: Connection) -> bool:
    """Whether this is SQLite, where a writing transaction is the only one."""
    return connection.dialect.name == "sqlite"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that accepts ON CONFLICT."""
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)


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
