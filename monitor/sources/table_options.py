"""Options of all tables: the columns with users, lists, weights, titles and grades."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr

from monitor.boundary.options import (
    NOT_IN_HASH,
    AwareInstant,
    Duration,
    Options,
    format_duration,
    readable_by,
)
from monitor.model.errors import SourceError
from monitor.model.id_forms import make_speller
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.unreadable import MAX_UNREADABLE

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]
_Text = Annotated[str, Field(min_length=1, max_length=1000)]
_NamedForm = Annotated[dict[Literal["prefix", "regex"], _Text], Field(min_length=1, max_length=1)]
IdForms = Annotated[
    tuple[Literal["string", "int", "lower", "strip"] | _NamedForm, ...] | None,
    readable_by(make_speller),
    Field(
        description="Steps that rewrite each id before rankwatch compares ids. rankwatch applies "
        "the steps in the order of this list. `strip` removes leading and trailing whitespace. "
        "`lower` converts letters to lower case. `int` converts `007` to 7. `{prefix: 'item:'}` "
        "removes that prefix. `{regex: 'sku-([0-9]+)'}` converts `sku-42` to `42`: if the whole id "
        "matches (RE2), the group in parentheses replaces it. A step that does not apply to an id "
        "leaves the id unchanged. `string` leaves every id unchanged. Users whose ids become equal "
        "are counted as `duplicate_user`.",
    ),
]


# A time is in the first of these units whose limit is larger than the number. For times from 1973
# to 5138, this unit is right.
SECONDS = 1e11
MILLISECONDS = 1e14
MICROSECONDS = 1e17
NANOSECONDS = 1e20


@immutable
class ArmColumn:
    """The column of a log that says which arm served a row.

    ``value_of`` has the value of each arm whose rows are read. With ``has_list_per_arm``, the
    newest list of each arm is read, and not only a user's newest list.
    """

    name: str
    value_of: Mapping[Arm, str]
    has_list_per_arm: bool


class ServedOptions(Options):
    """Reads a log of served lists, and uses the newest list of each user up to the slot."""

    time: ColumnName
    """The column that contains the time. A time is either a text in ISO 8601, or the number of
    seconds since 1970. A text without a time zone is in UTC. The number can also count
    milliseconds, microseconds or nanoseconds. rankwatch recognizes the unit of time by the size of
    the number."""
    within: Duration | None = None
    """The maximum age of a list: the time from when the list was served to the slot. If you are not
    sure, set `within` to the time between two runs."""
    since: AwareInstant | None = None
    """A fixed time. rankwatch reads only rows after this time. Write a date or a time in ISO 8601.
    A value without a time zone is in UTC. A source of lists requires `within`, `since` or both."""
    until: AwareInstant | None = None
    """A fixed time to use instead of the slot. rankwatch reads only rows up to this time, so every
    run gets the same lists. In the paths of files, rankwatch replaces `{slot:...}` with this time.
    If you set `until` for only one arm, rankwatch compares today's lists with the lists of a fixed
    date."""
    arm: dict[ColumnName, str] = Field(default_factory=dict)
    """Columns and values that select the rows of this arm, such as `variant: a`. `users: {all:
    true}` ignores this selection, and uses all users in the log."""
    request: ColumnName | None = None
    """The column that contains the id of the request. All rows with the same request id form one
    list, even if their times differ."""

    def _problems(self) -> Iterator[str]:
        if self.since is not None and self.until is not None and self.since >= self.until:
            yield "since must be before until, because no row is in between: change one of them"

    _arms: ArmColumn | None = PrivateAttr(default=None)

    @property
    def arms(self) -> ArmColumn | None:
        """The arms of an unpaired comparison whose rows are read. None for all rows."""
        return self._arms

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that select rows, and say to which list a row belongs."""
        arms = None if self.arms is None else self.arms.name
        return _distinct(self.time, *self.arm, self.request, arms)

    @property
    def each_arm(self) -> tuple[Arm | None, ...]:
        """The arms that must have rows. None is any arm."""
        return (None,) if self.arms is None else (*self.arms.value_of,)

    def select(self, arms: ArmColumn | None, **period: object) -> Self:
        """Return these options for the rows of these arms, and perhaps for another period.

        If ``arms`` is None, the rows are not divided by arm.
        """
        copy = self.model_copy(update=period)
        copy._arms = arms  # noqa: SLF001 - a copy of these options
        return copy

    def describe_unserved(self, arm: Arm | None, slot: datetime, newest: str | None) -> str:
        """Say that the arm has no row in the period. Names the columns and values.

        ``newest`` is the time of the arm's newest row. None if the arm has no row at all.
        """
        values = dict(self.arm)
        if self.arms is not None and arm is not None:
            values[self.arms.name] = self.arms.value_of[arm]
        row = "row"
        if values:
            row += " with " + " and ".join(f"{name} = {value!r}" for name, value in values.items())
        if newest is None and values:
            return f"has no {row}: check the name of the column, and the spelling of the value"
        if newest is None:
            return "has no row: check that the log is written"
        period = f"up to {self.period(slot)[1]:%Y-%m-%dT%H:%M:%SZ}"
        if self.within is not None:
            period = f"in the {format_duration(self.within)} {period}"
        if self.since is not None:
            period = f"after {self.since:%Y-%m-%dT%H:%M:%SZ} and {period}"
        return (
            f"has no {row} {period} (its newest row has the time {newest}): check the column with "
            "the time and the period, and check that the log is written"
        )

    def require_unswitched(self, where: str, count: Mapping[Arm, int], switched: int) -> None:
        """Raise SourceError if all users of an arm are in the other arm too.

        ``count`` is the number of users of each arm alone, and ``switched`` that of both arms.
        """
        assert self.arms is not None  # noqa: S101 - of an unpaired comparison
        for arm, value in self.arms.value_of.items():
            if switched and not count[arm]:
                raise SourceError(
                    f"{where} has no user with only {self.arms.name} = {value!r}, because "
                    f"{switched:,} users have rows of both arms: check the columns with the user "
                    "and the arm, and check when the test began"
                )

    def period(self, slot: datetime) -> tuple[datetime | None, datetime]:
        """The time after which rows are read, or None, and the time up to which they are read."""
        end = self.until or slot
        starts = [self.since] if self.since else []
        if self.within is not None:
            starts.append(end - self.within)
        return max(starts, default=None), end


MaxUnreadable = Annotated[
    float,
    NOT_IN_HASH,
    Field(
        ge=0,
        le=1,
        description="The largest share of rows that may be unreadable. A row is unreadable if its "
        "user or its time is missing, or if it contains an invalid id or number. rankwatch skips "
        "unreadable rows and reports them. If a larger share of the rows is unreadable, the run "
        "fails.",
    ),
]
NoItem = Annotated[
    tuple[int | str | None, ...] | None,
    Field(
        max_length=100,
        description="Values that mean 'no item', such as `[-1]` if your lists are padded with -1 "
        "to a fixed length. The values can include `null` and the empty string.",
    ),
]


class UserColumnOptions(Options):
    """The column that contains the users."""

    user: ColumnName
    """The column that contains the user's key. In Parquet, JSON lines and SQL, the key can be in a
    field of an object, such as `user_id.$oid`."""
    user_ids: IdForms = None
    max_unreadable: MaxUnreadable = MAX_UNREADABLE


class WeightColumnOptions(Options):
    """The columns that contain the items and their weights."""

    item: ColumnName
    """The column that contains the item's id."""
    weight: ColumnName
    """The column that contains the item's weight, such as its popularity or price. Weights must be
    greater than 0."""


class TitleColumnOptions(Options):
    """The columns that contain the items and their titles."""

    item: ColumnName
    """The column that contains the item's id."""
    title: ColumnName
    """The column that contains the item's title."""


class ListColumnOptions(UserColumnOptions):
    """The columns with users and lists. A row contains a list (``items``) or one item (``item``)."""

    items: ColumnName | None = None
    """For the wide form: the column that contains the list, with the best item first. The list can
    also be a JSON array as text. In Parquet, JSON lines and SQL, the list can contain objects with
    the item in a field, such as `recommendations.movieId`."""
    item: ColumnName | None = None
    """For the long form: the column that contains one item id in each row. The long form also
    requires `rank`, `scores` or both. For files, you can set `in_order: true` instead."""
    rank: ColumnName | None = None
    """For the long form: the column that contains the item's rank. The lowest rank is the best. Ranks
    are whole numbers, and all items of a user must have different ranks."""
    scores: ColumnName | None = None
    """The column that contains the scores that the model gave. In the wide form, each list of
    scores is as long as the list of items. In the long form, each row has one score. Items with
    equal scores are tied. Without `rank`, the highest score is the best, and tied items are ordered
    by their ids."""
    model_version: Annotated[ColumnName | None, NOT_IN_HASH] = None
    """The column that contains the version of the model that made the list."""
    item_ids: IdForms = None
    no_item: NoItem = None

    def _problems(self) -> Iterator[str]:
        others = (self.user, self.items, self.item, self.rank, self.scores)
        if self.model_version is not None and self.model_version in others:
            yield "model_version names a column that another option names too: name another column"
        served: ServedOptions | None = getattr(self, "served", None)
        if served is not None and served.within is None and served.since is None:
            yield (
                "served needs within or since, because lists must not be of any age: give within"
            )
        has_order = self.rank or self.scores or getattr(self, "in_order", None)
        is_wide = self.items and not self.item and not self.rank
        is_long = self.item and not self.items and has_order
        if not is_wide and not is_long:
            yield (
                "give either items (one list in each row), or item and rank (one item in each "
                "row); scores may replace rank"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read. The user comes first, then all other given columns."""
        return _distinct(
            self.user,
            self.items,
            self.item,
            self.rank,
            self.scores,
            self.model_version,
        )


class GradeColumnOptions(UserColumnOptions):
    """The columns with users and relevant items. Each row contains a whole list or one item."""

    items: ColumnName | None = None
    """For the wide form: the column that contains all relevant items of the user, as a list or as a
    JSON array in text."""
    grades: ColumnName | None = None
    """For the wide form: the column that contains the grades of the items. The list of grades must
    be as long as the list of items. Grades must be at least 0. Without this column, every grade is
    1."""
    item: ColumnName | None = None
    """For the long form: the column that contains one relevant item in each row."""
    grade: ColumnName | None = None
    """For the long form: the column that contains the item's grade, which must be at least 0.
    Without this column, every grade is 1."""

    def _problems(self) -> Iterator[str]:
        is_wide = self.items and not self.item and not self.grade
        is_long = self.item and not self.items and not self.grades
        if not is_wide and not is_long:
            yield (
                "give either items and grades (lists, one row for each user), or item and grade "
                "(one item in each row)"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read. These are the columns of users, items and grades."""
        return _distinct(self.user, self.items, self.grades, self.item, self.grade)


def _distinct(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))
