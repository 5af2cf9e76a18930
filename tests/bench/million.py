"""One million users times ten items from two Parquet files in different user order, through `run-once` into SQLite."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

USERS = 1_000_000
K = 10
ITEMS = 100_000

CONFIG = """
database: sqlite:///million.db
comparisons:
  - name: million
    every: 1d
    k: 10
    deadline: 10m
    baseline: {file: {path: baseline.parquet, user: user_id, items: items}}
    candidate: {file: {path: candidate.parquet, user: user_id, items: items}}
    users: {all: true}
    metrics: [extended_tau, "rbo(p=0.9)"]
"""


def run() -> Iterator[tuple[str, float, str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        _write_lists(Path(folder))
        seconds, peak = _run_once(Path(folder))
    yield "1,000,000 users x 10, run-once into SQLite: wall clock", seconds, "aim", 10.0, "s"
    yield "1,000,000 users x 10, run-once into SQLite: peak memory", peak, "aim", 1500.0, "MB"


def _write_lists(folder: Path) -> None:
    """Baseline lists, and candidate lists that share about half of them, users shuffled."""
    rng = np.random.default_rng(7)
    baseline = distinct(rng, USERS)
    keep = rng.random((USERS, K)) < 0.5
    candidate = np.where(keep, baseline, distinct(rng, USERS) + ITEMS)
    users = np.char.add("user-", np.arange(USERS).astype(str))
    for name, lists, order in (
        ("baseline", baseline, np.arange(USERS)),
        ("candidate", candidate, rng.permutation(USERS)),
    ):
        values = pa.ListArray.from_arrays(np.arange(USERS + 1, dtype=np.int32) * K, lists[order].ravel())
        pq.write_table(pa.table({"user_id": pa.array(users[order]), "items": values}), folder / f"{name}.parquet")


def distinct(rng: np.random.Generator, n: int) -> np.ndarray:
    """Rows of K distinct item ids: a random start and random steps above zero."""
    steps = rng.integers(1, ITEMS // K, size=(n, K))
    return np.cumsum(steps, axis=1)[:, rng.permutation(K)]


def _run_once(folder: Path) -> tuple[float, float]:
    """Seconds of the command, start of the interpreter included, and its peak memory in MB."""
    (folder / "rankwatch.yaml").write_text(CONFIG)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "run-once", "--slot", "2024-01-08", "--json"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    if json.loads(done.stdout)["paired"] != USERS:
        msg = f"the run did not pair every user: {done.stdout}"
        raise RuntimeError(msg)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
