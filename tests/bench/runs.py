"""What a run costs by users, k and database: time, CPU and peak memory of `run-once` over two Parquet files, and bytes stored.

`make bench ARGS="runs 1000000x10 1000000x100"`: each size is users x k, on SQLite and PostgreSQL unless ``--database``
names one. Each run is a process of its own, whose CPU includes the start of the interpreter and not PostgreSQL's own;
``--root`` is the checkout that it runs, so that two can be compared. The second file holds its users in another order.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from bench import parse_options, show
from servers.postgres import running_postgres

ROOT = Path(__file__).parents[2]
SIZES = [
    "10000x10",
    "100000x10",
    "1000000x10",
    "10000000x10",
    "10000x100",
    "100000x100",
    "1000000x100",
]
ITEMS = 50_000
WRITTEN_USERS = 100_000
CONFIG = """
database: {url}
comparisons:
  - name: sized
    every: 1d
    k: {k}
    deadline: 1h
    baseline: {{file: {{path: baseline.parquet, user: user_id, items: items}}}}
    candidate: {{file: {{path: candidate.parquet, user: user_id, items: items}}}}
    users: {{all: true}}
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
"""


class Cost(NamedTuple):
    """What one run cost, and by how much its database grew."""

    database: str
    users: int
    k: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    stored_mb: float
    load: float


def main(args):
    """Print one row a database and size."""
    asked = parse_options(args, SIZES, database="SQLite PostgreSQL", root=ROOT)
    sizes = [[*map(int, size.split("x"))] for size in asked.rest]
    costs = _costs(asked.database.split(), sizes, asked.root.resolve())
    show("One run: 3 metrics", Cost._fields, costs)


def _costs(databases, sizes, root):
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres()) if "PostgreSQL" in databases else None
        for users, k in sizes:
            with tempfile.TemporaryDirectory() as folder:
                write_lists(Path(folder), users, k)
                for database in databases:
                    with (
                        server.database()
                        if server and database == "PostgreSQL"
                        else nullcontext("sqlite:///sized.db") as url
                    ):
                        yield measure(Path(folder), database, url, users, k, root)


def measure(folder, database, url, users, k, root):
    """The cost of one run of these lists into an empty database."""
    (folder / "rankwatch.yaml").write_text(CONFIG.format(url=url, k=k))
    _command(folder, root, "db", "upgrade")
    empty = _size(folder, url)
    started = time.perf_counter()
    usage = _command(folder, root, "run-once", "--slot", "2024-01-08", "--json")
    wall_s = time.perf_counter() - started
    if (paired := json.loads((folder / "out.json").read_text())["paired"]) != users:
        sys.exit(f"the run paired {paired} of {users} users")
    cpu_s, peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000
    stored_mb = (_size(folder, url) - empty) / 10**6
    figures = [round(each, 2) for each in (wall_s, cpu_s, peak_mb, stored_mb, os.getloadavg()[0])]
    return Cost(database, users, k, *figures)


def _size(folder, url):
    # Of any schema, so that older checkouts can be measured.
    if url.startswith("sqlite"):
        return sum(file.stat().st_size for file in folder.glob("sized.db*"))
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return int(
            connection.execute("SELECT pg_database_size(current_database())").fetchall()[0][0]
        )


def write_lists(folder, users, k):
    """Baseline lists, candidate lists that share about seven items in ten."""
    rng = np.random.default_rng(15)
    shuffled = rng.permutation(users)
    schema = pa.schema({"user_id": pa.string(), "items": pa.list_(pa.int32())})
    with ExitStack() as files:
        names = ("baseline", "candidate")
        writers = [
            files.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema))
            for name in names
        ]
        for start in range(0, users, WRITTEN_USERS):
            end = min(start + WRITTEN_USERS, users)
            for writer, numbers in zip(
                writers, (np.arange(start, end), shuffled[start:end]), strict=True
            ):
                lists = distinct(numbers, k)
                if writer is writers[1]:
                    lists = np.where(rng.random(lists.shape) < 0.7, lists, lists + ITEMS)
                offsets = np.arange(len(numbers) + 1, dtype=np.int32) * k
                items = pa.ListArray.from_arrays(offsets, lists.ravel())
                columns = {"user_id": _names(numbers), "items": items}
                writer.write_table(pa.table(columns, schema=schema))


def distinct(numbers, k):
    """A row of k distinct item ids for each user: where it begins and its step depend on the user's number."""
    first, step = numbers * 7919 % ITEMS, 1 + numbers * 104_729 % (ITEMS // k - 1)
    return ((first[:, None] + step[:, None] * np.arange(k)) % ITEMS).astype(np.int32)


def _names(numbers):
    return pa.array(np.char.add("user-", np.char.zfill(numbers.astype(str), 8)))


def _command(folder, root, *args):
    """What a command of the checkout used."""
    with (folder / "out.json").open("w") as out:
        environment = os.environ | {"PYTHONPATH": str(root)}
        process = subprocess.Popen(
            [sys.executable, "-m", "monitor", *args], cwd=folder, stdout=out, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(args)} failed: {status}")
    return usage
