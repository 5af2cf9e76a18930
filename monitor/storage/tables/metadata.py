"""The schema's metadata: names of constraints, kinds of columns, and kinds of tables."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Enum,
    ForeignKey,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from monitor.storage.column_types import Id

_Type = TypeEngine[Any] | type[TypeEngine[Any]]

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def enum_type(members: type[StrEnum]) -> Enum:
    """Return the type of a column for members of the enumeration."""
    words = [member.value for member in members]
    return Enum(members, values_callable=lambda _: words, native_enum=False, length=20)


def enum_column(name: str, members: type[StrEnum]) -> tuple[Column[StrEnum], CheckConstraint]:
    """Return a column for members of the enumeration, and its constraint."""
    listed = ", ".join(f"'{member}'" for member in members)
    check = CheckConstraint(f"{name} IN ({listed})", name=name)
    return Column(name, enum_type(members), nullable=False), check


def required_columns(kind: _Type, *names: str) -> list[Column[Any]]:
    """Return columns of one type that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def optional_columns(kind: _Type, *names: str) -> list[Column[Any]]:
    """Return columns of one type that may be NULL."""
    return [Column(name, kind) for name in names]


def numbered_table(name: str, *items: SchemaItem) -> Table:
    """Return a table whose rows have ids that are never used again."""
    return Table(
        name,
        metadata,
        Column("id", Id, primary_key=True),
        *items,
        sqlite_autoincrement=True,
    )


def table_of_runs(
    name: str,
    *items: SchemaItem,
    key: Sequence[str] = (),
    is_large: bool = False,
) -> Table:
    """Return a table whose rows belong to runs. ``key`` distinguishes the rows of one run.

    SQLite stores the rows of a table without rowid in the order of their key. For large rows this
    is slow, so their tables have a rowid.
    """
    run_id: Column[int] = Column(
        "run_id",
        Id,
        ForeignKey("runs.id", ondelete="CASCADE"),
        nullable=False,
    )
    return Table(
        name,
        metadata,
        run_id,
        *items,
        PrimaryKeyConstraint("run_id", *key),
        sqlite_with_rowid=is_large,
    )


def index_where(condition: str, name: str, *columns: str) -> Index:
    """Return an index of only the rows that meet the condition, for queries with this condition."""
    return Index(name, *columns, sqlite_where=text(condition), postgresql_where=text(condition))
