"""How long each page takes and what it weighs over a database of 60 days: `make bench ARGS=pages`, on SQLite and PostgreSQL.

``pages --days 3 --users 20000`` is a small one; `page_history` says what is in the database. Asked are 150 ms and 300 kB a
page. Times are those of requests over loopback to a server of the pages, one after the other; CPU is that of server and client,
which share a process.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import quote

import numpy as np
from rich import table as rich_table
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
import factories
from monitor.model.alerts import State
from monitor.model.instants import format_instant
from monitor.model.rules import Direction, LearnedLimit, Learning
from monitor.model.runs import LatestRun
from monitor.storage import SqlStore, open_store
from servers.postgres import running_postgres
from web.sites import Site, running
from web.stored_pages import application

from .page_history import A_DAY, EVERY, RULES, fill, names_of

MOST_MS, MOST_KB = 150, 300


def main(arguments: list[str]) -> None:
    """Print a table for each database."""
    parser = argparse.ArgumentParser(prog="pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=400)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--whole", type=int, default=4, help="earlier runs of `wide` with scores of all users")
    parser.add_argument("--requests", type=int, default=40, help="of each page")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), nargs="*", default=("sqlite", "postgresql"))
    given = parser.parse_args(arguments)
    for kind in given.database:
        with database(kind) as url, closing(open_store(url, create=True)) as store:
            started = time.perf_counter()
            fill(store, given)
            title = f"{kind}: {given.comparisons} comparisons, {given.days} days, {given.users:,} users"
            Console(stderr=True).print(f"{title}, written in {time.perf_counter() - started:.0f} s")
            table = rich_table.Table(
                "page", "p50 ms", "p95 ms", "CPU p50", "CPU p95", "kB", "", title=title, title_justify="left"
            )
            for row in measure(store, given):
                table.add_row(*row)
            Console(width=100).print(table)


@contextmanager
def database(kind: str) -> Iterator[str]:
    """A fresh one on disk."""
    with ExitStack() as stack:
        if kind == "sqlite":
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/rankwatch.db"
        else:
            yield stack.enter_context(stack.enter_context(running_postgres(in_memory=False)).database())


def measure(store: SqlStore, given: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """A row a page: median and 95th percentile of its times, and its weight."""
    slot = format_instant(factories.SLOT)
    wide = "/c/wide"
    pages = {
        "overview": "/",
        "overview, all firing": "/",
        "comparison": wide,
        "comparison, a segment over 90 days": f"{wide}?segment=country%3Dc7&period=90d",
        "run": f"{wide}/runs/{slot}",
        "run a day before": f"{wide}/runs/{format_instant(factories.SLOT - (A_DAY - 1) * EVERY)}",
        "user": f"{wide}/users/u0000007?slot={quote(slot)}",
        "user whose lists lie last": f"{wide}/users/u{given.users - 1:07}",
        "alerts": "/alerts",
        "alert": "/alerts/k-wide",
        "daemon": "/daemon",
    }
    latest = store.history.latest(names_of(given.comparisons))
    shown: list[Sequence[LatestRun]] = [latest]
    learned = LearnedLimit(learning=Learning.DROP, direction=Direction.BELOW, value=-1.0)
    rules = (factories.rule(alert=RULES[0], limit=learned),)
    configured = {name: factories.comparison(name=name, rules=rules) for name in names_of(given.comparisons)}
    with running(application(store, latest=lambda: shown[0], comparisons=lambda: configured)) as site:
        for name, path in pages.items():
            shown[0] = _all_firing(latest) if name.endswith("all firing") else latest
            found = [_ask(site, path) for _ in range(given.requests + 1)][1:]
            p50, p95 = np.quantile([took for took, _, _ in found], (0.5, 0.95)) * 1000
            cpu = np.quantile([spent for _, spent, _ in found], (0.5, 0.95)) * 1000
            weight = found[-1][2] / 1000
            verdict = " ".join((["slow"] if p95 > MOST_MS else []) + (["heavy"] if weight > MOST_KB else []))
            yield name, f"{p50:.0f}", f"{p95:.0f}", f"{cpu[0]:.0f}", f"{cpu[1]:.0f}", f"{weight:.0f}", verdict


def _all_firing(latest: Sequence[LatestRun]) -> list[LatestRun]:
    """Every comparison with as many alerts as a row shows, each of an incident of its own."""
    keys = (hashlib.sha256(str(n).encode()).hexdigest()[:32] for n in count())
    return [
        replace(
            each,
            states=tuple(
                factories.state(comparison=each.run.comparison, alert=alert, state=State.FIRING, dedup_key=next(keys))
                for alert in RULES[:6]
            ),
        )
        for each in latest
    ]


def _ask(site: Site, path: str) -> tuple[float, float, int]:
    """Seconds and seconds of CPU of one request, and bytes of the answer."""
    started, spent = time.perf_counter(), time.process_time()
    status, _, body = site.get(path)
    assert status == 200, (path, status, body[:300])
    return time.perf_counter() - started, time.process_time() - spent, len(body)
