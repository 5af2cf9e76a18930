"""Lists, users, weights and titles of items and relevance from files: Parquet, CSV, JSON lines."""

from monitor.sources.file.options import (
    FileItemTitlesOptions,
    FileItemWeightsOptions,
    FileRelevanceOptions,
    FileSourceOptions,
    FileUsersOptions,
)
from monitor.sources.file.source import FileItemTitles, FileItemWeights, FileRelevance, FileSource, FileUsers

__all__ = [
    "FileItemTitles",
    "FileItemTitlesOptions",
    "FileItemWeights",
    "FileItemWeightsOptions",
    "FileRelevance",
    "FileRelevanceOptions",
    "FileSource",
    "FileSourceOptions",
    "FileUsers",
    "FileUsersOptions",
]
