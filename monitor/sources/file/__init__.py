"""Lists, users, weights and titles of items and relevance from files: Parquet, CSV, JSON lines."""

from monitor.sources.file.itemtitles import FileItemTitles
from monitor.sources.file.itemweights import FileItemWeights
from monitor.sources.file.options import (
    FileItemTitlesOptions,
    FileItemWeightsOptions,
    FileOptions,
    FileRelevanceOptions,
    FileUsersOptions,
)
from monitor.sources.file.relevance import FileRelevance
from monitor.sources.file.source import FileSource, FileUsers

__all__ = [
    "FileItemTitles",
    "FileItemTitlesOptions",
    "FileItemWeights",
    "FileItemWeightsOptions",
    "FileOptions",
    "FileRelevance",
    "FileRelevanceOptions",
    "FileSource",
    "FileUsers",
    "FileUsersOptions",
]
