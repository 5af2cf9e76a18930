"""What a run costs by users, k and database: time, CPU and peak memory of `run-once` over two Parquet files, and stored bytes.

`make bench ARGS="runs 1000000x10 1000000x100"`: each size is users x k. The runs use SQLite and PostgreSQL unless
``--database`` names one of them. ``--read "files log unpaired sql-log sql-unpaired"`` also reads the lists from a log of both
arms, and from the log of an A/B test with as many users in each arm. A log in SQL is in PostgreSQL if the run uses PostgreSQL,
and in a file of SQLite otherwise. Each run is a separate process. Its CPU time includes
the start of the interpreter, but not PostgreSQL. ``--root`` is the checkout to run, so that two checkouts can be compared. The
second file has its users in another order.
"""

import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from bench import parse_options, show
from places import ROOT
from servers.postgres import running_postgres

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
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
"""
PAIRED = """
    baseline: {baseline}
    candidate: {candidate}
    users: {{all: true}}
"""
UNPAIRED = """
    unpaired:
      log: {log}
      arm: arm
      baseline: a
      candidate: b
      split: {{a: 0.5, b: 0.5}}
      before: 2024-01-01
"""
SERVED = "user: user_id, items: items, served: {time: at, within: 1d"
AT = {"before": "2023-12-31T12:00:00", "now": "2024-01-07T12:00:00"}


class Cost(NamedTuple):
    """What one run cost, and by how much its database grew."""

    read: str
    database: str
    users: int
    k: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    stored_mb: float
    load: float


def main(args):
    """Print one row for each database and size."""
    options = parse_options(args, SIZES, database="SQLite PostgreSQL", root=ROOT, read="files")
    sizes = [[*map(int, size.split("x"))] for size in options.rest]
    root = options.root.resolve()
    compile_program(root)
    costs = _costs(options.database.split(), sizes, root, options.read.split())
    show("One run: 3 metrics", Cost._fields, costs)


def compile_program(root):
    """Compile the checkout to bytecode, as pip does at an installation. Otherwise each command would compile it again."""
    compileall.compile_dir(root / "monitor", quiet=1)
    compileall.compile_dir(root / "migrations", quiet=1)


def _costs(databases, sizes, root, reads):
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres()) if "PostgreSQL" in databases else None
        for (users, k), read in product(sizes, reads):
            with tempfile.TemporaryDirectory() as folder:
                for database in databases:
                    with (
                        server.database()
                        if server and database == "PostgreSQL"
                        else nullcontext("sqlite:///sized.db") as url
                    ):
                        log_url = url.replace("sized.db", f"{folder}/log.db")
                        write = write_lists
                        if read != "files":
                            write = partial(
                                write_log,
                                is_sql=read.startswith("sql"),
                                is_unpaired=read.endswith("unpaired"),
                            )
                        sources = write(Path(folder), users, k, log_url)
                        (Path(folder) / "rankwatch.yaml").write_text(
                            CONFIG.format(url=url, k=k) + sources
                        )
                        cost = measure(
                            Path(folder), url, users * (1 + read.endswith("unpaired")), root
                        )
                        yield Cost(read, database, users, k, *cost)


def measure(folder, url, users, root):
    """The cost of one run with this number of users and an empty database."""
    _command(folder, root, "db", "upgrade")
    empty = _size(folder, url)
    started = time.perf_counter()
    usage = _command(folder, root, "run-once", "--slot", "2024-01-08", "--json")
    wall_s = time.perf_counter() - started
    if (paired := json.loads((folder / "out.json").read_text())["paired"]) != users:
        sys.exit(f"the run paired {paired} of {users} users")
    cpu_s = usage.ru_utime + usage.ru_stime
    stored_mb = (_size(folder, url) - empty) / 10**6
    figures = (wall_s, cpu_s, usage.ru_maxrss / 1000, stored_mb, os.getloadavg()[0])
    return [round(each, 2) for each in figures]


def _size(folder, url):
    # This works with any schema, so that older checkouts can be measured.
    if url.startswith("sqlite"):
        return sum(file.stat().st_size for file in folder.glob("sized.db*"))
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return int(
            connection.execute("SELECT pg_database_size(current_database())").fetchall()[0][0]
        )


def write_lists(folder, users, k, _=None):
    """Write the lists of both arms, which share about seven of ten items. Returns the sources."""
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
                ids = pa.array(np.char.add("user-", np.char.zfill(numbers.astype(str), 8)))
                columns = {"user_id": ids, "items": items}
                writer.write_table(pa.table(columns, schema=schema))

    options = "{{file: {{path: {}.parquet, user: user_id, items: items}}}}"
    return PAIRED.format(**{name: options.format(name) for name in names})


def write_log(folder, users, k, url, *, is_sql, is_unpaired):
    """Write a log of both arms. In a test, each arm has as many users, with a pre-test list and a current list."""
    write_lists(folder, users * (1 + is_unpaired), k)
    place = f'sql: {{url: "{url}", table: log' if is_sql else "file: {path: log.parquet"
    log = f"{{{place}, {SERVED}"
    arms, parts = {}, []
    for arm, name, age in (("a", "baseline", "before"), ("b", "candidate", "now")):
        arms[name] = f"{log}, arm: {{arm: {arm}}}}}}}}}"
        served = f"'{arm}'"
        if is_unpaired:
            served = "CASE WHEN user_id[-1] IN ('1', '3', '5', '7', '9') THEN 'a' ELSE 'b' END"
        time = AT[age if is_unpaired else "now"]
        items = "to_json(items)::VARCHAR AS items" if is_sql else "items"
        rows = folder / f"{name}.parquet"
        at = f"'{time}'" if is_sql else f"TIMESTAMP '{time}'"
        parts.append(f"SELECT user_id, {items}, {served} AS arm, {at} AS at FROM '{rows}'")
    with duckdb.connect() as database:
        rows = database.sql(" UNION ALL ".join(parts))
        if is_sql:
            write_table(url, rows)
        else:
            rows.write_parquet(f"{folder}/log.parquet")
    if is_unpaired:
        return UNPAIRED.format(log=log + "}}}")
    return PAIRED.format(**arms)


def write_table(url, rows):
    """Write the log into a table. SQLite stores its times as text."""
    with sa.create_engine(url).begin() as table:
        table.exec_driver_sql(
            "CREATE TABLE log (user_id TEXT, items TEXT, arm TEXT, at TIMESTAMPTZ)"
        )
        insert = sa.text("INSERT INTO log VALUES (:user_id, :items, :arm, :at)")
        for part in rows.to_arrow_reader(WRITTEN_USERS):
            table.execute(insert, part.to_pylist())


def distinct(numbers, k):
    """A row of k distinct item ids for each user. The first id and the step depend on the user's number."""
    first, step = numbers * 7919 % ITEMS, 1 + numbers * 104_729 % (ITEMS // k - 1)
    return ((first[:, None] + step[:, None] * np.arange(k)) % ITEMS).astype(np.int32)


def _command(folder, root, *args):
    """The time and memory that a command of the checkout used."""
    with (folder / "out.json").open("w") as out:
        environment = os.environ | {"PYTHONPATH": str(root)}
        process = subprocess.Popen(
            [sys.executable, "-m", "monitor", *args], cwd=folder, stdout=out, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(args)} failed: {status}")
    return usage
