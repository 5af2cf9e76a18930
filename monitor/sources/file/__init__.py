"""Lists, users, weights and titles of items and relevance from files: the kind and its options."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from monitor.options import NOT_IN_HASH, Options, resolve_path
from monitor.slot_templates import check_placeholders, placeholders
from monitor.sources import table_options
from monitor.sources.kinds import Reader, SourceKind

STORES = ("s3://", "gs://", "abfs://")
"""How paths of object storage begin."""

FileFormat = Literal["parquet", "csv", "tsv", "jsonl"]
_GIB = 2**30

_SOURCE = "monitor.sources.file.source"


def _resolve(path: str, info: ValidationInfo) -> str:
    if path.startswith(STORES):
        return path
    if match := re.match(r"[a-z0-9+]+://", path):
        raise ValueError(
            (
                f"begins with {match[0]}, which is not known: write {', '.join(STORES)} or a path "
                "on disk"
            )
        )
    return resolve_path(path, info)


class FileOptions(Options):
    """Files of a slot: one, those that match a pattern, or all parts in a folder."""

    path: Annotated[str, AfterValidator(_resolve), AfterValidator(check_placeholders)] = Field(
        min_length=1,
        description="Path of a file, a pattern such as `lists/*.parquet`, or a folder whose parts "
        "are all read, but for names that begin with `_` or `.`; on disk, or in "
        "object storage (`s3://`, `gs://`, `abfs://`, each an extra to install; "
        "credentials come from the environment). `{slot:%Y-%m-%d}` becomes the run's "
        "scheduled time (UTC), in any strftime format. A relative path starts at the "
        "configuration file's directory.",
    )
    format: FileFormat | None = Field(
        default=None,
        description="Format of the files; by default their suffix decides: `.parquet`, `.csv`, "
        "`.tsv` (tabs between) or `.jsonl`, all but the first also with `.gz`.",
    )
    follow_links: Annotated[bool, NOT_IN_HASH] = Field(
        default=False,
        description=(
            "Whether symbolic links may lead out of the folder that `path` names. "
            "Without it such a file is refused."
        ),
    )
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(
        default=2 * _GIB,
        ge=2**20,
        le=1024 * _GIB,
        description="Most memory that what a run keeps of the files may take, in bytes.",
    )


_Log = Annotated[
    table_options.ServedOptions | None,
    Field(
        description="The files are a log of what was served. Of CSV and JSON lines on disk, which "
        "may grow meanwhile, a copy up to the last whole line is read."
    ),
]


class FileSourceOptions(table_options.ListColumnOptions, FileOptions):
    """One arm's lists in a file."""

    in_order: Literal[True] | None = Field(
        default=None,
        description=(
            "Long form in place of `rank`: each user's rows stand best first in the file "
            "or its parts."
        ),
    )
    served: _Log = None

    def _problems(self) -> Iterator[str]:
        if self.in_order and (self.rank is not None or self.items is not None):
            yield "in_order goes with item: rank, or the list in items, has an order of its own"


class FileUsersOptions(table_options.UserColumnOptions, FileOptions):
    """Users in a file, one a row.

    A user listed twice counts once, and rows without a user are counted as unreadable.
    """

    served: _Log = None


class FileItemWeightsOptions(table_options.WeightColumnOptions, FileOptions):
    """Weights of items in a file, one item a row; an item that stands twice is an error."""


class FileItemTitlesOptions(table_options.TitleColumnOptions, FileOptions):
    """Titles of items in a file, one item a row.

    Of an item that stands twice the first title counts.
    """


class FileRelevanceOptions(table_options.GradeColumnOptions, FileOptions):
    """What users found relevant, in a file a slot; one that is not there yet is waited for."""


FILE = SourceKind(
    lists=Reader(
        FileSourceOptions, f"{_SOURCE}:FileLists", "Files of lists: Parquet, CSV or JSON lines."
    ),
    is_live=lambda options: "slot" not in placeholders(options.path) and options.served is None,
    all_users=lambda options: FileUsersOptions(
        **options.model_dump(
            include=set(FileUsersOptions.model_fields), exclude={"served": {"arm"}}
        )
    ),
    joined="monitor.sources.file.joined:JoinedFiles",
    users=Reader(FileUsersOptions, f"{_SOURCE}:FileUsers", "Users in files."),
    item_weights=Reader(
        FileItemWeightsOptions, f"{_SOURCE}:FileTable", "Files: Parquet, CSV or JSON lines."
    ),
    item_titles=Reader(
        FileItemTitlesOptions, f"{_SOURCE}:FileTable", "Files: Parquet, CSV or JSON lines."
    ),
    relevance=Reader(
        FileRelevanceOptions, f"{_SOURCE}:FileTable", "Files a slot: Parquet, CSV or JSON lines."
    ),
)
