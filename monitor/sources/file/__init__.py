"""Lists and users from files: Parquet, CSV, JSON lines."""

from monitor.sources.file.options import FileOptions, FileUsersOptions
from monitor.sources.file.source import FileSource, FileUsers

__all__ = ["FileOptions", "FileSource", "FileUsers", "FileUsersOptions"]
