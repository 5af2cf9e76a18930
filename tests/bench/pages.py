"""How long each page takes and how large it is, with a database of 60 days: `make bench ARGS=pages`, on SQLite and PostgreSQL.

``pages --days 3 --users 20000`` uses a small database. The goals are 150 ms and 300 kB for each page. Times are those of
requests over loopback, one after the other. CPU time includes server and client, which share a process.

The newest run of each comparison is stored as a run stores it. `wide` has 200 segments and all users. The earlier runs, one
every quarter of an hour, are copies with other means. They have only the rows that pages read for many runs. The runs of the
last day of `wide` are complete. Every run of `wide` has the scores of 200 users, and the newest runs have the scores of all
users.
"""

import gc
import hashlib
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import sqlalchemy as sql

import factories
import published
from bench import parse_options, show
from monitor.model.alerts import State
from monitor.model.instants import format_instant
from monitor.model.rankings import Arm, RankingTable
from monitor.model.rules import Direction, LearnedLimit, Learning
from monitor.model.runs import Evidence, EvidenceKind, Histogram, KeptLists, Scores
from monitor.storage.partitions import ensure_partitions, utc_day
from monitor.storage.tables import alert_tables, run_tables as tables
from servers.postgres import running_postgres
from storage.worked import claimed, store_at
from web.sites import running
from web.stored_pages import application

EVERY = timedelta(minutes=15)
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
RULES = tuple(f"Rule{number}" for number in range(20))
SEGMENTS = ("all", *(f"country=c{number}" for number in range(199)))
STATES = (State.FIRING, State.QUIET)
A_DAY = 96
SPELL = 16
"""The number of runs in which an alert begins or ends."""
WHOLE = 4
"""Earlier runs of `wide` with scores of all users."""
KEPT = 200
"""The users with scores in every run. The newest run has the scores of all users."""


def fill(store, options):
    """Store the newest runs as runs store them, and all earlier runs as copies."""
    for number, name in enumerate(names_of(options.comparisons)):
        _store_newest(
            store, name, SEGMENTS if not number else ("all",), options.users if not number else 100
        )
    ensure_partitions(
        store.database,
        [(factories.SLOT - timedelta(days=day)).date() for day in range(options.days + 1)],
    )
    for day in range(options.days):
        with store.database.write() as connection:
            _copy_runs(connection, range(max(1, day * A_DAY), (day + 1) * A_DAY), options)
    if not store.database.is_sqlite:  # PostgreSQL does this itself, and SQLite never does
        with store.database.write() as connection:
            connection.execute(sql.text("ANALYZE"))


def names_of(comparisons):
    return ["wide", *(f"shop-{number:03}" for number in range(1, comparisons))]


def _store_newest(store, name, segments, count):
    slot, draw = factories.SLOT, np.random.default_rng(7)
    claim = claimed(store, slot, comparison=name, until=slot + EVERY)
    users = pd.Index([f"u{number:07}" for number in range(count)], dtype="str")
    lists = [
        RankingTable(
            users=users,
            offsets=np.arange(0, 10 * count + 1, 10),
            items=draw.integers(0, 50_000, 10 * count),
        )
        for _ in Arm
    ]
    histogram = Histogram(low=-1.0, high=1.0, counts=tuple(range(20)))
    base = published.coverage().rows[0]
    states, transitions = [], []
    for number, segment in enumerate(segments):
        for alert in RULES:
            about = {"comparison": name, "alert": alert, "segment": segment}
            fires = number < 20 and alert in RULES[:5] and name.endswith(("wide", "0"))
            if fires:
                about |= {"dedup_key": f"{name} {alert} {segment}", "incident": f"k-{name}"}
                transitions.append(
                    factories.transition(from_state=State.QUIET, slot=slot, at=slot, **about)
                )
            state = State.FIRING if fires else State.QUIET
            states.append(factories.state(state=state, judged_slot=slot, **about))
    result = published.result(
        claim=claim,
        coverage=replace(
            published.coverage(), rows=tuple(replace(base, segment=each) for each in segments)
        ),
        summaries=tuple(
            factories.summary(
                segment=segment, metric=metric, mean=draw.random(), histogram=histogram
            )
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
            factories.expectation(alert=RULES[0], segment=each, limit=0.4, opposite=0.6, z=1.0)
            for each in segments
        ),
        states=states,
        transitions=tuple(transitions),
    )
    assert store.runs.finish(result, receivers=["pager"])


def _copy_runs(connection, numbers, options):
    """Add runs for the quarters of an hour before the newest run.

    They copy its rows in the tables that pages read for many runs.
    """
    wobble = np.random.default_rng(numbers.start).uniform(0.95, 1.05, len(numbers))
    _PAST.create(connection)
    connection.execute(
        _PAST.insert(),
        [
            {
                "n": n,
                "slot": factories.SLOT - n * EVERY,
                "wobble": float(by),
                "from_state": STATES[n // SPELL % 2],
                "to_state": STATES[n // SPELL % 2 - 1],
                "key": f"k{(n + SPELL) // (2 * SPELL)}",
            }
            for n, by in zip(numbers, wobble, strict=True)
        ],
    )
    past = _PAST.c
    is_followed = sql.or_(
        tables.scores.c.user_id < f"u{KEPT:07}",
        tables.scores.c.user_id == f"u{options.users - 1:07}",
        past.n <= WHOLE,
    )
    of_scores = {tables.scores: sql.and_(tables.scores.c.run_id == _IS_WIDE, is_followed)}
    copied = {**_COPIED, **of_scores, **(_COPIED_OF_A_DAY if numbers.start < A_DAY else {})}
    for table, is_wanted in copied.items():
        columns = [
            each
            for each in table.columns
            if connection.dialect.name != "sqlite" or each.name != "day"
        ]
        number = table.c["run_id" if "run_id" in table.c else "id"]
        new_values: Any = {
            number.name: number + past.n * _SHIFT,
            "slot": past.slot,
            "at": past.slot,
            "day": utc_day(past.slot),
            "mean": table.c.mean * past.wobble if "mean" in table.c else None,
            **dict.fromkeys(("dedup_key", "incident"), past.key),
            "from_state": past.from_state,
            "to_state": past.to_state,
        }
        # In the order of the key, as runs are stored.
        rows = sql.select(*(new_values.get(each.name, each) for each in columns)).join_from(
            _PAST, table, sql.and_(number < _SHIFT, is_wanted)
        )
        key = [each for each in table.primary_key.columns if each.name != "day"]
        connection.execute(table.insert().from_select(columns, rows.order_by(past.n, *key)))
    _PAST.drop(connection)


_SHIFT = 1_000_000
_PAST = sql.Table(
    "past",
    sql.MetaData(),
    sql.Column("n", sql.BigInteger, primary_key=True),
    sql.Column("slot", tables.runs.c.slot.type),
    sql.Column("wobble", sql.Double),
    sql.Column("from_state", alert_tables.transitions.c.to_state.type),
    sql.Column("to_state", alert_tables.transitions.c.to_state.type),
    sql.Column("key", sql.Text),
    prefixes=["TEMPORARY"],
)
_IS_WIDE = (
    sql.select(tables.runs.c.id)
    .where(tables.runs.c.comparison == "wide", tables.runs.c.id < _SHIFT)
    .scalar_subquery()
)

_COPIED = {
    tables.runs: sql.true(),
    tables.summaries: sql.true(),
    tables.coverage: sql.true(),
    tables.expectations: sql.true(),
    tables.score_places: tables.score_places.c.run_id == _IS_WIDE,
    alert_tables.transitions: sql.and_(
        alert_tables.transitions.c.comparison == "wide",
        alert_tables.transitions.c.alert == RULES[0],
        _PAST.c.n % SPELL == 0,
    ),
}
"""The rows of the newest run that every earlier run has too."""
_COPIED_OF_A_DAY = {
    table: table.c.run_id == _IS_WIDE for table in (tables.arm_scores, tables.evidence)
}
"""The rows that the runs of the last day have too."""


MOST_MS, MOST_KB = 150, 300
REQUESTS = 40
"""The number of requests for each page."""


def main(arguments):
    """Print a table for each database."""
    databases = "sqlite postgresql"
    options = parse_options(
        arguments, comparisons=400, days=60, users=1_000_000, database=databases
    )
    gc.set_threshold(50_000, 20, 20)  # as the daemon does
    for kind in options.database.split():
        with database(kind) as url, store_at(url, create=True) as store:
            fill(store, options)
            title = (
                f"{options.comparisons} comparisons, {options.days} days, {options.users:,} users"
            )
            columns = ("page", "p50 ms", "p95 ms", "CPU p50", "CPU p95", "kB", "verdict")
            show(f"{kind}: {title}", columns, measure(store, options))


@contextmanager
def database(kind):
    """A new database on disk."""
    with ExitStack() as stack:
        if kind == "sqlite":
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/rankwatch.db"
        else:
            yield stack.enter_context(
                stack.enter_context(running_postgres(in_memory=False)).database()
            )


def measure(store, options):
    """A row for each page: median and 95th percentile of its times, and its size."""
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
        "user whose lists lie last": f"{wide}/users/u{options.users - 1:07}",
        "alerts": "/alerts",
        "alert": "/alerts/k-wide",
        "daemon": "/daemon",
    }
    latest = store.history.latest(names_of(options.comparisons))
    shown = list(latest)
    learned = LearnedLimit(learning=Learning.DROP, direction=Direction.BELOW, value=-1.0)
    rules = (factories.rule(alert=RULES[0], limit=learned),)
    configured = {
        name: factories.comparison(name=name, rules=rules) for name in names_of(options.comparisons)
    }
    with running(application(store, latest=shown, comparisons=configured)) as site:
        for name, path in pages.items():
            shown[:] = _all_firing(latest) if name.endswith("all firing") else latest
            found = [_ask(site, path) for _ in range(REQUESTS + 1)][1:]
            took, cpu, sizes = np.array(found).T
            p50, p95 = np.quantile(took, (0.5, 0.95)) * 1000
            figures = (p50, p95, *np.quantile(cpu, (0.5, 0.95)) * 1000, sizes[-1] / 1000)
            verdict = (
                f"{'slow ' if p95 > MOST_MS else ''}{'heavy' if figures[-1] > MOST_KB else ''}"
            )
            yield (name, *(f"{each:.0f}" for each in figures), verdict)


def _all_firing(latest):
    """Give every comparison as many alerts as a row shows. Each alert has its own incident."""
    keys = (hashlib.sha256(str(n).encode()).hexdigest()[:32] for n in count())
    return [
        replace(
            each,
            states=tuple(
                factories.state(
                    comparison=each.comparison,
                    alert=alert,
                    state=State.FIRING,
                    dedup_key=(key := next(keys)),
                    incident=key,
                )
                for alert in RULES[:6]
            ),
        )
        for each in latest
    ]


def _ask(site, path):
    """Seconds and seconds of CPU of one request, and bytes of the answer."""
    started, spent = time.perf_counter(), time.process_time()
    status, _, body = site.get(path)
    assert status == 200, (path, status, body[:300])
    return time.perf_counter() - started, time.process_time() - spent, len(body)
