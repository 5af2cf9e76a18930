"""What can be set about a file of lists or of users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from monitor.options import ConfigPath, Options
from monitor.sources.slot_templates import check_placeholders
from monitor.sources.table_options import ITEM, TITLE, WEIGHT, ColumnName, GradeColumns, ListColumns

FileFormat = Literal["parquet", "csv", "jsonl"]
TemplatePath = Annotated[ConfigPath, AfterValidator(check_placeholders)]

_GIB = 2**30
_PATH = (
    "Path of the file; `{slot:%Y-%m-%d}` becomes the run's scheduled time (UTC), in any strftime format. "
    "A relative path starts at the configuration file's directory."
)
_FORMAT = "Format of the file; by default told by its suffix: `.parquet`, `.csv` or `.jsonl`, the last two also with `.gz`."


class FileSourceOptions(ListColumns):
    """One arm's lists in a file."""

    path: TemplatePath = Field(description=_PATH, min_length=1)
    format: FileFormat | None = Field(default=None, description=_FORMAT)
    max_bytes: int = Field(
        default=2 * _GIB, ge=2**20, le=1024 * _GIB, description="Most memory the rows of the panel's users may take, in bytes."
    )


class FileItemWeightsOptions(Options):
    """Weights of items in a file, one item a row; an item that stands twice is an error."""

    path: TemplatePath = Field(description=_PATH, min_length=1)
    item: ColumnName = Field(description=ITEM)
    weight: ColumnName = Field(description=WEIGHT)
    format: FileFormat | None = Field(default=None, description=_FORMAT)
    max_bytes: int = Field(
        default=2 * _GIB, ge=2**20, le=1024 * _GIB, description="Most memory items and weights may take, in bytes."
    )


class FileItemTitlesOptions(Options):
    """Titles of items in a file, one item a row; of an item that stands twice the first title counts."""

    path: TemplatePath = Field(description=_PATH, min_length=1)
    item: ColumnName = Field(description=ITEM)
    title: ColumnName = Field(description=TITLE)
    format: FileFormat | None = Field(default=None, description=_FORMAT)
    max_bytes: int = Field(default=2 * _GIB, ge=2**20, le=1024 * _GIB, description="Most memory a row may take, in bytes.")


class FileRelevanceOptions(GradeColumns):
    """What users found relevant, in a file a slot; one that is not there yet is waited for."""

    path: TemplatePath = Field(description=_PATH, min_length=1)
    format: FileFormat | None = Field(default=None, description=_FORMAT)
    max_bytes: int = Field(
        default=2 * _GIB, ge=2**20, le=1024 * _GIB, description="Most memory users, items and grades may take, in bytes."
    )


class FileUsersOptions(Options):
    """Users in a file, one a row; a user listed twice counts once, a row without a user not at all."""

    path: TemplatePath = Field(description=_PATH, min_length=1)
    user: ColumnName = Field(description="Column with the user's key.")
    format: FileFormat | None = Field(default=None, description=_FORMAT)
    max_bytes: int = Field(
        default=2 * _GIB, ge=2**20, le=1024 * _GIB, description="Most memory users and segments may take, in bytes."
    )
