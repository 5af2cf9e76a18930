"""Where lists and users come from. A new source is one new module, one field of SourceOptions, one line of `_SOURCES`.

Opening does no I/O, so a configuration can be checked by opening what it names; reading happens in `pull` and `users`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from monitor.errors import ConfigError
from monitor.options import OneOf, Options
from monitor.ports import Source, UserSource
from monitor.sources.fields import ColumnName
from monitor.sources.file import FileOptions, FileSource, FileUsers, FileUsersOptions
from monitor.sources.http import HttpOptions, HttpSource
from monitor.sources.sql import SqlOptions, SqlSource, SqlUsers, SqlUsersOptions, users_of

__all__ = [
    "FileOptions",
    "FileUsersOptions",
    "HttpOptions",
    "SampleOptions",
    "SourceOptions",
    "SqlOptions",
    "SqlUsersOptions",
    "UsersOptions",
    "open_source",
    "open_users",
]

_SOURCES: dict[str, Callable[[Any], Source]] = {"http": HttpSource, "file": FileSource, "sql": SqlSource}
_USERS: dict[str, Callable[[Any], UserSource]] = {"file": FileUsers, "sql": SqlUsers}


class SourceOptions(OneOf):
    """One arm's source of lists: exactly one of these."""

    http: HttpOptions | None = Field(default=None, description="A recommender asked over HTTP, one request a user.")
    file: FileOptions | None = Field(default=None, description="A file of lists: Parquet, CSV or JSON lines.")
    sql: SqlOptions | None = Field(default=None, description="A database: a query or a whole table.")


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
        given = [name for name in ("file", "sql", "all") if getattr(self, name) is not None]
        if len(given) != 1:
            msg = "give exactly one of file, sql, all" + (f"; found {' and '.join(given)}" if given else "")
            raise ValueError(msg)
        return self


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
        return SqlUsers(users_of(baseline.sql))
    msg = "users: all: true needs a baseline from file or sql, as http cannot list its users: give users.file or users.sql"
    raise ConfigError(msg)


def _given(options: Options, names: tuple[str, ...]) -> tuple[str, Options]:
    """Return the one field that is set, and its value."""
    return next((name, value) for name in names if (value := getattr(options, name)) is not None)
