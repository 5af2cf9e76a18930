"""Kinds of sources, each a module or folder with its `SourceKind`, and how they are opened, which does no I/O: reading does."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field

from monitor.errors import ConfigError
from monitor.model.comparison import SampleSize
from monitor.options import NOT_IN_HASH, Duration, Kinds, OneOf, Options, must, with_kinds
from monitor.plugins import Registry
from monitor.ports import (
    ItemTitleSource,
    ItemWeightSource,
    JoinedSource,
    RelevanceSource,
    Source,
    UserSource,
)
from monitor.sources.file import FILE
from monitor.sources.http import HTTP
from monitor.sources.kinds import Reader, SourceKind, read_kind
from monitor.sources.redis import REDIS
from monitor.sources.spark import SPARK
from monitor.sources.sql import SQL
from monitor.sources.table_options import ColumnName

# Every kind of source, by the key that stands for it in the configuration.
SOURCES = Registry(
    "sources", {"http": HTTP, "file": FILE, "sql": SQL, "redis": REDIS, "spark": SPARK}, read_kind
)

_T = TypeVar("_T", bound=OneOf)


def _readers(role: str, kinds: Mapping[str, SourceKind] = SOURCES) -> dict[str, Reader]:
    return {
        kind: reader
        for kind, source in kinds.items()
        if (reader := getattr(source, role)) is not None
    }


def _from_kinds(role: str) -> Callable[[type[_T]], type[_T]]:
    def options(kinds: Mapping[str, SourceKind]) -> Kinds:
        return {
            kind: (reader.options, reader.about) for kind, reader in _readers(role, kinds).items()
        }

    return with_kinds(SOURCES, options)


@_from_kinds("lists")
class SourceOptions(OneOf):
    """One arm's source of lists: exactly one of these."""

    @property
    def has_scores(self) -> bool:
        """Whether the lists come with the model's own scores."""
        return getattr(self.given, "scores", None) is not None

    @property
    def is_live(self) -> bool:
        """Whether what it answers depends on when it is asked, and not on the slot alone."""
        return SOURCES[self.kind].is_live(self.given)


@_from_kinds("item_weights")
class ItemWeightsOptions(OneOf):
    """Where the weights of items come from: exactly one of these."""


@_from_kinds("item_titles")
class ItemTitlesOptions(OneOf):
    """Where the titles of items come from: exactly one of these."""


@_from_kinds("relevance")
class RelevanceOptions(OneOf):
    """Where it is known what users found relevant, such as what they bought: exactly one source."""

    also: ClassVar[frozenset[str]] = frozenset({"after", "within"})

    after: Annotated[Duration | None, NOT_IN_HASH] = Field(
        default=None,
        description="How long after its slot a run first asks what users found relevant. By then "
        "all of it must have arrived: the first answer that is not empty is the only "
        "one. Without it the run itself asks.",
    )
    within: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(days=7),
        description="How long after its slot a run still waits for what users found relevant.",
    )

    def _problems(self) -> Iterator[str]:
        if self.after is not None and self.after >= self.within:
            yield "after must be shorter than within: a run stops waiting before it would ask"


class SampleOptions(Options):
    """How many users a run asks for."""

    fixed: int = Field(
        default=0,
        ge=0,
        le=10**8,
        description="Users that are the same each run; they carry the trend.",
    )
    rotating: int = Field(
        default=0,
        ge=0,
        le=10**8,
        description="Users drawn fresh each run; they carry the decisions.",
    )
    minimum: int | None = Field(
        default=None,
        ge=1,
        le=10**6,
        description="So many users at least of every segment, or all it has. Those added for it, "
        "the same each run, count in that segment alone, so that no figure of all "
        "users, or of another segment, leans towards them.",
    )
    stop_when: Literal["decided"] | None = Field(
        default=None,
        description="Ask users in random order, and no more once the verdict of every rule on a "
        "metric is certain: over all of them it would be another one in at most 1 of "
        "100 runs, for each rule and segment.",
    )

    def _problems(self) -> Iterator[str]:
        if self.fixed + self.rotating == 0:
            yield "give fixed or rotating, at least 1"


_are_once = must(lambda names: len(set(names)) == len(names), "names a column twice")


def _check_segments(names: tuple[str, ...]) -> tuple[str, ...]:
    if odd := [name for name in names if "=" in name or not name.isprintable()]:
        raise ValueError(
            f"segment column {odd[0]!r}: a name may hold no = and no control character"
        )
    return names


@_from_kinds("users")
class UsersOptions(OneOf):
    """Who is asked: exactly one source, or all; with segments, and how many of them."""

    also: ClassVar[frozenset[str]] = frozenset({"segments", "sample"})

    all: Literal[True] | None = Field(
        default=None, description="Every user of the baseline's file, table or query."
    )
    segments: Annotated[tuple[ColumnName, ...], _are_once, AfterValidator(_check_segments)] = Field(
        default=(),
        max_length=20,
        description=(
            "Columns of the users' file or table (with `all`, of the baseline's) to slice by."
        ),
    )
    sample: Annotated[int, Field(ge=1, le=10**8)] | SampleOptions | None = Field(
        default=None,
        description=(
            "How many users a run asks for; a number means the same ones each run. "
            "Everybody when left out."
        ),
    )

    @property
    def sample_size(self) -> SampleSize | None:
        """How many users of each kind a run asks for, None for everybody."""
        if self.sample is None or isinstance(self.sample, int):
            return None if self.sample is None else SampleSize(fixed=self.sample)
        of = self.sample
        return SampleSize(
            fixed=of.fixed,
            rotating=of.rotating,
            minimum=of.minimum or 0,
            stops_early=bool(of.stop_when),
        )

    def _problems(self) -> Iterator[str]:
        if self.sample_size is not None and self.sample_size.minimum and not self.segments:
            yield "sample.minimum needs segments: name the columns that they are made of"


def all_users_problem(baseline: SourceOptions) -> str | None:
    """Why ``users: {all: true}`` does not go with this baseline, None where it does."""
    if SOURCES[baseline.kind].all_users is not None:
        return None
    able = " or ".join(kind for kind, source in SOURCES.items() if source.all_users is not None)
    instead = " or ".join(f"users.{kind}" for kind in _readers("users") if SOURCES[kind].is_pulled)
    return f"needs a baseline from {able}; {baseline.kind} cannot list its users: give {instead}"


def joined_problem(
    lists: Mapping[tuple[str, ...], SourceOptions], users: UsersOptions
) -> tuple[tuple[str, ...], str] | None:
    """The key path and the reason why these lists, of which some can only be joined, cannot be.

    None where they can.
    """
    joined = {each.kind: each.given for each in lists.values() if not SOURCES[each.kind].is_pulled}
    joined |= (
        {users.kind: users.given} if not users.all and not SOURCES[users.kind].is_pulled else {}
    )
    for kind, given in joined.items():
        asked: Mapping[tuple[str, ...], OneOf] = (
            lists if users.all else {**lists, ("users",): users}
        )
        for key, each in asked.items():
            if each.kind != kind or getattr(each.given, "remote", None) != getattr(
                given, "remote", None
            ):
                return (
                    key,
                    (
                        f"must be {kind} of the same server: {kind} measures where the lists are, "
                        "so all of them are there"
                    ),
                )
        if users.sample is not None:
            return (
                "users",
            ), f"sample does not go with {kind}, which measures everybody: remove it"
    return None


def _open(role: str, options: OneOf) -> Any:  # noqa: ANN401 - the port that the role has
    return getattr(SOURCES[options.kind], role).open(options.given)


# ConfigError of any of them when a driver is not installed.
open_source: Callable[[SourceOptions], Source] = partial(_open, "lists")
open_item_weights: Callable[[ItemWeightsOptions], ItemWeightSource] = partial(_open, "item_weights")
open_item_titles: Callable[[ItemTitlesOptions], ItemTitleSource] = partial(_open, "item_titles")
open_relevance: Callable[[RelevanceOptions], RelevanceSource] = partial(_open, "relevance")


def open_users(options: UsersOptions, baseline: SourceOptions) -> UserSource:
    """Open the source of users.

    ConfigError when it is every user of a baseline that cannot list them.
    """
    kind, given = _users_of(options, baseline)
    opened: UserSource = _readers("users", {kind: SOURCES[kind]})[kind].open(given)
    return opened


def open_joined(
    baseline: SourceOptions,
    candidate: SourceOptions,
    users: UsersOptions,
    again: SourceOptions | None,
) -> JoinedSource | None:
    """Open both arms' lists, the users and the second lists at once.

    None where they are not held together.
    """
    kind, given = _users_of(users, baseline)
    lists = {"baseline": baseline, "candidate": candidate} | (
        {} if again is None else {"noise_floor": again}
    )
    reads = SOURCES[kind].joined
    if reads is None or any(each.kind != kind for each in lists.values()):
        return None
    by_name = {name: each.given for name, each in lists.items()}
    opened: JoinedSource | None = pkgutil.resolve_name(reads)(by_name, given, tuple(users.segments))
    return opened


def _users_of(options: UsersOptions, baseline: SourceOptions) -> tuple[str, Options]:
    if not options.all:
        return options.kind, options.given
    source = SOURCES[baseline.kind]
    if source.all_users is None:
        raise ConfigError(f"users: all: {all_users_problem(baseline)}")
    return baseline.kind, source.all_users(baseline.given)
