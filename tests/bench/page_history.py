"""Sixty days of runs of many comparisons, written straight into the tables: what `pages` reads.

The newest run of each comparison is stored as a run stores it, that of `wide` with 200 segments and all users; those every
quarter of an hour before are copies, with other means, of what pages read of many runs, and those of the last day of `wide` are
whole. Every run of `wide` has the scores of 200 users, the newest ones those of all.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    MetaData,
    Table,
    Text,
    and_,
    or_,
    select,
    text,
    true,
)

import factories
import published
from monitor.model.alerts import Expectation, State
from monitor.model.rankings import Arm, RankingTable
from monitor.model.runs import Evidence, EvidenceKind, Histogram, KeptLists, Scores
from monitor.storage import SqlStore
from monitor.storage.partitions import ensure_partitions, utc_day
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    coverage_reasons,
    evidence,
    expectations,
    runs,
    score_places,
    scores,
    statistics,
    summaries,
)

EVERY = timedelta(minutes=15)
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
RULES = tuple(f"Rule{number}" for number in range(20))
SEGMENTS = ("all", *(f"country=c{number}" for number in range(199)))
STATES = (State.FIRING, State.QUIET)
A_DAY = 96
SPELL = 16
"""In how many runs an alert begins or ends."""
KEPT = 200
"""Users of whom every run has scores; the newest has those of all."""


def fill(store: SqlStore, given: argparse.Namespace) -> None:
    """The newest runs as runs store them, and all before as copies."""
    for number, name in enumerate(names_of(given.comparisons)):
        _store_newest(store, name, SEGMENTS if not number else ("all",), given.users if not number else 100)
    ensure_partitions(store.database, [(factories.SLOT - timedelta(days=day)).date() for day in range(given.days + 1)])
    for day in range(given.days):
        with store.database.write() as connection:
            _copy_runs(connection, range(max(1, day * A_DAY), (day + 1) * A_DAY), given)
    if not store.database.is_sqlite:  # which does so by itself; nobody does on SQLite
        with store.database.write() as connection:
            connection.execute(text("ANALYZE"))


def names_of(comparisons: int) -> list[str]:
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
            comparison=name,
            alert=alert,
            segment=segment,
            judged_slot=slot,
            state=state,
            dedup_key=f"{name} {alert} {segment}" if state is State.FIRING else None,
            incident=f"k-{name}" if state is State.FIRING else None,
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
                dedup_key=each.dedup_key,
                incident=each.incident,
            )
            for each in firing
        ),
    )
    assert store.runs.finish(result, receivers=["pager"])


def _copy_runs(connection: Connection, numbers: range, given: argparse.Namespace) -> None:
    """Runs so many quarters of an hour before the newest, with what that has in the tables that pages read of many runs."""
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
    is_followed = or_(scores.c.user_id < f"u{KEPT:07}", scores.c.user_id == f"u{given.users - 1:07}", past.n <= given.whole)
    of_scores = {scores: and_(scores.c.run_id == _IS_WIDE, is_followed)}
    copied = {**_COPIED, **of_scores, **(_COPIED_OF_A_DAY if numbers.start < A_DAY else {})}
    for table, is_wanted in copied.items():
        columns = [each for each in table.columns if connection.dialect.name != "sqlite" or each.name != "day"]
        number = table.c["run_id" if "run_id" in table.c else "id"]
        anew: dict[str, Any] = {
            number.name: number + past.n * _SHIFT,
            "scheduled_for": past.slot,
            "changed_at": past.slot,
            "day": utc_day(past.slot),
            "mean": table.c.mean * past.wobble if "mean" in table.c else None,
            **dict.fromkeys(("dedup_key", "incident"), past.key),
            "from_state": past.from_state,
            "to_state": past.to_state,
        }
        # In the order of the key, as runs come.
        rows = select(*(anew.get(each.name, each) for each in columns)).join_from(
            _PAST, table, and_(number < _SHIFT, is_wanted)
        )
        key = [each for each in table.primary_key.columns if each.name != "day"]
        connection.execute(table.insert().from_select(columns, rows.order_by(past.n, *key)))
    _PAST.drop(connection)


_SHIFT = 1_000_000
_PAST = Table(
    "past",
    MetaData(),
    Column("n", BigInteger, primary_key=True),
    Column("slot", runs.c.scheduled_for.type),
    Column("wobble", Double),
    Column("from_state", transitions.c.to_state.type),
    Column("to_state", transitions.c.to_state.type),
    Column("key", Text),
    prefixes=["TEMPORARY"],
)
_IS_WIDE = select(runs.c.id).where(runs.c.comparison == "wide", runs.c.id < _SHIFT).scalar_subquery()

_COPIED: Mapping[Table, ColumnElement[bool]] = {
    runs: true(),
    summaries: true(),
    coverage: true(),
    coverage_reasons: true(),
    expectations: true(),
    score_places: score_places.c.run_id == _IS_WIDE,
    transitions: and_(transitions.c.comparison == "wide", transitions.c.alert == RULES[0], _PAST.c.n % SPELL == 0),
}
"""Which rows of the newest runs every earlier one has too."""
_COPIED_OF_A_DAY = {table: table.c.run_id == _IS_WIDE for table in (statistics, arm_scores, evidence)}
"""And those of the last day."""
