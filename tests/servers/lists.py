"""The same lists behind every kind of source: files of each format, SQLite, PostgreSQL, Redis, a recommender over HTTP."""

import csv
import gzip
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing, contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from monitor.sources import SourceOptions, open_source
from monitor.testing.contracts import SLOT, as_lists, request
from servers.proxy import proxying
from servers.recommender import running_recommender
from servers.redis import emptied_redis, shared_redis

__all__ = ["SLOT", "as_lists", "request"]
Lists = Mapping[str, list[Any]]


def source_of(**options):
    return open_source(SourceOptions.model_validate(options))


def pull_of(*users, k=10, timeout_s=120, **options):
    """The lists of these users from a source with these options, {kind: options}."""
    return source_of(**options).pull(request(*users, k=k, timeout_s=timeout_s))


def long_rows(lists):
    """(user, item, rank) with ranks from 1, and not in their order."""
    rows = [
        (user, item, rank) for user, items in lists.items() for rank, item in enumerate(items, 1)
    ]
    return sorted(rows, key=lambda row: (row[2] * 7 % 5, row[0]))


def write_csv(rows, path, names=()):
    """Write lists as JSON texts. ``names`` are the columns if there is no row."""
    with _written(path) as file:
        table = csv.DictWriter(file, list(rows[0]) if rows else names)
        table.writeheader()
        table.writerows(map(as_text, rows))


def write_jsonl(rows, path):
    with _written(path) as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def as_text(row):
    return {
        name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()
    }


def _written(path):
    opened = gzip.open if path.suffix == ".gz" else open
    return opened(path, "wt", newline="", encoding="utf-8")


def _parquet(rows, path):
    """A column has one type. If one id is text, all ids are written as text."""
    users, lists, kind = [row["who"] for row in rows], [row["what"] for row in rows], pa.int64()
    if any(isinstance(item, str) for items in lists for item in items):
        lists, kind = [list(map(str, items)) for items in lists], pa.large_string()
    columns = {"who": pa.array(users, pa.string()), "what": pa.array(lists, pa.list_(kind))}
    pq.write_table(pa.table(columns), path, row_group_size=7)


def _file(name):
    """A file of this name. Its name says its form and its format."""
    columns = {"items": "what"} if "wide" in name else {"item": "what", "rank": "place"}

    @contextmanager
    def opened(lists, folder):
        names = ("who", *columns.values())
        rows = lists.items() if "wide" in name else long_rows(lists)
        named = [dict(zip(names, row, strict=True)) for row in rows]
        if ".csv" in name:
            write_csv(named, folder / name, names)
        else:
            (write_jsonl if ".jsonl" in name else _parquet)(named, folder / name)
        yield {"file": {"path": str(folder / name), "user": "who", **columns}}

    return opened


def fill_table(url, name, rows, columns, types=None):
    """Fill a table of the database. ``types`` are SQL types of columns whose values do not decide it."""
    cells = [[row.get(column) for column in columns] for row in rows]
    if url.startswith("sqlite"):  # pandas takes ten times as long
        names = ", ".join(f'"{column}"' for column in columns)
        marks = ", ".join("?" * len(columns))
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
            database.execute(f"DROP TABLE IF EXISTS {name}")
            database.execute(f"CREATE TABLE {name} ({names})")
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", cells)
        return
    engine = sa.create_engine(url)
    table = pd.DataFrame(cells, columns=columns, dtype=object)
    table.to_sql(name, engine, if_exists="replace", index=False, dtype=types)
    engine.dispose()


def fill_database(url, lists):
    """Fill the tables ``wide``, whose lists are JSON, and ``tall``."""
    wide = [{"who": user, "what": json.dumps(items)} for user, items in lists.items()]
    tall = [
        {"who": user, "what": str(item), "place": rank} for user, item, rank in long_rows(lists)
    ]
    fill_table(url, "wide", wide, ["who", "what"])
    fill_table(url, "tall", tall, ["who", "what", "place"])


def sql_sources(url):
    """The options of each way to read the tables of ``fill_database``."""
    query = (
        "SELECT who, what, place FROM tall WHERE who IN (:users) AND place <= 2 * :k AND "
        ":slot IS NOT NULL"
    )
    long = {"url": url, "user": "who", "item": "what", "rank": "place"}
    return {
        "sql table wide": {"url": url, "user": "who", "items": "what", "table": "wide"},
        "sql table long": long | {"table": "tall"},
        "sql query long": long | {"query": query, "batch": 3},
    }


def _sqlite(kind):
    @contextmanager
    def opened(lists, folder):
        url = f"sqlite:///{folder / 'lists.db'}"
        fill_database(url, lists)
        yield {"sql": sql_sources(url)[kind]}

    return opened


@contextmanager
def http(lists, _):
    with running_recommender() as recommender:
        recommender.otherwise = "missing"
        recommender.lists.update(lists)
        recommender.behaviour.update(dict.fromkeys(lists, "ok"))
        yield {"http": {"url": recommender.url}}


def _redis(**keys):
    """One key for each user, or one field of a hash for each user."""

    @contextmanager
    def opened(lists, _):
        with closing(emptied_redis()) as client, proxying(shared_redis()) as proxy:
            for user, items in lists.items():
                if keys["type"] == "list":
                    client.rpush(f"recs:{user}", *map(str, items))
                elif keys["type"] == "hash":
                    client.hset("recs", user, json.dumps(items))
                else:
                    client.set(f"recs:{user}", json.dumps(items))
            yield {"redis": {"url": f"redis://127.0.0.1:{proxy.port}", **keys}}

    return opened


# Each function stores lists, and yields the options of the source that reads them, {kind: options}. A name begins
# with the kind.
SOURCES = {
    "file parquet wide": _file("wide.parquet"),
    "file csv long": _file("long.csv.gz"),
    "file jsonl wide": _file("wide.jsonl.gz"),
    "sql table wide": _sqlite("sql table wide"),
    "sql table long": _sqlite("sql table long"),
    "sql query long": _sqlite("sql query long"),
    "http": http,
    "redis string": _redis(type="string", key="recs:{user}"),
    "redis hash": _redis(type="hash", key="recs", field="{user}"),
    "redis list long": _redis(type="list", key="recs:{user}"),
}

LONG = frozenset(name for name in SOURCES if name.endswith("long"))
"""Kinds with one item in each row. They store ids as text, and an empty list is like no list."""
FIRST_RING = {"file parquet wide", "sql query long", "http"}
BY_RING: list[Any] = [
    pytest.param(name, id=name, marks=[] if name in FIRST_RING else pytest.mark.integration)
    for name in SOURCES
]
"""All names. Redis is a server.

Text files, and tables with single items, are similar to the kinds of the first ring.
"""
