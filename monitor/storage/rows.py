"""Dataclasses of the model as rows of a table and back, a field as the column of its name, and statements of both databases."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, String, Table, func, text, type_coerce
from sqlalchemy.dialects import postgresql, sqlite

from monitor.storage.column_types import Instant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)

_COLUMNS = {
    "run_id": "id",
    "slot": "scheduled_for",
    "at": "changed_at",
    "until": "claimed_until",
    "user": "user_id",
    "runs": "learned_from",
    "limit": "bound",
    "opposite": "opposite_bound",
    "evidence_limit": "evidence_bound",
    "membership": "by_membership",
    "order": "by_order",
    "length": "by_length",
}
"""Columns that have another name than their field.

Where a table has a column of the field's own name, that is it.
"""

_Value = TypeVar("_Value")
_COMPARISON_LOCK = 0x72616E6B  # "rank": the first half of the advisory locks on comparisons
IN_LIST = 10_000
"""Values of one IN list: SQLite takes 32,766 in a statement, PostgreSQL 65,535."""


def to_row(item: DataclassInstance, table: Table, **given: object) -> dict[str, Any]:
    """What the item's fields put into the table's columns, and what is given beside them.

    Other fields are left out.
    """
    known = _columns_of(type(item), tuple(table.c.keys()))
    return {column: getattr(item, name) for name, column in known.items()} | given


def from_row(kind: type[_T], row: Row[Any], **given: object) -> _T:
    """The item that the row's columns hold, with the fields that are given in their place."""
    known = _places_of(kind, row._fields)
    return kind(**{name: row[place] for name, place in known} | given)


@cache
def _columns_of(kind: type[DataclassInstance], columns: Sequence[str]) -> dict[str, str]:
    named = {
        each.name: each.name if each.name in columns else _COLUMNS.get(each.name, "")
        for each in fields(kind)
    }
    return {name: column for name, column in named.items() if column in columns}


@cache
def _places_of(
    kind: type[DataclassInstance], columns: Sequence[str]
) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, columns.index(column)) for name, column in _columns_of(kind, columns).items()
    )


def is_sqlite(connection: Connection) -> bool:
    """Whether this is SQLite, where a writing transaction is the only one."""
    return connection.dialect.name == "sqlite"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that accepts ON CONFLICT."""
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)


def day_of(connection: Connection, instant: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Midnight at which the instant's UTC day began."""
    if is_sqlite(connection):
        return type_coerce(
            func.substr(instant, 1, 10, type_=String).concat("T00:00:00.000000Z"), Instant
        )
    return func.date_trunc("day", instant, "UTC", type_=Instant)


def chunks(values: Iterable[_Value]) -> Iterator[list[_Value]]:
    """The values in lists that one statement can hold."""
    listed = list(values)
    for start in range(0, len(listed), IN_LIST):
        yield listed[start : start + IN_LIST]


def lock_comparisons(connection: Connection, names: Iterable[str]) -> None:
    """Let no other transaction change these comparisons' alerts until this one ends."""
    if is_sqlite(connection):
        return
    # A row that is not there yet cannot be locked, hence advisory locks; they end with the
    # transaction, so poolers do no harm.
    for number in sorted(
        {zlib.crc32(name.encode(errors="surrogatepass")) - 2**31 for name in names}
    ):
        connection.execute(
            text("SELECT pg_advisory_xact_lock(:space, :number)"),
            {"space": _COMPARISON_LOCK, "number": number},
        )
