"""The same lists behind every kind of source: files of each format, SQLite, PostgreSQL, a recommender over HTTP."""

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from monitor.model import Pull, PullRequest
from monitor.ports import Source
from monitor.sources import SourceOptions, open_source
from servers.recommender import running_recommender

SLOT = datetime(2024, 1, 8, 12, 30, tzinfo=UTC)

Lists = Mapping[str, list[Any]]
Rows = list[tuple[str, Any, int]]
Given = dict[str, dict[str, Any]]


def request(*users: str, k: int = 10, timeout_s: float = 20) -> PullRequest:
    return PullRequest(users=pd.Index(users, dtype="str"), k=k, slot=SLOT, timeout_s=timeout_s)


def as_lists(pull: Pull) -> dict[str, list[Any]]:
    """What a pull holds, as plain lists of the ids' texts."""
    table = pull.rankings
    ends = zip(table.offsets[:-1], table.offsets[1:], strict=True)
    return {user: [str(item) for item in table.items[a:b]] for user, (a, b) in zip(table.users, ends, strict=True)}


def source_of(**options: Any) -> Source:
    return open_source(SourceOptions.model_validate(options))


def long_rows(lists: Lists) -> Rows:
    """(user, item, rank) with ranks from 1, deliberately out of order."""
    rows = [(user, item, rank) for user, items in lists.items() for rank, item in enumerate(items, 1)]
    return sorted(rows, key=lambda row: (row[2] * 7 % 5, row[0]))


def items_type(lists: Lists) -> pa.DataType:
    texts = any(isinstance(item, str) for items in lists.values() for item in items)
    return pa.large_string() if texts else pa.int64()


def one_type(lists: Lists) -> dict[str, list[Any]]:
    """A column has one type: with a text among the ids all are texts."""
    spell = str if pa.types.is_large_string(items_type(lists)) else int
    return {user: [spell(item) for item in items] for user, items in lists.items()}


@contextmanager
def parquet_wide(lists: Lists, folder: Path) -> Iterator[Given]:
    items = pa.array(list(one_type(lists).values()), type=pa.list_(items_type(lists)))
    pq.write_table(pa.table({"who": pa.array(list(lists), type=pa.string()), "what": items}), folder / "wide.parquet")
    yield {"file": {"path": str(folder / "wide.parquet"), "user": "who", "items": "what"}}


@contextmanager
def parquet_long(lists: Lists, folder: Path) -> Iterator[Given]:
    users, items, ranks = zip(*long_rows(one_type(lists)), strict=True) if any(lists.values()) else ((), (), ())
    columns = {
        "who": pa.array(users, pa.string()),
        "what": pa.array(items, items_type(lists)),
        "place": pa.array(ranks, pa.int32()),
    }
    pq.write_table(pa.table(columns), folder / "long.parquet", row_group_size=7)
    yield {"file": {"path": str(folder / "long.parquet"), "user": "who", "item": "what", "rank": "place"}}


@contextmanager
def csv_wide(lists: Lists, folder: Path) -> Iterator[Given]:
    path = folder / "wide.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["who", "what"], *([user, json.dumps(items)] for user, items in lists.items())])
    yield {"file": {"path": str(path), "user": "who", "items": "what"}}


@contextmanager
def csv_long(lists: Lists, folder: Path) -> Iterator[Given]:
    path = folder / "long.csv.gz"
    with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["who", "what", "place"], *long_rows(lists)])
    yield {"file": {"path": str(path), "user": "who", "item": "what", "rank": "place"}}


@contextmanager
def jsonl_wide(lists: Lists, folder: Path) -> Iterator[Given]:
    path = folder / "wide.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"who": user, "what": items, "more": 1}) + "\n" for user, items in lists.items())
    yield {"file": {"path": str(path), "user": "who", "items": "what"}}


@contextmanager
def jsonl_long(lists: Lists, folder: Path) -> Iterator[Given]:
    path = folder / "long.jsonl"
    rows = ({"who": user, "what": item, "place": rank} for user, item, rank in long_rows(lists))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    yield {"file": {"path": str(path), "user": "who", "item": "what", "rank": "place"}}


def fill_database(url: str, lists: Lists) -> None:
    """Tables ``wide`` (JSON text) and ``long``."""
    engine = sa.create_engine(url)
    wide = [{"who": user, "what": json.dumps(items)} for user, items in lists.items()]
    long = [{"who": user, "what": str(item), "place": rank} for user, item, rank in long_rows(lists)]
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS wide"))
        connection.execute(sa.text("DROP TABLE IF EXISTS long"))
        connection.execute(sa.text("CREATE TABLE wide (who text, what text)"))
        connection.execute(sa.text("CREATE TABLE long (who text, what text, place integer)"))
        if wide:
            connection.execute(sa.text("INSERT INTO wide VALUES (:who, :what)"), wide)
        if long:
            connection.execute(sa.text("INSERT INTO long VALUES (:who, :what, :place)"), long)
    engine.dispose()


def sql_sources(url: str) -> dict[str, dict[str, Any]]:
    """Options of each way to read the tables of ``fill_database``."""
    query = "SELECT who, what, place FROM long WHERE who IN (:users) AND place <= 2 * :k AND :slot IS NOT NULL"
    return {
        "sql table wide": {"url": url, "table": "wide", "user": "who", "items": "what"},
        "sql table long": {"url": url, "table": "long", "user": "who", "item": "what", "rank": "place"},
        "sql query long": {"url": url, "query": query, "user": "who", "item": "what", "rank": "place", "batch": 3},
    }


def _sqlite(kind: str) -> Callable[[Lists, Path], AbstractContextManager[Given]]:
    @contextmanager
    def opened(lists: Lists, folder: Path) -> Iterator[Given]:
        url = f"sqlite:///{folder / 'lists.db'}"
        fill_database(url, lists)
        yield {"sql": sql_sources(url)[kind]}

    return opened


@contextmanager
def http(lists: Lists, folder: Path) -> Iterator[Given]:
    del folder
    with running_recommender() as recommender:
        recommender.otherwise = "missing"
        recommender.lists.update(lists)
        recommender.behaviour.update(dict.fromkeys(lists, "ok"))
        yield {"http": {"url": recommender.url}}


# What puts lists somewhere and gives the options that read them there, {kind: options}. Every kind has at least one; its name
# begins with the kind, and ends with "long" where an empty list cannot be told from none.
SOURCES: dict[str, Callable[[Lists, Path], AbstractContextManager[Given]]] = {
    "file parquet wide": parquet_wide,
    "file parquet long": parquet_long,
    "file csv wide": csv_wide,
    "file csv long": csv_long,
    "file jsonl wide": jsonl_wide,
    "file jsonl long": jsonl_long,
    "sql table wide": _sqlite("sql table wide"),
    "sql table long": _sqlite("sql table long"),
    "sql query long": _sqlite("sql query long"),
    "http": http,
}

LONG = frozenset(name for name in SOURCES if name.endswith("long"))
TEXTS = frozenset({"file csv long", "sql table long", "sql query long"})  # those that hold every id as text
