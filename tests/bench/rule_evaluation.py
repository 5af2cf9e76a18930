"""Judging one run: its past read from the database, what is expected of it, verdicts. Ours beside the same from summaries."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from factories import DAY, changed, evaluate, expect
from factories import comparison as of_bench
from monitor.model.alerts import AlertState
from monitor.model.comparison import Comparison, Keep
from monitor.model.memory import MemoryRequest
from monitor.model.rules import Direction, LearnedLimit, Learning, SimilarityRule, describe_series, is_learned
from monitor.model.runs import Histogram, RunResult, RunStatus, Summary
from monitor.model.statistics import Statistic
from monitor.pipeline.expectations import REMEMBERED
from monitor.storage import SqlStore, open_store

SEGMENTS = ("all", *(f"country=c{number:02}" for number in range(39)))
METRICS = tuple(f"metric{number}" for number in range(5))
STATISTICS = ("mean", "p05", "share_below(0)")
RUNS = 1_000
START = datetime(2023, 1, 1, tzinfo=UTC)
QUANTILES = {"p01": -0.6, "p05": -0.2, "p10": 0.0, "p25": 0.3, "p50": 0.5, "p75": 0.7, "p90": 0.8, "p95": 0.9, "p99": 0.95}
REPEATS = 3

Row = tuple[str, float, str, float, str]


def run() -> Iterator[Row]:
    """Seconds for 25 rules over 40 segments, 1,000 series, with 1,000 stored runs."""
    what = comparison()
    fresh = changed(what, rules=tuple(replace(each, min_users=each.min_users + 1) for each in what.judging.rules))
    with tempfile.TemporaryDirectory() as folder, closing(open_store(f"sqlite:///{folder}/bench.db", create=True)) as store:
        states = fill(store, what)
        for limit in (REMEMBERED, RUNS):
            theirs = _median(store, fresh, states, limit, repeats=1) if limit == REMEMBERED else 0.0
            other = "from every past summary" if theirs else "-"
            yield f"1,000 series, {limit:,} runs", _median(store, what, states, limit), other, theirs, "s"


def comparison() -> Comparison:
    """25 rules: drops of three statistics of five metrics, trends of two of them."""
    looks = [(kind, metric, name) for kind in Learning for metric in METRICS for name in STATISTICS]
    rules = [_rule(*look) for look in looks if look[::2] != (Learning.TREND, "p05")]
    assert len(rules) * len(SEGMENTS) == 1_000
    return of_bench(
        name="bench", metrics=METRICS, rules=tuple(rules), evidence_users=0, keep_scores=Keep.NONE, config_hash="bench"
    )


def _rule(learning: Learning, metric: str, statistic: str) -> SimilarityRule:
    is_share = statistic.startswith("share")
    direction, worst = (Direction.ABOVE, 1.0) if is_share else (Direction.BELOW, -1.0)
    return SimilarityRule(
        alert=f"{learning}-{metric}-{statistic}",
        metric=metric,
        statistic=Statistic.parse(statistic),
        limit=LearnedLimit(learning=learning, direction=direction, value=worst),
        segments="each",
        min_users=30,
    )


def measured(rng: np.random.Generator) -> tuple[Summary, ...]:
    """Summaries of all segments and metrics of one healthy run of 500 users a segment."""
    shocks = rng.normal(scale=0.03, size=(len(SEGMENTS), len(METRICS)))
    return tuple(
        _summary(segment, metric, float(shocks[i, j]), rng.random())
        for i, segment in enumerate(SEGMENTS)
        for j, metric in enumerate(METRICS)
    )


def _summary(segment: str, metric: str, shock: float, draw: float) -> Summary:
    return Summary(
        segment=segment,
        metric=metric,
        n=500,
        n_undefined=0,
        mean=0.5 + shock,
        standard_error=0.014,
        statistics={
            **{name: value + shock for name, value in QUANTILES.items()},
            "share_below(0)": round(40 + 20 * draw) / 500,
        },
        histogram=Histogram(low=-1.0, high=1.0, counts=(0, 500)),
    )


def fill(store: SqlStore, what: Comparison) -> tuple[AlertState, ...]:
    """Store RUNS healthy runs as a service would have; the states after them.

    Of what was expected of them only the lessons matter here, of their summaries only those of the newest runs.
    """
    rng = np.random.default_rng(5)
    states: tuple[AlertState, ...] = ()
    for number in range(RUNS):
        summaries, slot = measured(rng), START + number * DAY
        expected = expect(what, slot, summaries, (), states)
        taught = tuple(replace(each, z=z) for each, z in zip(expected, rng.normal(size=len(expected)), strict=True))
        states, _ = evaluate(what, slot=slot, summaries=summaries, states=states, expectations=taught)
        claim = store.runs.claim("bench", slot, owner="bench", now=slot, until=slot + DAY, config_hash="bench", rerun=False)
        assert claim is not None
        result = RunResult(
            claim=claim,
            status=RunStatus.OK,
            reason=None,
            finished_at=slot,
            config_hash="bench",
            k=10,
            summaries=summaries if number >= RUNS - REMEMBERED else (),
            states=states,
            expectations=taught,
        )
        store.runs.finish(result, receivers=())
    return states


def _median(store: SqlStore, what: Comparison, states: Sequence[AlertState], limit: int, repeats: int = REPEATS) -> float:
    summaries = measured(np.random.default_rng(6))
    return float(np.median([_seconds(store, what, summaries, states, limit) for _ in range(repeats)]))


def _seconds(
    store: SqlStore, what: Comparison, summaries: Sequence[Summary], states: Sequence[AlertState], limit: int
) -> float:
    slot = START + RUNS * DAY
    started = time.process_time()
    series = {rule.alert: describe_series(rule) for rule in what.judging.rules if is_learned(rule)}
    request = MemoryRequest(comparison="bench", config_hash="bench", before=slot, runs=limit, series=series)
    past = store.history.memory_of(request).past
    expected = expect(what, slot, summaries, past, states)
    evaluate(what, slot=slot, summaries=summaries, states=states, expectations=expected)
    return time.process_time() - started
