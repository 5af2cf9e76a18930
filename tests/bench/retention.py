"""Deleting old per-user scores on PostgreSQL: by partition, beside DELETE of a twentieth of the rows, while runs are stored.

Needs PostgreSQL's programs and, at full size, some 20 GB of disk. `make bench ARGS="retention 5000000"` takes fewer rows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from sqlalchemy import text

from monitor.model import Claim, Cutoffs, RunResult, RunStatus, Scores
from monitor.storage import SqlStore, open_store
from monitor.storage.partitions import day_of_slot, ensure_partitions

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.postgres import running_postgres

ROWS = 100_000_000
DAYS = 20
SLOT = datetime(2024, 1, 8, tzinfo=UTC)
DAY = timedelta(days=1)
_SAY = Console(highlight=False, width=140).print
BESIDE = 20_000
"""Users of each run that is stored meanwhile."""


def main(arguments: list[str]) -> None:
    """Fill, prune by partition, fill a twentieth again and delete it, and tell what runs waited."""
    rows = int(arguments[0].replace("_", "")) if arguments else ROWS
    with running_postgres() as server, server.database() as url, closing(open_store(url, create=True)) as store:
        started = time.perf_counter()
        _fill(store, rows, DAYS)
        size = sum(store.maintenance.sizes().values())
        _SAY(f"{rows:,} rows in {DAYS} partitions, {size / 1e9:.1f} GB, filled in {time.perf_counter() - started:.0f} s")
        alone = _watched(store, lambda: time.sleep(10), SLOT + 30 * DAY)
        _tell("nothing else", 10.0, alone)
        _prune(store, rows)
        _delete(store, rows // DAYS)


def _prune(store: SqlStore, rows: int) -> None:
    never = SLOT - 999 * DAY
    cutoffs = Cutoffs(scores=SLOT + (DAYS + 1) * DAY, lists=never, evidence=never, summaries=never, runs=never, daily=never)
    took: list[float] = []

    def work() -> None:
        started = time.perf_counter()
        gone = store.maintenance.prune(cutoffs, now=SLOT + (DAYS + 1) * DAY)
        took.append(time.perf_counter() - started)
        _SAY(f"about {gone.rows.get('scores', 0):,} rows gone by partition")

    waits = _watched(store, work, SLOT + 31 * DAY)
    _tell(f"prune of {rows:,} rows by partition", took[0], waits)


def _delete(store: SqlStore, rows: int) -> None:
    slot = SLOT + 40 * DAY
    run_id = _finished(store, slot)
    ensure_partitions(store.database, [day_of_slot(slot)])
    with store.database.write() as connection:
        connection.execute(text(f"INSERT INTO scores {_ROWS.format(run=run_id, users=rows, day=day_of_slot(slot))}"))
    took: list[float] = []

    def work() -> None:
        started = time.perf_counter()
        with store.database.write() as connection:
            connection.execute(text("DELETE FROM scores WHERE run_id = :id"), {"id": run_id})
        took.append(time.perf_counter() - started)

    waits = _watched(store, work, SLOT + 41 * DAY)
    _tell(f"DELETE of {rows:,} rows, a twentieth, without VACUUM", took[0], waits)


def _tell(what: str, seconds: float, waits: list[float]) -> None:
    longest, middle = max(waits), sorted(waits)[len(waits) // 2]
    stored = f"{len(waits)} runs of {BESIDE:,} users stored meanwhile"
    _SAY(f"{what}: {seconds:.2f} s; {stored}: median {middle:.2f} s, longest {longest:.2f} s")


def _finished(store: SqlStore, slot: datetime) -> int:
    claim = store.runs.claim("filled", slot, owner="bench", now=slot, until=slot + DAY, config_hash="filled", rerun=False)
    assert claim is not None
    store.runs.finish(_result(claim, slot, None), receivers=())
    return claim.run_id


def _fill(store: SqlStore, rows: int, days: int) -> None:
    """One finished run a day with so many rows of one metric, in a partition of its own."""
    for number in range(days):
        slot = SLOT + number * DAY
        run_id = _finished(store, slot)
        day, end = day_of_slot(slot), day_of_slot(slot + DAY)
        with store.database.write() as connection:
            for statement in _FILL:
                connection.execute(text(statement.format(run=run_id, day=day, end=end, users=rows // days)))


_ROWS = (
    "(run_id, day, part, user_id, v1)"
    " SELECT {run}, '{day}', 0, 'u' || lpad(CAST(n AS text), 9, '0'), random() FROM generate_series(1, {users}) AS n"
)
_FILL = (
    "SET LOCAL maintenance_work_mem = '512MB'",
    "CREATE TABLE scores_filled_{run} (LIKE scores)",
    f"INSERT INTO scores_filled_{{run}} {_ROWS}",
    "ALTER TABLE scores_filled_{run} ADD PRIMARY KEY (run_id, part, user_id, day)",
    "ALTER TABLE scores_filled_{run} ADD CHECK (day >= '{day}' AND day < '{end}')",
    "ALTER TABLE scores ATTACH PARTITION scores_filled_{run} FOR VALUES FROM ('{day}') TO ('{end}')",
)
"""The key is made after the rows: five times as fast as with the key in place."""


def _result(claim: Claim, slot: datetime, found: Scores | None) -> RunResult:
    return RunResult(
        claim=claim,
        status=RunStatus.OK,
        reason=None,
        finished_at=slot,
        config_hash="",
        k=10,
        scores=None if found is None else [found],
        stage_seconds={},
    )


def _watched(store: SqlStore, work: Callable[[], object], first: datetime) -> list[float]:
    """Seconds that each run took to be stored while the work went on, at least one."""
    waits: list[float] = []
    done = threading.Event()
    draw = np.random.default_rng(7)
    names = pd.Index([f"user-{number:08}" for number in range(BESIDE)], dtype="str")

    def store_runs() -> None:
        number = 0
        while not done.is_set() or not waits:
            slot = first + timedelta(minutes=number)
            found = Scores(users=names, by_metric={"extended_tau": draw.random(BESIDE)})
            started = time.perf_counter()
            claim = store.runs.claim("beside", slot, owner="bench", now=slot, until=slot + DAY, config_hash="", rerun=False)
            assert claim is not None
            store.runs.finish(_result(claim, slot, found), receivers=())
            waits.append(time.perf_counter() - started)
            number += 1

    thread = threading.Thread(target=store_runs)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    return waits
