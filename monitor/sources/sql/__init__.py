"""Lists and users from a database, by a query or a whole table."""

from monitor.sources.sql.options import SqlOptions, SqlUsersOptions
from monitor.sources.sql.source import SqlSource, SqlUsers, users_of

__all__ = ["SqlOptions", "SqlSource", "SqlUsers", "SqlUsersOptions", "users_of"]
