"""Options that tables share: which columns hold users and their lists."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from monitor.options import Options

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]


class ListColumns(Options):
    """Where users and lists stand: one list a row (``items``), or one item a row (``item`` and ``rank``)."""

    user: ColumnName = Field(description="Column with the user's key.")
    items: ColumnName | None = Field(
        default=None,
        description="Wide form: column with the whole list, best first: a list, or the text of a JSON array.",
    )
    item: ColumnName | None = Field(default=None, description="Long form: column with one item id a row; needs `rank`.")
    rank: ColumnName | None = Field(
        default=None,
        description="Long form: column with the item's rank, lowest is best; two items of a user may not share one.",
    )

    @model_validator(mode="after")
    def _wide_or_long(self) -> Self:
        if (self.items is None) == (self.item is None) or (self.item is None) != (self.rank is None):
            msg = "give either items (one list a row), or item and rank (one item a row)"
            raise ValueError(msg)
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read: user and list, or user, item and rank."""
        return tuple(name for name in (self.user, self.items, self.item, self.rank) if name is not None)
