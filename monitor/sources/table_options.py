"""Options that tables share: which columns hold users, lists, weights, titles and grades."""

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
        description="How these ids are spelled before they are looked up and compared, step by "
        "step: `strip` blanks, `lower`, `int` (`007` is 7), `{prefix: 'item:'}` off, "
        "or `{regex: 'sku-([0-9]+)'}` (RE2), the group where all of an id matches. "
        "What a step does not fit stays as it is, as with `string`. Users who become "
        "one by it are `duplicate_user`."
    ),
]


SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS = 1e11, 1e14, 1e17, 1e20
"""A time that is a number below is in this unit: from 1973 to 5138 no number is two times."""


class ServedOptions(Options):
    """Which rows of a log count: of each user the newest list that was served in the time before the slot, and at the slot."""

    time: ColumnName = Field(
        description="Column with the time: ISO 8601, in UTC where it names no zone, or seconds, "
        "milliseconds, microseconds or nanoseconds since 1970, which the size of the "
        "number tells."
    )
    within: Duration = Field(
        description=(
            "How long before the slot a list may have been served, such as the time between runs."
        )
    )
    arm: dict[ColumnName, str] = Field(
        default_factory=dict,
        description=(
            "Column and value of this arm's rows: `variant: a`. With `users: {all: "
            "true}` those of all arms are asked."
        ),
    )
    request: ColumnName | None = Field(
        default=None,
        description=(
            "Column with the request's id, by which rows of one list are known where "
            "their times differ."
        ),
    )


MaxUnreadable = Annotated[
    float,
    NOT_IN_HASH,
    Field(
        ge=0,
        le=1,
        description="Largest share of rows that may be unreadable: without a user or time, or "
        "with a value that is no id or number. The reading fails if there are more. "
        "Fewer are left out, counted and named.",
    ),
]
NoItem = Annotated[
    tuple[int | str | None, ...] | None,
    Field(
        max_length=100,
        description="Values that are no item, such as `[-1]` where short lists are filled up with "
        "-1. They may be `null` and empty text.",
    ),
]


class UserColumnOptions(Options):
    """Where users stand."""

    user: ColumnName = Field(
        description=(
            "Column with the user's key. In Parquet and JSON lines also a field of "
            "objects: `user_id.$oid`."
        )
    )
    user_ids: IdForms = None
    max_unreadable: MaxUnreadable = MAX_UNREADABLE


class WeightColumnOptions(Options):
    """Where items and their weights stand."""

    item: ColumnName = Field(description="Column with the item's id.")
    weight: ColumnName = Field(
        description=(
            "Column with the item's weight, such as its popularity or price: finite, above 0."
        )
    )


class TitleColumnOptions(Options):
    """Where items and their titles stand."""

    item: ColumnName = Field(description="Column with the item's id.")
    title: ColumnName = Field(description="Column with the item's title, as people know it.")


class ListColumnOptions(UserColumnOptions):
    """Where users and lists stand: one list a row (``items``), or one item a row (``item`` and ``rank``)."""

    items: ColumnName | None = Field(
        default=None,
        description="Wide form: column with the whole list, best first: a list, or the text of a "
        "JSON array. In Parquet and JSON lines also a field of the objects in a list: "
        "`recommendations.movieId`.",
    )
    item: ColumnName | None = Field(
        default=None,
        description=(
            "Long form: column with one item id a row; needs `rank`, `scores` or both, "
            "or in files `in_order: true`."
        ),
    )
    rank: ColumnName | None = Field(
        default=None,
        description=(
            "Long form: column with the item's rank, lowest is best; two items of a user "
            "may not share one."
        ),
    )
    scores: ColumnName | None = Field(
        default=None,
        description="Column with the model's own scores: lists as long as `items`, or one number "
        "beside each `item`. Equal scores are ties. Without `rank` the highest is the "
        "best, tied items in the order of their ids.",
    )
    model_version: Annotated[ColumnName | None, NOT_IN_HASH] = Field(
        default=None, description="Column with the version of the model that made the list."
    )
    item_ids: IdForms = None
    no_item: NoItem = None

    def _problems(self) -> Iterator[str]:
        if self.model_version in {self.user, self.items, self.item, self.rank, self.scores} - {
            None
        }:
            yield "model_version must name a column of its own"
        is_wide = self.items is not None and self.item is None and self.rank is None
        is_long = (
            self.items is None
            and self.item is not None
            and (
                self.rank is not None or self.scores is not None or getattr(self, "in_order", None)
            )
        )
        if not is_wide and not is_long:
            yield (
                "give either items (one list a row), or item and rank (one item a row); scores "
                "may stand in for rank"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read: the user, the list in either form, and the scores and the model's version where they are given."""
        return _distinct(
            self.user, self.items, self.item, self.rank, self.scores, self.model_version
        )


class GradeColumnOptions(UserColumnOptions):
    """Where users and what they found relevant stand: lists a row (``items``), or one item a row (``item``)."""

    items: ColumnName | None = Field(
        default=None,
        description=(
            "Wide form: column with all relevant items of the user: a list, or the text "
            "of a JSON array."
        ),
    )
    grades: ColumnName | None = Field(
        default=None,
        description=(
            "Wide form: column with their grades, lists as long, at least 0; 1 for each "
            "when left out."
        ),
    )
    item: ColumnName | None = Field(
        default=None, description="Long form: column with one relevant item a row."
    )
    grade: ColumnName | None = Field(
        default=None,
        description="Long form: column with the item's grade, at least 0; 1 for each when left out.",
    )

    def _problems(self) -> Iterator[str]:
        is_wide = self.items is not None and self.item is None and self.grade is None
        is_long = self.items is None and self.item is not None and self.grades is None
        if not is_wide and not is_long:
            yield (
                "give either items and grades (lists, one row a user), or item and grade (one "
                "item a row)"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read: user, items, grades."""
        return _distinct(self.user, self.items, self.grades, self.item, self.grade)


def _distinct(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))
