"""Files with lists, users, item weights, item titles or relevance: the kind and its options."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from monitor.boundary.options import NOT_IN_HASH, Options, resolve_path
from monitor.boundary.slot_templates import check_placeholders, placeholders
from monitor.sources import table_options
from monitor.sources.kinds import Reader, SourceKind, imported_when_called

STORES = ("s3://", "gs://", "abfs://")
"""How paths in object storage begin."""

FileFormat = Literal["parquet", "csv", "tsv", "jsonl"]
_GIB = 2**30

_SOURCE = "monitor.sources.file.source"


def _resolve(path: str, info: ValidationInfo) -> str:
    if path.startswith(STORES):
        return path
    scheme = re.match(r"[a-z0-9+]+://", path)
    if scheme:
        raise ValueError(
            f"begins with {scheme[0]}, which is not supported: write {', '.join(STORES)} or a path "
            "on disk"
        )
    return resolve_path(path, info)


class FileOptions(Options):
    """The files of a slot: one file, all files that match a pattern, or all files of a folder."""

    path: Annotated[str, AfterValidator(_resolve), AfterValidator(check_placeholders)] = Field(
        min_length=1
    )
    """The path of a file, a pattern such as `lists/*.parquet`, or the path of a folder. rankwatch
    reads all files in a folder, except files whose names begin with `_` or `.`. The path can be on
    disk or in object storage (`s3://`, `gs://`, `abfs://`). Each kind of object storage requires an
    extra. Credentials for object storage come from environment variables. rankwatch replaces
    `{slot:%Y-%m-%d}` with the run's scheduled time (UTC). You can use any strftime format. A
    relative path is relative to the directory of the configuration file."""
    format: FileFormat | None = None
    """The format of the files. By default, the suffix decides: `.parquet`, `.csv`, `.tsv`
    (separated by tabs) or `.jsonl`. All formats except Parquet can be compressed (`.gz`)."""
    follow_links: Annotated[bool, NOT_IN_HASH] = False
    """Whether symbolic links may point outside the folder in `path`. By default, such a link is an
    error."""
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(default=2 * _GIB, ge=2**20, le=1024 * _GIB)
    """The maximum memory that the rows of these files may use during a run, in bytes."""


_Log = Annotated[
    table_options.ServedOptions | None,
    Field(
        description="Use this key if the files are a log of served lists. CSV and JSON lines files "
        "on disk may grow while rankwatch reads them. For this reason, rankwatch reads a copy that "
        "ends after the last complete line."
    ),
]


class FileSourceOptions(table_options.ListColumnOptions, FileOptions):
    """One arm's lists in a file."""

    in_order: Literal[True] | None = None
    """Set this key to `true` if each user's rows are already in order, with the best item first.
    You can use this key only for the long form without `rank`. If there are several files, they are
    read in the order of their paths."""
    served: _Log = None

    def _problems(self) -> Iterator[str]:
        if self.in_order and (self.rank is not None or self.items is not None):
            yield "in_order does not fit rank or items: remove in_order, or remove rank and items"


class FileUsersOptions(table_options.UserColumnOptions, FileOptions):
    """Users in a file, with one user in each row.

    A user with several rows counts once. A row without a user is unreadable.
    """

    served: _Log = None


class FileItemWeightsOptions(table_options.WeightColumnOptions, FileOptions):
    """Weights of items in a file, with one item in each row.

    If an item is in two rows, the run fails.
    """


class FileItemTitlesOptions(table_options.TitleColumnOptions, FileOptions):
    """Titles of items in a file, with one item in each row.

    If an item is in several rows, its first title is used.
    """


class FileRelevanceOptions(table_options.GradeColumnOptions, FileOptions):
    """Files with the items that users found relevant, one file for each slot.

    If the file for its slot does not exist yet, a run waits for the file.
    """


def _is_live(options: FileSourceOptions) -> bool:
    return "slot" not in placeholders(options.path) and options.served is None


def _all_users(lists: FileSourceOptions) -> FileUsersOptions:
    named = set(FileUsersOptions.model_fields)
    return FileUsersOptions(**lists.model_dump(include=named, exclude={"served": {"arm"}}))


_TABLE = f"{_SOURCE}:FileTable"
_ABOUT = "Files: Parquet, CSV or JSON lines."

FILE = SourceKind(
    lists=Reader(
        FileSourceOptions,
        f"{_SOURCE}:FileLists",
        "Files that contain lists, in Parquet, CSV or JSON lines.",
    ),
    is_live=_is_live,
    all_users=_all_users,
    joined=imported_when_called("monitor.sources.file.joined:JoinedFiles"),
    outcomes=Reader(FileUsersOptions, f"{_SOURCE}:FileOutcomes", _ABOUT),
    users=Reader(FileUsersOptions, f"{_SOURCE}:FileUsers", "Users in files."),
    item_weights=Reader(FileItemWeightsOptions, _TABLE, _ABOUT),
    item_titles=Reader(FileItemTitlesOptions, _TABLE, _ABOUT),
    relevance=Reader(
        FileRelevanceOptions, _TABLE, "Files for each slot: Parquet, CSV or JSON lines."
    ),
)
