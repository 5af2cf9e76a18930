"""The kinds of sources, and functions that open a source from its options.

Each kind is a folder that declares a `SourceKind`. Opening a source does no I/O. Reading it does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field

from monitor.boundary.options import NOT_IN_HASH, Duration, Options, must
from monitor.boundary.options.one_of import Kinds, OneOf, with_kinds
from monitor.boundary.options.problems import Problem
from monitor.boundary.plugins import Registry
from monitor.model.errors import ConfigError
from monitor.model.ports import (
    AssignmentSource,
    ItemTitleSource,
    ItemWeightSource,
    JoinedSource,
    LogSource,
    OutcomeSource,
    RelevanceSource,
    Source,
    UserSource,
)
from monitor.sources.file import FILE
from monitor.sources.http import HTTP
from monitor.sources.kinds import Reader, SourceKind, read_source_kind
from monitor.sources.redis import REDIS
from monitor.sources.spark import SPARK
from monitor.sources.sql import SQL
from monitor.sources.table_options import ColumnName

# All kinds of sources, by their key in the configuration.
SOURCES = Registry(
    "sources",
    {"http": HTTP, "file": FILE, "sql": SQL, "redis": REDIS, "spark": SPARK},
    read_source_kind,
)

_T = TypeVar("_T", bound=OneOf)
# Returns the part of a kind that reads one kind of data. None if the kind cannot read it.
_Role = Callable[[SourceKind], Reader | None]


def _readers(role: _Role, kinds: Mapping[str, SourceKind] = SOURCES) -> dict[str, Reader]:
    readers = {}
    for kind, source in kinds.items():
        reader = role(source)
        if reader is not None:
            readers[kind] = reader
    return readers


def _from_kinds(role: _Role) -> Callable[[type[_T]], type[_T]]:
    def options(kinds: Mapping[str, SourceKind]) -> Kinds:
        readers = _readers(role, kinds)
        return {kind: (reader.options, reader.about) for kind, reader in readers.items()}

    return with_kinds(SOURCES, options)


@_from_kinds(attrgetter("lists"))
class SourceOptions(OneOf):
    """The source of one arm's lists. Set exactly one of these keys."""

    @property
    def has_scores(self) -> bool:
        """Whether the lists come with the model's own scores."""
        return getattr(self.kind_options, "scores", None) is not None

    @property
    def is_live(self) -> bool:
        """Whether the answer depends on the time of the request, and not only on the slot."""
        return SOURCES[self.kind].is_live(self.kind_options)


@_from_kinds(attrgetter("item_weights"))
class ItemWeightsOptions(OneOf):
    """The source of item weights. Set exactly one of these keys."""


@_from_kinds(attrgetter("item_titles"))
class ItemTitlesOptions(OneOf):
    """The source of item titles. Set exactly one of these keys."""


@_from_kinds(attrgetter("relevance"))
class RelevanceOptions(OneOf):
    """The source of the items that users found relevant, such as purchases.

    Set exactly one source.
    """

    also: ClassVar[frozenset[str]] = frozenset({"after", "within"})

    after: Annotated[Duration | None, NOT_IN_HASH] = None
    """How long rankwatch waits after a run's slot before it reads the relevant items for the first
    time. Choose a time after which the data is complete, because rankwatch keeps the first data
    that is not empty. Without `after`, rankwatch already tries to read the items during the run."""
    within: Annotated[Duration, NOT_IN_HASH] = timedelta(days=7)
    """How long a run waits for the relevant items, counted from the run's slot."""

    def _problems(self) -> Iterator[str]:
        if self.after is not None and self.after >= self.within:
            yield (
                "after must be shorter than within, because a run must not stop waiting before "
                "it reads"
            )


class SampleOptions(Options):
    """The number of users whose lists a run requests."""

    fixed: int = Field(default=0, ge=0, le=10**8)
    """The number of users who are the same in every run. Fixed users are useful to see a trend."""
    rotating: int = Field(default=0, ge=0, le=10**8)
    """The number of users whom each run draws at random. Use random users if you make decisions
    from the results, because random users represent all users."""
    minimum: int | None = Field(default=None, ge=1, le=10**6)
    """The minimum number of users in each segment. If the sample contains fewer users of a segment
    than this number, the run adds users of this segment. The added users are the same in every run.
    The added users count only in this segment, because they would bias the figures of all other
    segments."""
    stop_when: Literal["decided"] | None = None
    """With `decided`, a run requests users' lists in random order. The run stops when the verdict
    of every rule on a metric is certain. A verdict is certain if at most 1 in 100 such verdicts
    would change if the run requested the lists of all users."""

    @property
    def stops_early(self) -> bool:
        """Whether a run stops asking when the verdicts of the rules are certain."""
        return self.stop_when is not None

    def _problems(self) -> Iterator[str]:
        if self.fixed + self.rotating == 0:
            yield "give fixed or rotating, and at least 1 user"


def _are_distinct(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


distinct_columns = must(_are_distinct, "names the same column twice: name it once")
"""Refuses a list that names a column twice."""


def _check_segments(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if "=" in name or not name.isprintable():
            raise ValueError(
                f"the name of segment column {name!r} contains = or a control character: rename "
                "the column"
            )
    return names


SegmentColumns = Annotated[
    tuple[ColumnName, ...], distinct_columns, AfterValidator(_check_segments)
]


@_from_kinds(attrgetter("users"))
class UsersOptions(OneOf):
    """The users whose lists a run requests, and their segments.

    Set exactly one source, or `all`.
    """

    also: ClassVar[frozenset[str]] = frozenset({"segments", "sample"})

    all: Literal[True] | None = None
    """With `true`, a run uses every user in the baseline's file, table or query."""
    segments: SegmentColumns = Field(default=(), max_length=20)
    """The columns whose values divide the users into segments. The columns are in the source that
    is set under `users`. With `users: {all: true}`, the columns are in the baseline's file or
    table."""
    sample: Annotated[int, Field(ge=1, le=10**8)] | SampleOptions | None = None
    """The number of users whose lists a run requests. If the value is a number, every run uses the
    same users. Without `sample`, a run requests lists for all users."""

    @property
    def sample_size(self) -> SampleOptions | None:
        """How many fixed and rotating users a run asks for. None means all users."""
        return SampleOptions(fixed=self.sample) if isinstance(self.sample, int) else self.sample

    def _problems(self) -> Iterator[str]:
        if self.sample_size is not None and self.sample_size.minimum and not self.segments:
            yield "sample.minimum needs segments: name the columns of segments"


def all_users_problem(baseline: SourceOptions) -> Problem | None:
    """Why `users: {all: true}` is not possible with this baseline. None if it is possible."""
    try:
        _all_users(baseline)
    except ConfigError as error:
        return Problem(("users", "all"), str(error))
    return None


def _all_users(baseline: SourceOptions) -> Options:
    all_users = SOURCES[baseline.kind].all_users
    if all_users is not None:
        return all_users(baseline.kind_options)
    able = " or ".join(kind for kind, source in SOURCES.items() if source.all_users is not None)
    instead = " or ".join(
        f"users.{kind}" for kind in _readers(attrgetter("users")) if SOURCES[kind].is_pulled
    )
    raise ConfigError(
        f"needs a baseline from {able}, because {baseline.kind} cannot list its users: "
        f"give {instead}"
    )


def joined_problem(
    lists: Mapping[tuple[str, ...], SourceOptions], users: UsersOptions
) -> Problem | None:
    """Why these sources cannot be joined. None if they can, or if none of them must be joined.

    Some kinds of sources can only be joined. All sources of such a comparison must be of the same
    kind and on the same server.
    """
    sources: dict[tuple[str, ...], OneOf] = dict(lists)
    if not users.all:
        sources["users",] = users
    for joined in reversed(sources.values()):
        if SOURCES[joined.kind].is_pulled:
            continue
        for key, options in sources.items():
            if _server(options) != _server(joined):
                return Problem(
                    key,
                    f"must be {joined.kind} with the same server, because {joined.kind} measures "
                    "the lists on that server",
                )
        if users.sample is not None:
            return Problem(
                ("users",),
                f"sample is not possible with {joined.kind}, which measures all users: remove it",
            )
    return None


def _server(options: OneOf) -> tuple[str, object]:
    return options.kind, getattr(options.kind_options, "remote", None)


def _open_kind(role: _Role, kind: str, options: Options) -> Any:  # noqa: ANN401 - any port
    reader = role(SOURCES[kind])
    assert reader is not None  # noqa: S101 - the options are those of a reader
    return reader.open(options)


def _open(role: _Role, options: OneOf) -> Any:  # noqa: ANN401 - the port of the role
    return _open_kind(role, options.kind, options.kind_options)


# Each of these functions raises ConfigError if a driver is not installed.
open_source: Callable[[SourceOptions], Source] = partial(_open, attrgetter("lists"))
open_assigned: Callable[[UsersOptions], AssignmentSource] = partial(_open, attrgetter("users"))
open_item_weights: Callable[[ItemWeightsOptions], ItemWeightSource] = partial(
    _open, attrgetter("item_weights")
)
open_item_titles: Callable[[ItemTitlesOptions], ItemTitleSource] = partial(
    _open, attrgetter("item_titles")
)
open_relevance: Callable[[RelevanceOptions], RelevanceSource] = partial(
    _open, attrgetter("relevance")
)
open_outcomes: Callable[[UsersOptions], OutcomeSource] = partial(_open, attrgetter("outcomes"))


def open_users(options: UsersOptions, baseline: SourceOptions) -> UserSource:
    """Open the source of users.

    Raises:
        ConfigError: All users of the baseline are asked, but the baseline cannot list its users.
    """
    kind, user_options = _users_of(options, baseline)
    opened: UserSource = _open_kind(attrgetter("users"), kind, user_options)
    return opened


def open_joined(
    baseline: SourceOptions,
    candidate: SourceOptions,
    users: UsersOptions,
    second_baseline: SourceOptions | None,
) -> JoinedSource | None:
    """Open the lists of both arms, the users and the lists of the noise floor as one source.

    The result is None if the sources are of different kinds, or if their kind cannot join them.
    """
    kind, user_options = _users_of(users, baseline)
    join = SOURCES[kind].joined
    lists = {"baseline": baseline, "candidate": candidate}
    if second_baseline is not None:
        lists["noise_floor"] = second_baseline
    if join is None or any(arm.kind != kind for arm in lists.values()):
        return None
    list_options = {name: arm.kind_options for name, arm in lists.items()}
    return join(list_options, user_options, tuple(users.segments))


def open_log(
    before: SourceOptions, current: SourceOptions, assigned: UsersOptions
) -> LogSource | None:
    """Open the log of an unpaired comparison as one source. None if its kind cannot do this."""
    read = SOURCES[current.kind].log
    if read is None:
        return None
    return read(before.kind_options, current.kind_options, assigned.kind_options)


def _users_of(options: UsersOptions, baseline: SourceOptions) -> tuple[str, Options]:
    """The kind and the options of the source of users."""
    if not options.all:
        return options.kind, options.kind_options
    return baseline.kind, _all_users(baseline)
