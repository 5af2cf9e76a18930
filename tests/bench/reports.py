"""How large a report is, and how long it takes: it must not grow with the users of a run. `make bench ARGS=reports`."""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.runs import write_lists
from monitor.service.commands.one_shot import open_one_shot
from monitor.service.commands.report import report_of
from monitor.settings.loader import load_settings

USERS = (1_000, 10_000, 100_000, 1_000_000)
RUNS, K, COUNTRIES = 3, 10, ("DE", "FR", "UK")
SLOT = datetime(2024, 1, 8, tzinfo=UTC)
CONFIG = """
database: sqlite:///rankwatch.db
listen: 127.0.0.1:0
comparisons:
  - name: feed
    every: 1d
    k: 10
    keep_lists: 100
    users: {file: {path: countries.csv, user: user_id}, segments: [country]}
    baseline: {file: {path: baseline.parquet, user: user_id, items: items}}
    candidate: {file: {path: candidate.parquet, user: user_id, items: items}}
    rules: default
"""


def main(_: list[str]) -> None:
    table = Table("users", "bytes", "seconds", title="A report over three runs")
    for users in USERS:
        with tempfile.TemporaryDirectory() as folder:
            size, seconds = measure(Path(folder), users)
        table.add_row(f"{users:,}", f"{size:,}", f"{seconds:.2f}")
    Console(width=80).print(table)


def measure(folder: Path, users: int) -> tuple[int, float]:
    write_lists(folder, users, K)
    (folder / "countries.csv").write_text(
        "user_id,country\n" + "".join(f"user-{number:08},{COUNTRIES[number % 3]}\n" for number in range(users))
    )
    config = folder / "rankwatch.yaml"
    config.write_text(CONFIG)
    with open_one_shot(config, reconciles=False) as service:
        for number in range(RUNS):
            list(service.run_once("feed", SLOT + number * timedelta(days=1)))
    settings = load_settings(config)
    started = time.perf_counter()
    text = report_of(settings, "feed", slot=None, since=None, until=None)
    return len(text.encode()), time.perf_counter() - started
