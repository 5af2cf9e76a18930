"""Lists, users, weights and titles of items and relevance from files: Parquet, CSV, JSON lines."""

from monitor.sources.file.options import (
    FileItemTitlesOptions,
    FileItemWeightsOptions,
    FileRelevanceOptions,
    FileSourceOptions,
    FileUsersOptions,
)
from monitor.sources.kinds import Reader, SourceKind

_SOURCE = "monitor.sources.file.source"

FILE = SourceKind(
    lists=Reader(FileSourceOptions, f"{_SOURCE}:FileSource", "A file of lists: Parquet, CSV or JSON lines."),
    has_scores=lambda options: options.scores is not None,
    all_users=lambda options: FileUsersOptions(**options.model_dump(include=set(FileUsersOptions.model_fields))),
    users=Reader(FileUsersOptions, f"{_SOURCE}:file_users", "Users in a file."),
    item_weights=Reader(FileItemWeightsOptions, f"{_SOURCE}:file_item_weights", "A file: Parquet, CSV or JSON lines."),
    item_titles=Reader(FileItemTitlesOptions, f"{_SOURCE}:file_item_titles", "A file: Parquet, CSV or JSON lines."),
    relevance=Reader(FileRelevanceOptions, f"{_SOURCE}:file_relevance", "A file a slot: Parquet, CSV or JSON lines."),
)
