"""Users a second of storing a run's per-user scores in one transaction, beside pandas.DataFrame.to_sql of the same columns."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from sqlalchemy import create_engine

from monitor.model.runs import RunResult, RunStatus, Scores
from monitor.storage import SqlStore, open_store

USERS = 1_000_000
USERS_OF_PANDAS = 100_000
METRICS = ("extended_tau", "rbo(p=0.9)")
SLOT = datetime(2024, 1, 8, tzinfo=UTC)
REPEATS = 3

Row = tuple[str, float, str, float, str]


def run() -> Iterator[Row]:
    """Store on one machine's disk; ours with all that a run stores, to_sql with the rows alone and no key."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = _per_second(USERS_OF_PANDAS, lambda number: _by_pandas(Path(folder) / f"pandas{number}.db"))
        with closing(open_store(f"sqlite:///{folder}/ours.db", create=True)) as store:
            ours = _per_second(USERS, lambda number: _store(store, number))
    what = f"{USERS:,} users x {len(METRICS)} metrics into SQLite"
    yield what, ours, f"DataFrame.to_sql, {USERS_OF_PANDAS:,} users", theirs, "users/s"


def _per_second(users: int, work: Callable[[int], float]) -> float:
    return users / statistics.median(work(number) for number in range(REPEATS))


def _scores(users: int) -> Scores:
    draw = np.random.default_rng(7)
    names = pd.Index([f"user-{number:08}" for number in range(users)], dtype="str")
    return Scores(users=names, by_metric={metric: draw.random(users) for metric in METRICS})


def _store(store: SqlStore, number: int) -> float:
    slot, found = SLOT + timedelta(hours=number), _scores(USERS)
    claim = store.runs.claim("bench", slot, owner="bench", now=slot, until=slot, config_hash="", rerun=False)
    assert claim is not None
    result = RunResult(
        claim=claim, status=RunStatus.OK, reason=None, finished_at=slot, config_hash="", k=10, scores=[found], stage_seconds={}
    )
    started = time.perf_counter()
    store.runs.finish(result, receivers=())
    return time.perf_counter() - started


def _by_pandas(file: Path) -> float:
    found = _scores(USERS_OF_PANDAS)
    engine = create_engine(f"sqlite:///{file}")
    started = time.perf_counter()
    frames = [
        pd.DataFrame({"run_id": 1, "user_id": found.users, "metric": metric, "value": values})
        for metric, values in found.by_metric.items()
    ]
    pd.concat(frames).to_sql("scores", engine, index=False)
    seconds = time.perf_counter() - started
    engine.dispose()
    return seconds
