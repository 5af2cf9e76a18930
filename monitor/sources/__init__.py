"""Where lists, users, weights and titles of items and relevance come from.

A new source is one new module, one field of its options, and one line of the table below that opens it. Opening does no I/O,
so a configuration can be checked by opening what it names; reading happens in `pull`, `users`, `weights`, `titles` and
`relevance`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from monitor.errors import ConfigError
from monitor.options import Duration, OneOf, Options
from monitor.ports import ItemTitleSource, ItemWeightSource, RelevanceSource, Source, UserSource
from monitor.sources.file import (
    FileItemTitles,
    FileItemTitlesOptions,
    FileItemWeights,
    FileItemWeightsOptions,
    FileRelevance,
    FileRelevanceOptions,
    FileSource,
    FileSourceOptions,
    FileUsers,
    FileUsersOptions,
)
from monitor.sources.http import HttpSource, HttpSourceOptions
from monitor.sources.sql import (
    SqlItemTitles,
    SqlItemTitlesOptions,
    SqlItemWeights,
    SqlItemWeightsOptions,
    SqlRelevance,
    SqlRelevanceOptions,
    SqlSource,
    SqlSourceOptions,
    SqlUsers,
    SqlUsersOptions,
    users_options_of,
)
from monitor.sources.table_options import ColumnName

__all__ = [
    "FileItemTitlesOptions",
    "FileItemWeightsOptions",
    "FileRelevanceOptions",
    "FileSourceOptions",
    "FileUsersOptions",
    "HttpSourceOptions",
    "ItemTitlesOptions",
    "ItemWeightsOptions",
    "RelevanceOptions",
    "SampleOptions",
    "SourceOptions",
    "SqlItemTitlesOptions",
    "SqlItemWeightsOptions",
    "SqlRelevanceOptions",
    "SqlSourceOptions",
    "SqlUsersOptions",
    "UsersOptions",
    "open_item_titles",
    "open_item_weights",
    "open_relevance",
    "open_source",
    "open_users",
]

_SOURCES: dict[str, Callable[[Any], Source]] = {"http": HttpSource, "file": FileSource, "sql": SqlSource}
_USERS: dict[str, Callable[[Any], UserSource]] = {"file": FileUsers, "sql": SqlUsers}
_ITEM_WEIGHTS: dict[str, Callable[[Any], ItemWeightSource]] = {"file": FileItemWeights, "sql": SqlItemWeights}
_ITEM_TITLES: dict[str, Callable[[Any], ItemTitleSource]] = {"file": FileItemTitles, "sql": SqlItemTitles}
_RELEVANCE: dict[str, Callable[[Any], RelevanceSource]] = {"file": FileRelevance, "sql": SqlRelevance}


class SourceOptions(OneOf):
    """One arm's source of lists: exactly one of these."""

    http: HttpSourceOptions | None = Field(default=None, description="A recommender asked over HTTP, one request a user.")
    file: FileSourceOptions | None = Field(default=None, description="A file of lists: Parquet, CSV or JSON lines.")
    sql: SqlSourceOptions | None = Field(default=None, description="A database: a query or a whole table.")

    @property
    def has_scores(self) -> bool:
        """Whether the lists come with the model's own scores."""
        given = self.http or self.file or self.sql
        return given is not None and given.scores is not None


class ItemWeightsOptions(OneOf):
    """Where the weights of items come from: exactly one of these."""

    file: FileItemWeightsOptions | None = Field(default=None, description="A file: Parquet, CSV or JSON lines.")
    sql: SqlItemWeightsOptions | None = Field(default=None, description="A database: a query or a whole table.")


class ItemTitlesOptions(OneOf):
    """Where the titles of items come from: exactly one of these."""

    file: FileItemTitlesOptions | None = Field(default=None, description="A file: Parquet, CSV or JSON lines.")
    sql: SqlItemTitlesOptions | None = Field(default=None, description="A database: a query or a whole table.")


class RelevanceOptions(Options):
    """Where it is known what users found relevant, such as what they bought: exactly one of file and sql."""

    file: FileRelevanceOptions | None = Field(default=None, description="A file a slot: Parquet, CSV or JSON lines.")
    sql: SqlRelevanceOptions | None = Field(default=None, description="A database: a query or a whole table.")
    after: Duration | None = Field(
        default=None,
        description="How long after its slot a run first asks what users found relevant. By then all of it must have arrived: "
        "the first answer that is not empty is the only one. Without it the run itself asks.",
    )
    within: Duration = Field(
        default=timedelta(days=7), description="How long after its slot a run still waits for what users found relevant."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        _check_one(self, tuple(_RELEVANCE))
        return self

    @model_validator(mode="after")
    def _time_to_ask(self) -> Self:
        if self.after is not None and self.after >= self.within:
            msg = "after must be shorter than within: a run stops waiting before it would ask"
            raise ValueError(msg)
        return self


class SampleOptions(Options):
    """How many users a run asks for."""

    fixed: int = Field(default=0, ge=0, le=10**8, description="Users that are the same each run; they carry the trend.")
    rotating: int = Field(default=0, ge=0, le=10**8, description="Users drawn fresh each run; they carry the decisions.")

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if self.fixed + self.rotating == 0:
            msg = "give fixed or rotating, at least 1"
            raise ValueError(msg)
        return self


def _check_segments(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        msg = "names a column twice"
        raise ValueError(msg)
    if odd := [name for name in names if "=" in name or not name.isprintable()]:
        msg = f"segment column {odd[0]!r}: a name may hold no = and no control character"
        raise ValueError(msg)
    return names


class UsersOptions(Options):
    """Who is asked: exactly one of file, sql and all; with segments, and how many of them."""

    file: FileUsersOptions | None = Field(default=None, description="Users in a file.")
    sql: SqlUsersOptions | None = Field(default=None, description="Users in a database.")
    all: Literal[True] | None = Field(default=None, description="Every user of the baseline's file, table or query.")
    segments: Annotated[tuple[ColumnName, ...], AfterValidator(_check_segments)] = Field(
        default=(),
        max_length=20,
        description="Columns of the users' file or table (with `all`, of the baseline's) to slice by.",
    )
    sample: Annotated[int, Field(ge=1, le=10**8)] | SampleOptions | None = Field(
        default=None,
        description="How many users a run asks for; a number means the same ones each run. Everybody when left out.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        _check_one(self, ("file", "sql", "all"))
        return self


def _check_one(options: Options, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(options, name) is not None]
    if len(given) != 1:
        msg = f"give exactly one of {', '.join(names)}" + (f"; found {' and '.join(given)}" if given else "")
        raise ValueError(msg)


def open_source(options: SourceOptions) -> Source:
    """Open one arm's source. ConfigError when a driver is not installed."""
    name, given = _given(options, tuple(_SOURCES))
    return _SOURCES[name](given)


def open_users(options: UsersOptions, baseline: SourceOptions) -> UserSource:
    """Open the source of users. ConfigError when it is every user of a baseline that cannot list them."""
    if not options.all:
        name, given = _given(options, tuple(_USERS))
        return _USERS[name](given)
    if baseline.file:
        file = baseline.file
        return FileUsers(FileUsersOptions(path=file.path, user=file.user, format=file.format, max_bytes=file.max_bytes))
    if baseline.sql:
        return SqlUsers(users_options_of(baseline.sql))
    msg = "users: all: true needs a baseline from file or sql, as http cannot list its users: give users.file or users.sql"
    raise ConfigError(msg)


def open_item_weights(options: ItemWeightsOptions) -> ItemWeightSource:
    """Open the source of item weights. ConfigError when a driver is not installed."""
    name, given = _given(options, tuple(_ITEM_WEIGHTS))
    return _ITEM_WEIGHTS[name](given)


def open_item_titles(options: ItemTitlesOptions) -> ItemTitleSource:
    """Open the source of item titles. ConfigError when a driver is not installed."""
    name, given = _given(options, tuple(_ITEM_TITLES))
    return _ITEM_TITLES[name](given)


def open_relevance(options: RelevanceOptions) -> RelevanceSource:
    """Open the source of relevance. ConfigError when a driver is not installed."""
    name, given = _given(options, tuple(_RELEVANCE))
    return _RELEVANCE[name](given)


def _given(options: Options, names: tuple[str, ...]) -> tuple[str, Options]:
    """Return the one field that is set, and its value."""
    return next((name, value) for name in names if (value := getattr(options, name)) is not None)
