"""Lists, users, weights and titles of items and relevance from files: the kind and its options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from monitor.options import NOT_IN_HASH, ConfigPath, Options
from monitor.slot_templates import check_placeholders
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.table_options import (
    GradeColumnOptions,
    ListColumnOptions,
    TitleColumnOptions,
    UserColumnOptions,
    WeightColumnOptions,
)

FileFormat = Literal["parquet", "csv", "jsonl"]
_GIB = 2**30


class FileOptions(Options):
    """One file a slot."""

    path: Annotated[ConfigPath, AfterValidator(check_placeholders)] = Field(
        min_length=1,
        description="Path of the file; `{slot:%Y-%m-%d}` becomes the run's scheduled time (UTC), in any strftime format. "
        "A relative path starts at the configuration file's directory.",
    )
    format: FileFormat | None = Field(
        default=None,
        description="Format of the file; by default its suffix decides: `.parquet`, `.csv` or `.jsonl`, the last two also "
        "with `.gz`.",
    )
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(
        default=2 * _GIB,
        ge=2**20,
        le=1024 * _GIB,
        description="Most memory that what a run keeps of the file may take, in bytes.",
    )


class FileSourceOptions(ListColumnOptions, FileOptions):
    """One arm's lists in a file."""


class FileUsersOptions(UserColumnOptions, FileOptions):
    """Users in a file, one a row; a user listed twice counts once, a row without a user not at all."""


class FileItemWeightsOptions(WeightColumnOptions, FileOptions):
    """Weights of items in a file, one item a row; an item that stands twice is an error."""


class FileItemTitlesOptions(TitleColumnOptions, FileOptions):
    """Titles of items in a file, one item a row; of an item that stands twice the first title counts."""


class FileRelevanceOptions(GradeColumnOptions, FileOptions):
    """What users found relevant, in a file a slot; one that is not there yet is waited for."""


_SOURCE = "monitor.sources.file.source"

FILE = SourceKind(
    lists=Reader(FileSourceOptions, f"{_SOURCE}:file_lists", "A file of lists: Parquet, CSV or JSON lines."),
    has_scores=lambda options: options.scores is not None,
    all_users=lambda options: FileUsersOptions(**options.model_dump(include=set(FileUsersOptions.model_fields))),
    joined="monitor.sources.file.joined:join_files",
    is_pulled=True,
    users=Reader(FileUsersOptions, f"{_SOURCE}:file_users", "Users in a file."),
    item_weights=Reader(FileItemWeightsOptions, f"{_SOURCE}:file_item_weights", "A file: Parquet, CSV or JSON lines."),
    item_titles=Reader(FileItemTitlesOptions, f"{_SOURCE}:file_item_titles", "A file: Parquet, CSV or JSON lines."),
    relevance=Reader(FileRelevanceOptions, f"{_SOURCE}:file_relevance", "A file a slot: Parquet, CSV or JSON lines."),
)
