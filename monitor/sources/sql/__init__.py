"""Lists, users, weights of items and relevance from databases."""

from monitor.sources.sql.options import SqlItemWeightsOptions, SqlOptions, SqlRelevanceOptions, SqlUsersOptions
from monitor.sources.sql.source import SqlSource, users_of
from monitor.sources.sql.tables import SqlItemWeights, SqlRelevance, SqlUsers

__all__ = [
    "SqlItemWeights",
    "SqlItemWeightsOptions",
    "SqlOptions",
    "SqlRelevance",
    "SqlRelevanceOptions",
    "SqlSource",
    "SqlUsers",
    "SqlUsersOptions",
    "users_of",
]
