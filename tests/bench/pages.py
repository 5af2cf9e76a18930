"""How long each page takes and what it weighs over a database of 60 days: `make bench ARGS=pages`, on SQLite and PostgreSQL.

``pages --days 3 --users 20000`` is a small one. Runs are not run but written: the newest one of `wide`, with 200 segments and a
million users, as a run stores it; earlier ones, of `wide` and of nineteen others, as copies of what pages read of many runs.
Asked are 150 ms and 300 kB a page. Times are those of requests over loopback to a server of the pages, one after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from rich import table as rich_table
from rich.console import Console
from sqlalchemy import BigInteger, ColumnElement, Connection, Date, Table, and_, bindparam, cast, or_, select, text

sys.path.insert(0, str(Path(__file__).parents[1]))
import factories
import published
from monitor.model import (
    Arm,
    Evidence,
    EvidenceKind,
    Expectation,
    Histogram,
    KeptLists,
    RankingTable,
    Scores,
    State,
    format_instant,
)
from monitor.storage import SqlStore, open_store
from monitor.storage.tables import (
    coverage,
    coverage_reasons,
    expectations,
    runs,
    score_places,
    scores,
    summaries,
    transitions,
)
from servers.postgres import running_postgres
from web.sites import Site, running
from web.stored_pages import application

MOST_MS, MOST_KB = 150, 300
EVERY = timedelta(minutes=15)
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
RULES = tuple(f"Rule{number}" for number in range(20))
SEGMENTS = ("all", *(f"country=c{number}" for number in range(199)))
STATES = (State.QUIET, State.FIRING)
KEPT = 200
"""Users of whom every run has scores; the newest has those of all."""


def main(arguments: list[str]) -> None:
    """Print a table for each database."""
    parser = argparse.ArgumentParser(prog="pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=400)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=40, help="of each page")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), nargs="*", default=("sqlite", "postgresql"))
    given = parser.parse_args(arguments)
    for kind in given.database:
        with database(kind) as url, closing(open_store(url, create=True)) as store:
            started = time.perf_counter()
            fill(store, given)
            title = f"{kind}: {given.comparisons} comparisons, {given.days} days, {given.users:,} users"
            Console(stderr=True).print(f"{title}, written in {time.perf_counter() - started:.0f} s")
            table = rich_table.Table("page", "p50 ms", "p95 ms", "kB", "", title=title, title_justify="left")
            for row in measure(store, given.comparisons, given.requests):
                table.add_row(*row)
            Console(width=100).print(table)


@contextmanager
def database(kind: str) -> Iterator[str]:
    """A fresh one on disk."""
    with ExitStack() as stack:
        if kind == "sqlite":
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/rankwatch.db"
        else:
            yield stack.enter_context(stack.enter_context(running_postgres()).database())


def fill(store: SqlStore, given: argparse.Namespace) -> None:
    """The newest runs as runs store them, and all before as copies."""
    for number, name in enumerate(_names(given.comparisons)):
        _store_newest(store, name, SEGMENTS if not number else ("all",), given.users if not number else 100)
    with store.database.write() as connection:
        _copy_runs(connection, days=given.days)
        if connection.dialect.name != "sqlite":
            connection.execute(text("ANALYZE"))


def _names(comparisons: int) -> list[str]:
    return ["wide", *(f"shop-{number:03}" for number in range(1, comparisons))]


def _store_newest(store: SqlStore, name: str, segments: tuple[str, ...], count: int) -> None:
    slot, draw = factories.SLOT, np.random.default_rng(7)
    claim = store.runs.claim(name, slot, owner="bench", now=slot, until=slot + EVERY, config_hash="0" * 64, rerun=False)
    assert claim is not None
    users = pd.Index([f"u{number:07}" for number in range(count)], dtype="str")
    lists = [
        RankingTable(users=users, offsets=np.arange(0, 10 * count + 1, 10), items=draw.integers(0, 50_000, 10 * count))
        for _ in Arm
    ]
    histogram = Histogram(low=-1.0, high=1.0, counts=tuple(range(20)))
    base = published.coverage().rows[0]
    states = [
        factories.state(
            comparison=name, alert=alert, segment=segment, judged_slot=slot, state=state, dedup_key="k", incident="k"
        )
        for number, segment in enumerate(segments)
        for alert in RULES
        for state in [State.FIRING if number < 20 and alert in RULES[:5] and name.endswith(("wide", "0")) else State.QUIET]
    ]
    firing = [each for each in states if each.state is State.FIRING]
    result = published.result(
        claim=claim,
        coverage=replace(published.coverage(), rows=tuple(replace(base, segment=each) for each in segments)),
        summaries=tuple(
            factories.summary(segment=segment, metric=metric, mean=draw.random(), histogram=histogram)
            for segment in segments
            for metric in METRICS
        ),
        arm_scores=tuple(
            published.arm_score(segment=segment, arm=arm, metric=metric)
            for segment in segments
            for metric in ("catalogue_coverage", "exposure_gini", "self_churn")
            for arm in Arm
        ),
        catalogue_size=50_000,
        scores=[Scores(users=users, by_metric={metric: draw.random(count) for metric in METRICS})],
        evidence=tuple(
            Evidence(
                kind=kind,
                position=number,
                user=users[number],
                baseline=tuple(f"i{n}" for n in range(10)),
                candidate=tuple(f"i{n}" for n in range(number, 10 + number)),
                scores=dict.fromkeys(METRICS, 0.5),
            )
            for kind in EvidenceKind
            for number in range(20)
        ),
        lists=KeptLists(baseline=lists[0], candidate=lists[1], segments={"all": np.arange(count)}),
        explanation=published.explanation(metric=METRICS[0]),
        expectations=tuple(
            Expectation(alert=RULES[0], segment=each, runs=9, expected=0.5, limit=0.4, opposite=0.6, z=1.0) for each in segments
        ),
        states=states,
        transitions=tuple(
            factories.transition(
                from_state=State.QUIET,
                comparison=name,
                alert=each.alert,
                segment=each.segment,
                slot=slot,
                at=slot,
                dedup_key="k",
                incident="k",
            )
            for each in firing
        ),
    )
    assert store.runs.finish(result, receivers=["pager"])


def _copy_runs(connection: Connection, *, days: int) -> None:
    """Earlier runs of every comparison, with what the newest one has in the tables that pages read of many runs."""
    slots = [
        {
            "slot": factories.SLOT - n * EVERY,
            "shift": n * _SHIFT,
            "from": STATES[n % 2],
            "to": STATES[n % 2 - 1],
            "key": f"k{n // 2}",
        }
        for n in range(1, days * 96)
    ]
    slot, shift, is_sqlite = (
        bindparam("slot", type_=runs.c.scheduled_for.type),
        bindparam("shift", type_=BigInteger),
        connection.dialect.name == "sqlite",
    )
    state = transitions.c.to_state.type
    anew: dict[str, Any] = {
        "scheduled_for": slot,
        "changed_at": slot,
        "day": cast(slot, Date),
        "dedup_key": bindparam("key"),
        "incident": bindparam("key"),
    }
    anew |= {"from_state": bindparam("from", type_=state), "to_state": bindparam("to", type_=state)}
    for table, is_wanted in _COPIED.items():
        columns = [each for each in table.columns if not is_sqlite or each.name != "day"]
        number = table.c["run_id" if "run_id" in table.c else "id"]
        values = [each + shift if each is number else anew.get(each.name, each) for each in columns]
        copy = table.insert().from_select(columns, select(*values).where(number < _SHIFT, is_wanted))
        connection.execute(copy, slots)


_SHIFT = 1_000_000
_HAS_PAST = and_(runs.c.id < _SHIFT, or_(runs.c.comparison == "wide", runs.c.comparison < "shop-020"))
_IS_WIDE = select(runs.c.id).where(runs.c.comparison == "wide", runs.c.id < _SHIFT).scalar_subquery()


def _of_wide(table: Table) -> ColumnElement[bool]:
    """Rows of the widest run, of a tenth of its segments: pages read one segment of many runs, or all of few."""
    return and_(table.c.run_id == _IS_WIDE, or_(table.c.segment == "all", table.c.segment < "country=c11"))


_COPIED: Mapping[Table, ColumnElement[bool]] = {
    runs: _HAS_PAST,
    summaries: and_(summaries.c.metric == METRICS[0], summaries.c.run_id.in_(select(runs.c.id).where(_HAS_PAST))),
    coverage: _of_wide(coverage),
    coverage_reasons: _of_wide(coverage_reasons),
    expectations: _of_wide(expectations),
    score_places: score_places.c.run_id == _IS_WIDE,
    scores: and_(scores.c.run_id == _IS_WIDE, scores.c.user_id < f"u{KEPT:07}"),
    transitions: and_(transitions.c.comparison == "wide", transitions.c.alert == RULES[0]),
}
"""Which rows of the newest runs every earlier one has too."""


def measure(store: SqlStore, comparisons: int, requests: int) -> Iterator[tuple[str, ...]]:
    """A row a page: median and 95th percentile of its times, and its weight."""
    slot = format_instant(factories.SLOT)
    wide = "/c/wide"
    pages = {
        "overview": "/",
        "comparison": wide,
        "comparison, a segment over 90 days": f"{wide}?segment=country%3Dc7&period=90d",
        "run": f"{wide}/runs/{slot}",
        "run a day before": f"{wide}/runs/{format_instant(factories.SLOT - timedelta(days=1))}",
        "user": f"{wide}/users/u0000007?slot={quote(slot)}",
        "user whose lists lie last": f"{wide}/users/u{KEPT - 1:07}",
        "alerts": "/alerts",
        "alert": "/alerts/k",
        "daemon": "/daemon",
    }
    latest = store.history.latest(_names(comparisons))
    with running(application(store, latest=lambda: latest)) as site:
        for name, path in pages.items():
            found = [_ask(site, path) for _ in range(requests + 1)][1:]
            took = np.array([each for each, _ in found]) * 1000
            p50, p95 = np.quantile(took, (0.5, 0.95))
            weight = found[-1][1] / 1000
            verdict = " ".join((["slow"] if p95 > MOST_MS else []) + (["heavy"] if weight > MOST_KB else []))
            yield name, f"{p50:.0f}", f"{p95:.0f}", f"{weight:.0f}", verdict


def _ask(site: Site, path: str) -> tuple[float, int]:
    started = time.perf_counter()
    status, _, body = site.get(path)
    assert status == 200, (path, status, body[:300])
    return time.perf_counter() - started, len(body)
