"""Lists, users, weights and titles of items and relevance from databases."""

from monitor.errors import ConfigError
from monitor.sources.kinds import Reader, SourceKind
from monitor.sources.sql.options import (
    SqlItemTitlesOptions,
    SqlItemWeightsOptions,
    SqlRelevanceOptions,
    SqlSourceOptions,
    SqlUsersOptions,
    bound_names,
)

_SOURCE = "monitor.sources.sql.source"
_ABOUT = "A database: a query or a whole table."


def _all_users(lists: SqlSourceOptions) -> SqlUsersOptions:
    if lists.query and bound_names(lists.query) & {"users", "k"}:
        msg = "all: true needs a table, or a query without :users and :k: give users.sql or users.file instead"
        raise ConfigError(msg)
    named = {"url", "table", "query", "user", "max_rows"}
    return SqlUsersOptions(**{name: getattr(lists, name) for name in named})


SQL = SourceKind(
    lists=Reader(SqlSourceOptions, f"{_SOURCE}:SqlSource", _ABOUT),
    has_scores=lambda options: options.scores is not None,
    all_users=_all_users,
    users=Reader(SqlUsersOptions, f"{_SOURCE}:sql_users", "Users in a database."),
    item_weights=Reader(SqlItemWeightsOptions, f"{_SOURCE}:sql_item_weights", _ABOUT),
    item_titles=Reader(SqlItemTitlesOptions, f"{_SOURCE}:sql_item_titles", _ABOUT),
    relevance=Reader(SqlRelevanceOptions, f"{_SOURCE}:sql_relevance", _ABOUT),
)
