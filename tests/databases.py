"""Databases of DuckDB that tests use one after another.

These are the tests of the first ring, and those with the marker ``slow``. Making and closing
a database takes longer than most tests. A database that was used before may read any file.
Tests that are about this have databases of their own.
"""

from collections import defaultdict
from typing import Any

import duckdb

from rings import shares_databases

make_database = duckdb.connect
# Two lock the database, and two take as long as a small file.
_LIMITS = (
    "SET enable_external_access",
    "SET lock_configuration",
    "SET allowed_paths",
    "SET max_temp_directory_size",
)
_idle = defaultdict[Any, list[Any]](list)


def connect(**given):
    """A database with this configuration, which may have been used before."""
    if "config" in given and shares_databases():
        return _UsedAgain(given["config"])
    return make_database(**given)


class _UsedAgain:
    """One use of a database: at its end it is as it was."""

    def __init__(self, config):
        self._unused = _idle[config["memory_limit"], config["preserve_insertion_order"]]
        self._database = self._unused.pop() if self._unused else make_database(config=config)
        self._cursor = self._database.cursor()
        self._functions = []

    def __getattr__(self, name):
        return getattr(self._cursor, name)

    def execute(self, query, *given):
        return self._cursor if query.startswith(_LIMITS) else self._cursor.execute(query, *given)

    def create_function(self, name, *given, **options):
        self._functions.append(name)
        return self._cursor.create_function(name, *given, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self._functions:
            self._cursor.remove_function(name)
        self._cursor.close()
        self._unused.append(self._database)


def close_all():
    """Close what is not used."""
    for databases in _idle.values():
        for each in databases:
            each.close()


duckdb.connect = connect  # type: ignore[assignment]
