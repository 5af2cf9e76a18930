"""Lists, users, weights and titles of items and relevance from databases."""

from monitor.sources.sql.options import (
    SqlItemTitlesOptions,
    SqlItemWeightsOptions,
    SqlOptions,
    SqlRelevanceOptions,
    SqlUsersOptions,
)
from monitor.sources.sql.source import SqlSource, users_of
from monitor.sources.sql.tables import SqlItemTitles, SqlItemWeights, SqlRelevance, SqlUsers

__all__ = [
    "SqlItemTitles",
    "SqlItemTitlesOptions",
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
