"""Lists, users, weights and titles of items and relevance from databases."""

from monitor.sources.sql.options import (
    SqlItemTitlesOptions,
    SqlItemWeightsOptions,
    SqlRelevanceOptions,
    SqlSourceOptions,
    SqlUsersOptions,
)
from monitor.sources.sql.source import SqlItemTitles, SqlItemWeights, SqlRelevance, SqlSource, SqlUsers, users_options_of

__all__ = [
    "SqlItemTitles",
    "SqlItemTitlesOptions",
    "SqlItemWeights",
    "SqlItemWeightsOptions",
    "SqlRelevance",
    "SqlRelevanceOptions",
    "SqlSource",
    "SqlSourceOptions",
    "SqlUsers",
    "SqlUsersOptions",
    "users_options_of",
]
