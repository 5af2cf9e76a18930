"""The statement that reads a query's or a table's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from monitor.sources.sql.options import bound_names


def statement_of(query: str | None, table: str | None, columns: Sequence[str]) -> sa.Executable:
    """A SELECT of the columns from the table, or the query with the types of what it binds."""
    if table is not None:
        schema, _, name = table.rpartition(".")
        return sa.select(*map(sa.column, columns)).select_from(sa.table(name, schema=schema or None))
    text = sa.text(re.sub(r"\(\s*:users\s*\)", ":users", query or ""))
    known: dict[str, sa.BindParameter[Any]] = {
        "users": sa.bindparam("users", expanding=True, type_=sa.types.NullType()),  # the database knows the column's type
        "slot": sa.bindparam("slot", type_=sa.DateTime(timezone=True)),
    }
    return text.bindparams(*(known[name] for name in bound_names(query or "") if name in known))
