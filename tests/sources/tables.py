"""The same rows in every kind of table: a file of each format, a database, Redis."""

import json
from contextlib import closing
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.lists import as_text, fill_table, source_of, write_csv, write_jsonl
from servers.redis import emptied_redis, shared_redis


def parquet(rows, folder, **columns):
    # Several row groups, but not hundreds: each costs as much as a thousand rows.
    size = max(2, len(rows) // 10)
    pq.write_table(pa.Table.from_pylist(rows), folder / "table.parquet", row_group_size=size)
    return {"file": {"path": f"{folder}/table.parquet", **columns}}


def in_csv(rows, folder, **columns):
    write_csv(rows, folder / "table.csv", list(columns.values()))
    return {"file": {"path": f"{folder}/table.csv", **columns}}


def jsonl(rows, folder, **columns):
    write_jsonl(rows, folder / "table.jsonl")
    return {"file": {"path": f"{folder}/table.jsonl", **columns}}


def sqlite(rows, folder, **columns):
    return database(rows, f"sqlite:///{folder / 'table.db'}", **columns)


def database(rows, url, types=None, **columns):
    """Fill a table of the database. ``types`` are SQL types of columns whose values do not decide it."""
    names = list(rows[0] if rows else columns.values())
    fill_table(url, "filled", [*map(as_text, rows)], names, types)
    return {"sql": {"url": url, "table": "filled", **columns}}


def redis(rows, _, **columns):
    """Users alone, as a set."""
    with closing(emptied_redis()) as client:
        for row in rows:
            client.sadd("filled", row[columns["user"]])
    return {"redis": {"url": f"redis://127.0.0.1:{shared_redis()}", "key": "filled"}}


@cache
def _server():
    """Serves the files of this machine to tests, as long as they run."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory="/"))
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def http(rows, folder, **columns):
    """Users alone, as an array of objects."""
    (folder / "table.json").write_text(json.dumps({"users": rows}))
    return {
        "http": {
            "url": f"{_server()}{folder}/table.json",
            "users": "users",
            "user": columns["user"],
        }
    }


# Every kind that reads more than lists; what writes a table for it and gives the options that read it.
KINDS: Any = {
    "file": parquet,
    "sql": sqlite,
    "redis": redis,
    "http": http,
}

WRITERS = {"parquet": parquet, "csv": in_csv, "jsonl": jsonl, "sqlite": sqlite}


def source_with(given, **more):
    """The source of lists with these options and more."""
    return source_of(**{kind: options | more for kind, options in given.items()})


def writers(names, **columns):
    """For each of `WRITERS`: what writes tuples of these columns, and gives the options that read them."""

    def of_tuples(write):
        return lambda rows, folder: write(
            [dict(zip(names, row, strict=True)) for row in rows], folder, **columns
        )

    return {name: of_tuples(write) for name, write in WRITERS.items()}


def case(kept, *values):
    """A test's case for tables of this format. Odd rows of most of them belong to the second ring."""
    return pytest.param(*values, marks=[] if kept == "parquet" else pytest.mark.integration)
