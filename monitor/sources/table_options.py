"""Options that tables share: the columns with users, lists, weights, titles and grades."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from monitor.model.id_forms import speller
from monitor.model.unreadable import MAX_UNREADABLE
from monitor.options import NOT_IN_HASH, Duration, Options, readable_by

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]
_Text = Annotated[str, Field(min_length=1, max_length=1000)]
_NamedForm = Annotated[dict[Literal["prefix", "regex"], _Text], Field(min_length=1, max_length=1)]
IdForms = Annotated[
    tuple[Literal["string", "int", "lower", "strip"] | _NamedForm, ...] | None,
    readable_by(speller),
    Field(
        description="How these ids are rewritten before they are compared, step by step: `strip` "
        "removes blanks, `lower` makes lower case, `int` makes `007` into 7, `{prefix: 'item:'}` "
        "removes a prefix, and `{regex: 'sku-([0-9]+)'}` (RE2) takes the group if all of an id "
        "matches. A step that does not fit, and `string`, leave the id as it is. Users whose ids "
        "become equal are `duplicate_user`.",
    ),
]


# A time below each of these numbers is in this unit. From 1973 to 5138 the unit is unambiguous.
SECONDS = 1e11
MILLISECONDS = 1e14
MICROSECONDS = 1e17
NANOSECONDS = 1e20


class ServedOptions(Options):
    """Which rows of a log count: each user's newest list that was served in time for the slot."""

    time: ColumnName = Field(
        description="Column with the time: ISO 8601, in UTC if it names no zone, or seconds, "
        "milliseconds, microseconds or nanoseconds since 1970. The size of the number decides the "
        "unit.",
    )
    within: Duration = Field(
        description="Longest time from serving a list to the slot, such as the time between runs.",
    )
    arm: dict[ColumnName, str] = Field(
        default_factory=dict,
        description="Column and value of this arm's rows: `variant: a`. With `users: {all: true}` "
        "the users of all arms are asked.",
    )
    request: ColumnName | None = Field(
        default=None,
        description="Column with the request's id. Rows with the same id are one list, also if "
        "their times differ.",
    )


MaxUnreadable = Annotated[
    float,
    NOT_IN_HASH,
    Field(
        ge=0,
        le=1,
        description="Largest share of rows that may be unreadable: without a user or time, or with "
        "a value that is no id or number. Reading fails if there are more. Otherwise these rows "
        "are skipped, counted and reported.",
    ),
]
NoItem = Annotated[
    tuple[int | str | None, ...] | None,
    Field(
        max_length=100,
        description="Values that are no item, such as `[-1]` if short lists are filled up with -1. "
        "`null` and empty text are allowed.",
    ),
]


class UserColumnOptions(Options):
    """The column with users."""

    user: ColumnName = Field(
        description="Column with the user's key. In Parquet, JSON lines and SQL also a field of "
        "objects: `user_id.$oid`.",
    )
    user_ids: IdForms = None
    max_unreadable: MaxUnreadable = MAX_UNREADABLE


class WeightColumnOptions(Options):
    """The columns with items and their weights."""

    item: ColumnName = Field(description="Column with the item's id.")
    weight: ColumnName = Field(
        description="Column with the item's weight, such as its popularity or price: above 0.",
    )


class TitleColumnOptions(Options):
    """The columns with items and their titles."""

    item: ColumnName = Field(description="Column with the item's id.")
    title: ColumnName = Field(description="Column with the item's title for people.")


class ListColumnOptions(UserColumnOptions):
    """The columns with users and lists: a list in each row (``items``), or an item (``item``)."""

    items: ColumnName | None = Field(
        default=None,
        description="Wide form: column with the list, best first: a list, or the text of a JSON "
        "array. In Parquet, JSON lines and SQL also a field of the objects in a list: "
        "`recommendations.movieId`.",
    )
    item: ColumnName | None = Field(
        default=None,
        description="Long form: column with one item id in each row. Needs `rank`, `scores` or "
        "both, or in files `in_order: true`.",
    )
    rank: ColumnName | None = Field(
        default=None,
        description="Long form: column with the item's rank. The lowest rank is the best. The "
        "ranks of a user's items must differ.",
    )
    scores: ColumnName | None = Field(
        default=None,
        description="Column with the model's own scores: lists as long as `items`, or a number for "
        "each `item`. Equal scores are ties. Without `rank` the highest score is the best, and "
        "tied items are in the order of their ids.",
    )
    model_version: Annotated[ColumnName | None, NOT_IN_HASH] = Field(
        default=None, description="Column with the version of the model that made the list."
    )
    item_ids: IdForms = None
    no_item: NoItem = None

    def _problems(self) -> Iterator[str]:
        others = (self.user, self.items, self.item, self.rank, self.scores)
        if self.model_version is not None and self.model_version in others:
            yield "model_version must name a column of its own"
        has_order = self.rank or self.scores or getattr(self, "in_order", None)
        is_wide = self.items and not self.item and not self.rank
        is_long = self.item and not self.items and has_order
        if not is_wide and not is_long:
            yield (
                "give either items (one list a row), or item and rank (one item a row); scores "
                "may replace rank"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: first the user, then all others that are given."""
        return _distinct(
            self.user,
            self.items,
            self.item,
            self.rank,
            self.scores,
            self.model_version,
        )


class GradeColumnOptions(UserColumnOptions):
    """The columns with users and relevant items: a list in each row, or an item."""

    items: ColumnName | None = Field(
        default=None,
        description="Wide form: column with all relevant items of the user: a list, or the text of "
        "a JSON array.",
    )
    grades: ColumnName | None = Field(
        default=None,
        description="Wide form: column with the items' grades, lists as long as `items`. Grades "
        "are at least 0. Without it each grade is 1.",
    )
    item: ColumnName | None = Field(
        default=None, description="Long form: column with one relevant item in each row."
    )
    grade: ColumnName | None = Field(
        default=None,
        description="Long form: column with the item's grade, at least 0. Without it grades are 1.",
    )

    def _problems(self) -> Iterator[str]:
        is_wide = self.items and not self.item and not self.grade
        is_long = self.item and not self.items and not self.grades
        if not is_wide and not is_long:
            yield (
                "give either items and grades (lists, one row a user), or item and grade (one "
                "item a row)"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: user, items, grades."""
        return _distinct(self.user, self.items, self.grades, self.item, self.grade)


def _distinct(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))
