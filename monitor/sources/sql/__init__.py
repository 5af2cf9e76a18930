"""Lists, users, weights and titles of items and relevance from databases: the kind and its options."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, ClassVar

import sqlalchemy as sa
from pydantic import AfterValidator, Field, SecretStr, ValidationInfo
from sqlalchemy.exc import ArgumentError

from monitor.errors import ConfigError
from monitor.options import NOT_IN_HASH, Duration, Options, resolve_path
from monitor.redaction import require_whole_password
from monitor.sources import table_options
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.sql.query import Query, parse_query

QueryText = Annotated[str, Field(min_length=1, max_length=100_000)]
_SOURCE = "monitor.sources.sql.source"
_ABOUT = "A database: a query or a whole table."

_Log = Annotated[
    table_options.ServedOptions | None,
    Field(
        description="The table is a log of what was served. Its times are the database's own; in "
        "SQLite text of ISO 8601, or numbers since 1970."
    ),
]


def _check_url(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    try:
        url = sa.make_url(secret.get_secret_value())
    except (ArgumentError, ValueError):
        msg = (
            "is no database URL: expected postgresql://user:password@host:5432/name or "
            "sqlite:///path/to/file.db"
        )
        raise ValueError(msg) from None
    require_whole_password(url)
    if (
        url.get_backend_name() != "sqlite"
        or not url.database
        or url.database.startswith((":memory:", "file:"))
    ):
        return secret
    return SecretStr(
        url.set(database=resolve_path(url.database, info)).render_as_string(hide_password=False)
    )


class SqlOptions(Options):
    """A query or a table, never both."""

    binds: ClassVar[frozenset[str]] = frozenset({"slot"})  # what a query may bind

    url: Annotated[SecretStr, AfterValidator(_check_url)] = Field(
        description=(
            "SQLAlchemy URL of the database. It is only read from; give a user who may do no more."
        )
    )
    table: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Table or view to read whole, with its schema where needed: `recs.lists`.",
    )
    query: QueryText | None = Field(
        default=None, description="One SELECT of these columns; `:slot` is set."
    )
    max_rows: Annotated[int, NOT_IN_HASH] = Field(
        default=20_000_000,
        ge=1,
        le=10**10,
        description="Most rows to read in one pull, each value up to 4 MiB of text.",
    )

    def _problems(self) -> Iterator[str]:
        if (self.query is None) == (self.table is None):
            yield "give either query or table"
        if self.query and getattr(self, "served", None):
            yield (
                "served goes with table: a query says by itself which rows count, between "
                ":slot and some time before"
            )
        unknown = sorted(self.bound_names - self.binds)
        if unknown:
            known = ", ".join(f":{name}" for name in sorted(self.binds))
            yield rf"query binds :{unknown[0]}, which nobody sets: use {known}; write \: for a colon of its own"
        elif self.parsed_query and self.parsed_query.problem:
            yield f"query {self.parsed_query.problem}"

    @property
    def parsed_query(self) -> Query | None:
        """The query as it is executed, if there is one."""
        if self.query is None:
            return None
        return parse_query(self.query, sa.make_url(self.url.get_secret_value()).get_backend_name())

    @property
    def bound_names(self) -> frozenset[str]:
        """Names that the query binds, written ``:name``."""
        return frozenset() if self.parsed_query is None else self.parsed_query.names


class SqlTableOptions(SqlOptions):
    """A query or a table that is read whole, in one statement."""

    timeout: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(minutes=5), description="Longest time to read it all."
    )


class SqlSourceOptions(table_options.ListColumnOptions, SqlOptions):
    """One arm's lists in a database."""

    binds = frozenset({"users", "k", "slot"})

    query: QueryText | None = Field(
        default=None,
        description="One SELECT; `user IN :users` or `user = ANY(:users)` asks for the panel's "
        "users, batch by batch; `:k` and `:slot` are set too. In PostgreSQL `:users` "
        "may also be an array, such as `unnest(:users)`.",
    )
    served: _Log = None
    batch: Annotated[int, NOT_IN_HASH] = Field(
        default=1000, ge=1, le=30_000, description="Users bound to `:users` in one statement."
    )


class SqlUsersOptions(table_options.UserColumnOptions, SqlTableOptions):
    """Users in a database, one a row.

    A user listed twice counts once, and rows without a user are counted as unreadable.
    """

    served: _Log = None


class SqlItemWeightsOptions(table_options.WeightColumnOptions, SqlTableOptions):
    """Weights of items in a database, one item a row; an item that stands twice is an error."""


class SqlItemTitlesOptions(table_options.TitleColumnOptions, SqlTableOptions):
    """Titles of items in a database, one item a row.

    Of an item that stands twice the first title counts.
    """


class SqlRelevanceOptions(table_options.GradeColumnOptions, SqlTableOptions):
    """What users found relevant, in a database.

    While there is no row for a slot it is waited for.
    """


def _all_users(lists: SqlSourceOptions) -> SqlUsersOptions:
    if lists.bound_names & {"users", "k"}:
        raise ConfigError(
            (
                "all: true needs a table, or a query without :users and :k: give users.sql or "
                "users.file instead"
            )
        )
    named = {"url", "table", "query", "user", "user_ids", "max_rows", "max_unreadable", "served"}
    return SqlUsersOptions(**lists.model_dump(include=named, exclude={"served": {"arm"}}))


SQL = SourceKind(
    lists=Reader(SqlSourceOptions, f"{_SOURCE}:SqlSource", _ABOUT),
    is_live=lambda options: options.served is None and "slot" not in options.bound_names,
    all_users=_all_users,
    users=Reader(SqlUsersOptions, f"{_SOURCE}:SqlTable", "Users in a database."),
    item_weights=Reader(SqlItemWeightsOptions, f"{_SOURCE}:SqlTable", _ABOUT),
    item_titles=Reader(SqlItemTitlesOptions, f"{_SOURCE}:SqlTable", _ABOUT),
    relevance=Reader(SqlRelevanceOptions, f"{_SOURCE}:SqlTable", _ABOUT),
)
