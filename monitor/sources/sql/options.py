"""What can be set about lists or users in a database."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar, Self

import sqlalchemy as sa
from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator
from sqlalchemy.exc import ArgumentError

from monitor.options import Duration, Options, resolve_path
from monitor.redaction import require_whole_password
from monitor.sources.table_options import GRADE, ITEM, TITLE, WEIGHT, ColumnName, ListColumns


def bound_names(query: str) -> frozenset[str]:
    """Names that the query binds, written ``:name``."""
    return frozenset(sa.text(query).compile().params)


def _check_url(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    """Check the URL, and let a relative SQLite path start at the configuration file's directory."""
    try:
        url = sa.make_url(secret.get_secret_value())
    except (ArgumentError, ValueError):
        msg = "is no database URL: expected postgresql://user:password@host:5432/name or sqlite:///path/to/file.db"
        raise ValueError(msg) from None
    require_whole_password(url)
    if url.get_backend_name() != "sqlite" or not url.database or url.database.startswith((":memory:", "file:")):
        return secret
    return SecretStr(url.set(database=resolve_path(url.database, info)).render_as_string(hide_password=False))


SourceDatabaseUrl = Annotated[SecretStr, AfterValidator(_check_url)]

_URL = "SQLAlchemy URL of the database. It is only read from; give a user who may do no more."
_TABLE = "Table or view to read whole, with its schema where needed: `recs.lists`."
_TIMEOUT = "Longest time to read it all."
_ROWS = "Most rows to read in one pull."


class _Selection(Options):
    """A query or a table, never both."""

    binds: ClassVar[frozenset[str]] = frozenset()

    url: SourceDatabaseUrl = Field(description=_URL)
    table: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(default=None, description=_TABLE)
    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(default=None, description="One SELECT.")
    max_rows: int = Field(default=20_000_000, ge=1, le=10**10, description=_ROWS)

    @model_validator(mode="after")
    def _query_or_table(self) -> Self:
        if (self.query is None) == (self.table is None):
            msg = "give either query or table"
            raise ValueError(msg)
        if self.query and (unknown := sorted(bound_names(self.query) - self.binds)):
            known = ", ".join(f":{name}" for name in sorted(self.binds))
            msg = rf"query binds :{unknown[0]}, which nobody sets: use {known}; write \: for a colon of its own"
            raise ValueError(msg)
        return self


class SqlSourceOptions(_Selection, ListColumns):
    """One arm's lists in a database."""

    binds = frozenset({"users", "k", "slot"})

    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None,
        description="One SELECT; `user IN :users` asks for the panel's users, batch by batch; `:k` and `:slot` are set too.",
    )
    batch: int = Field(default=1000, ge=1, le=30_000, description="Users bound to `:users` in one statement.")


class SqlUsersOptions(_Selection):
    """Users in a database, one a row; a user listed twice counts once, a row without a user not at all."""

    binds = frozenset({"slot"})

    user: ColumnName = Field(description="Column with the user's key.")
    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="One SELECT that yields the user and the segments' columns; `:slot` is set."
    )
    timeout: Duration = Field(default=timedelta(minutes=5), description=_TIMEOUT)


class SqlItemWeightsOptions(_Selection):
    """Weights of items in a database, one item a row; an item that stands twice is an error."""

    binds = frozenset({"slot"})

    item: ColumnName = Field(description=ITEM)
    weight: ColumnName = Field(description=WEIGHT)
    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="One SELECT that yields items and weights; `:slot` is set."
    )
    timeout: Duration = Field(default=timedelta(minutes=5), description=_TIMEOUT)


class SqlItemTitlesOptions(_Selection):
    """Titles of items in a database, one item a row; of an item that stands twice the first title counts."""

    binds = frozenset({"slot"})

    item: ColumnName = Field(description=ITEM)
    title: ColumnName = Field(description=TITLE)
    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="One SELECT that yields items and titles; `:slot` is set."
    )
    timeout: Duration = Field(default=timedelta(minutes=5), description=_TIMEOUT)


class SqlRelevanceOptions(_Selection):
    """What users found relevant, in a database, one item a row; while there is no row for a slot it is waited for."""

    binds = frozenset({"slot"})

    user: ColumnName = Field(description="Column with the user's key.")
    item: ColumnName = Field(description=ITEM)
    grade: ColumnName | None = Field(default=None, description=GRADE)
    query: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="One SELECT that yields users, items and grades of the run's time, which `:slot` is."
    )
    timeout: Duration = Field(default=timedelta(minutes=5), description=_TIMEOUT)
