"""What a run costs by users and database: CPU and memory of `run-once` over Parquet files, and what the database grows by.

CPU is that of the command, start of the interpreter included, PostgreSQL's own not. Rows that begin with ~ were not measured:
to what a thousand users cost they add ten times what the largest size cost beyond that.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from monitor.model import DataKind
from monitor.storage import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.million import distinct
from servers.postgres import running_postgres

SIZES = (1_000, 10_000, 100_000)
K = 10
SEGMENTS = 10
SHOWN = (DataKind.SCORES, DataKind.SUMMARIES, DataKind.EVIDENCE, DataKind.RUNS)
CONFIG = """
database: {url}
comparisons:
  - name: sized
    every: 1d
    deadline: 10m
    baseline: {{file: {{path: baseline.parquet, user: user_id, items: items}}}}
    candidate: {{file: {{path: candidate.parquet, user: user_id, items: items}}}}
    users: {{file: {{path: users.parquet, user: user_id}}, segments: [country]}}
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
"""


def main(_: list[str]) -> None:
    """Print one row a database and number of users."""
    columns = ("database", "users", "CPU s", "peak MB", *(f"{kind.value} kB" for kind in SHOWN))
    table = Table(*columns, title=f"One run: 3 metrics, k = {K}, {SEGMENTS} segments", title_justify="left")
    with running_postgres() as server:
        for kind in ("SQLite", "PostgreSQL"):
            least: list[float] = []
            for users in SIZES:
                with server.database() as postgres, tempfile.TemporaryDirectory() as folder:
                    found = _measured(Path(folder), "sqlite:///sized.db" if kind == "SQLite" else postgres, users)
                least = least or found
                table.add_row(kind, f"{users:,}", *(f"{each:,.1f}" for each in found))
            cpu_s = least[0] + 10 * (found[0] - least[0])
            table.add_row(kind, f"~{10 * users:,}", f"~{cpu_s:,.1f}", "", f"~{10 * found[2]:,.1f}", "", "", "")
    Console(width=120).print(table)


def _measured(folder: Path, url: str, users: int) -> list[float]:
    """CPU seconds, peak memory in MB, and what the third and fourth run added of each kind, in kB a run."""
    _write_lists(folder, users)
    (folder / "rankwatch.yaml").write_text(CONFIG.format(url=url))
    for day in (8, 9):
        _run_once(folder, day)
    at = f"sqlite:///{folder}/sized.db" if url.startswith("sqlite") else url
    with closing(open_store(at, create=False)) as store:
        before = store.maintenance.sizes()
        spent = [_run_once(folder, day) for day in (10, 11)]
        after = store.maintenance.sizes()
    grown = [max(0, after[kind] - before[kind]) / 2000 for kind in SHOWN]
    return [min(cpu for cpu, _ in spent), max(peak for _, peak in spent), *grown]


def _write_lists(folder: Path, users: int) -> None:
    """Baseline lists, candidate lists that share about half of them, and users in segments of equal size."""
    rng = np.random.default_rng(7)
    names = pa.array(np.char.add("user-", np.arange(users).astype(str)))
    baseline = distinct(rng, users)
    candidate = np.where(rng.random((users, K)) < 0.5, baseline, distinct(rng, users) + 10**6)
    for name, lists in (("baseline", baseline), ("candidate", candidate)):
        values = pa.ListArray.from_arrays(np.arange(users + 1, dtype=np.int32) * K, lists.ravel())
        pq.write_table(pa.table({"user_id": names, "items": values}), folder / f"{name}.parquet")
    countries = pa.array([f"c{number % SEGMENTS}" for number in range(users)])
    pq.write_table(pa.table({"user_id": names, "country": countries}), folder / "users.parquet")


def _run_once(folder: Path, day: int) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of the command."""
    command = [sys.executable, "-m", "monitor", "run-once", "--slot", f"2024-01-{day:02}", "--json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the run failed: {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000
