"""Dataclasses of the model as rows of a table, and back: a field is the column of its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Row, Table

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
"""Columns that have another name than their field; where a table has a column of the field's own name, that is it."""


def to_row(item: DataclassInstance, table: Table, **given: object) -> dict[str, Any]:
    """What the item's fields put into the table's columns, and what is given beside them; other fields are left out."""
    known = _columns_of(type(item), tuple(table.c.keys()))
    return {column: getattr(item, name) for name, column in known.items()} | given


def from_row(kind: type[_T], row: Row[Any], **given: object) -> _T:
    """The item that the row's columns hold, with the fields that are given in their place."""
    known = _places_of(kind, row._fields)
    return kind(**{name: row[place] for name, place in known} | given)


@cache
def _columns_of(kind: type[DataclassInstance], columns: Sequence[str]) -> dict[str, str]:
    """Columns by field, of those fields that have one."""
    named = {each.name: each.name if each.name in columns else _COLUMNS.get(each.name, "") for each in fields(kind)}
    return {name: column for name, column in named.items() if column in columns}


@cache
def _places_of(kind: type[DataclassInstance], columns: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Fields that have a column, and where it stands in the row."""
    return tuple((name, columns.index(column)) for name, column in _columns_of(kind, columns).items())
