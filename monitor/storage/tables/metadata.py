"""The schema's metadata: names of constraints, columns of closed sets, the foreign key to a run."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, MetaData, text

from monitor.storage.column_types import Id, Member

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def closed(name: str, members: type[StrEnum]) -> tuple[Column[StrEnum], CheckConstraint]:
    """A column that holds only members of the enumeration."""
    listed = ", ".join(f"'{member.value}'" for member in members)
    return Column(name, Member(members), nullable=False), CheckConstraint(f"{name} IN ({listed})", name=name)


def run_id_column() -> Column[Any]:
    """The run that a row belongs to and is deleted with."""
    return Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False)


def index_where(condition: str, name: str, *columns: str) -> Index:
    """An index of the few rows that meet the condition, used by queries that ask for it."""
    return Index(name, *columns, sqlite_where=text(condition), postgresql_where=text(condition))
