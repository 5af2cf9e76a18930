"""Databases with lists, users, item weights, item titles or relevance: kind and options."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, ClassVar

import sqlalchemy as sa
from pydantic import AfterValidator, Field, SecretStr, ValidationInfo
from sqlalchemy.exc import ArgumentError

from monitor.boundary.options import NOT_IN_HASH, Duration, Options, resolve_path
from monitor.boundary.redaction import require_encoded_login
from monitor.model.errors import ConfigError
from monitor.sources import table_options
from monitor.sources.kinds import Reader, SourceKind, imported_when_called
from monitor.sources.sql.query import SelectStatement, parse_query

SqlText = Annotated[str, Field(min_length=1, max_length=100_000)]
_SOURCE = "monitor.sources.sql.source"
_ABOUT = "A database, from which rankwatch reads a query or a whole table."

_Log = Annotated[
    table_options.ServedOptions | None,
    Field(
        description="Use this key if the table is a log of served lists. The column of times must "
        "have one of the database's own types for times. In SQLite, times are texts in ISO 8601, "
        "or numbers that count from 1970.",
    ),
]


def _check_url(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    text = secret.get_secret_value()
    require_encoded_login(text)
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(
            "is not a database URL: write postgresql://user:password@host:5432/name or "
            "sqlite:///path/to/file.db"
        ) from None
    if url.get_backend_name() == "sqlite" and is_file(url.database):
        url = url.set(database=resolve_path(str(url.database), info))
        return SecretStr(url.render_as_string(hide_password=False))
    return secret


def is_file(database: str | None) -> bool:
    """Return whether the database in an SQLite URL is a file, and not in memory."""
    return bool(database) and not str(database).startswith((":memory:", "file:"))


class SqlOptions(Options):
    """Set either a query or a table, but not both."""

    binds: ClassVar[frozenset[str]] = frozenset({"slot"})  # the names that a query may bind

    url: Annotated[SecretStr, AfterValidator(_check_url)]
    """The URL of the database, in SQLAlchemy's format. rankwatch never writes to this database, so
    use an account with read-only access."""
    table: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The name of a table or view, with its schema if needed, such as `recs.lists`. rankwatch reads
    all rows."""
    query: SqlText | None = None
    """A single SELECT statement that returns the columns named in this section. The query can use
    the parameter `:slot`."""
    max_rows: Annotated[int, NOT_IN_HASH] = Field(default=20_000_000, ge=1, le=10**10)
    """The maximum number of rows that a run may read from this source. A single text value can have
    at most 4 MiB."""

    def _problems(self) -> Iterator[str]:
        if (self.query is None) == (self.table is None):
            yield "give either query or table"
        if self.query and getattr(self, "served", None):
            yield (
                "served is only for a table: in a query, select the rows between :slot and some "
                "time before it"
            )
        unknown = sorted(self.bound_names - self.binds)
        if unknown:
            allowed = ", ".join(f":{name}" for name in sorted(self.binds))
            yield (
                rf"query binds :{unknown[0]}, which has no value: use {allowed}; write \: for a colon"
            )
        elif self.parsed_query and self.parsed_query.problem:
            yield f"query {self.parsed_query.problem}"

    @property
    def parsed_query(self) -> SelectStatement | None:
        """The query as it is executed. None for a table."""
        if self.query is None:
            return None
        return parse_query(self.query, sa.make_url(self.url.get_secret_value()).get_backend_name())

    @property
    def bound_names(self) -> frozenset[str]:
        """The names that the query binds. A query writes them as ``:name``."""
        return frozenset() if self.parsed_query is None else self.parsed_query.names


class SqlTableOptions(SqlOptions):
    """Set either a query or a table. rankwatch reads all rows with one statement."""

    timeout: Annotated[Duration, NOT_IN_HASH] = timedelta(minutes=5)
    """How long it may take to read all rows."""


class SqlSourceOptions(table_options.ListColumnOptions, SqlOptions):
    """One arm's lists in a database."""

    binds = frozenset({"users", "k", "slot"})

    query: SqlText | None = None
    """A single SELECT statement. To select the users of the panel in batches, write `user IN
    :users` or `user = ANY(:users)`. The query can also use the parameters `:k` and `:slot`. In
    PostgreSQL, you can also use `:users` as an array, as in `unnest(:users)`."""
    served: _Log = None
    batch: Annotated[int, NOT_IN_HASH] = Field(default=1000, ge=1, le=30_000)
    """The number of users that are passed to one statement in `:users`."""


class SqlUsersOptions(table_options.UserColumnOptions, SqlTableOptions):
    """Users in a database, with one user in each row.

    A user with several rows counts once. A row without a user is unreadable.
    """

    served: _Log = None


class SqlItemWeightsOptions(table_options.WeightColumnOptions, SqlTableOptions):
    """Weights of items in a database, with one item in each row.

    If an item is in two rows, the run fails.
    """


class SqlItemTitlesOptions(table_options.TitleColumnOptions, SqlTableOptions):
    """Titles of items in a database, with one item in each row.

    If an item is in several rows, its first title is used.
    """


class SqlRelevanceOptions(table_options.GradeColumnOptions, SqlTableOptions):
    """A database with the items that users found relevant.

    A run waits until there are rows for its slot.
    """


def _is_live(options: SqlSourceOptions) -> bool:
    return options.served is None and "slot" not in options.bound_names


def _all_users(lists: SqlSourceOptions) -> SqlUsersOptions:
    if lists.bound_names & {"users", "k"}:
        raise ConfigError(
            "needs a table, or a query without :users and :k: give users.sql or users.file instead"
        )
    named = {"url", "table", "query", "user", "user_ids", "max_rows", "max_unreadable", "served"}
    return SqlUsersOptions(**lists.model_dump(include=named, exclude={"served": {"arm"}}))


SQL = SourceKind(
    lists=Reader(SqlSourceOptions, f"{_SOURCE}:SqlSource", _ABOUT),
    is_live=_is_live,
    all_users=_all_users,
    outcomes=Reader(SqlUsersOptions, f"{_SOURCE}:SqlOutcomes", _ABOUT),
    log=imported_when_called("monitor.sources.sql.log:SqlLog"),
    users=Reader(SqlUsersOptions, f"{_SOURCE}:SqlUsers", "Users in a database."),
    item_weights=Reader(SqlItemWeightsOptions, f"{_SOURCE}:SqlTable", _ABOUT),
    item_titles=Reader(SqlItemTitlesOptions, f"{_SOURCE}:SqlTable", _ABOUT),
    relevance=Reader(SqlRelevanceOptions, f"{_SOURCE}:SqlTable", _ABOUT),
)
