"""The first half of a run: ask, pull, pair, score, summarize. Nothing here judges or stores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd

from monitor.errors import SourceError
from monitor.metrics import Metric, parse, score_all
from monitor.model import (
    Arm,
    Comparison,
    Coverage,
    CoverageReason,
    Evidence,
    Pairing,
    Panel,
    Pull,
    PullRequest,
    RankingTable,
    Scores,
    Statistic,
    Summary,
)
from monitor.pairing import pair
from monitor.pairing.vocabulary import decode
from monitor.pipeline.deadline import OverdueError, Promise
from monitor.ports import Clock, Source, UserSource
from monitor.sampling import draw
from monitor.summaries import choose_evidence, summarize

GRACE_S = 2.0
"""How long past its timeout a source may take to come back before it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The sources of one comparison, opened."""

    baseline: Source
    candidate: Source
    users: UserSource
    dimensions: tuple[str, ...]

    def close(self) -> None:
        """Close all three."""
        for source in (self.baseline, self.candidate, self.users):
            source.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a run measured.

    ``troubles`` are sentences about arms that could not be read as a whole; ``notes`` say of a reason what happened first.
    """

    coverage: Coverage
    summaries: tuple[Summary, ...]
    scores: Scores
    evidence: tuple[Evidence, ...]
    troubles: tuple[str, ...]
    notes: Mapping[tuple[Arm, CoverageReason], str]


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent by stage."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage."""
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - start


def measure(comparison: Comparison, arms: Arms, slot: datetime, watch: Stopwatch) -> Measurement:
    """Measure one slot. SourceError when the users cannot be read; what else goes wrong is in the coverage."""
    deadline = watch.clock.monotonic() + comparison.deadline.total_seconds()
    with watch.stage("users"):
        panel = ask_users(comparison, arms, slot, deadline - watch.clock.monotonic())
    with watch.stage("pull"):
        pulls, troubles = pull_arms(comparison, arms, panel, slot, deadline - watch.clock.monotonic())
    with watch.stage("pair"):
        pairing = pair(panel, *pulls, comparison.k)
        notes = {(arm, reason): note for arm, pull in zip(Arm, pulls, strict=True) for reason, note in pull.notes.items()}
        del pulls
    with watch.stage("score"):
        metrics = tuple(parse(name) for name in comparison.metrics)
        values = score_all(pairing.batch, metrics)
    with watch.stage("summarize"):
        scores = Scores(users=panel.users[pairing.panel_rows], by_metric=values)
        summaries = _summarize(comparison, panel, pairing, scores, metrics)
        evidence = _evidence(comparison, pairing, scores)
    return Measurement(
        coverage=pairing.coverage, summaries=summaries, scores=scores, evidence=evidence, troubles=troubles, notes=notes
    )


def ask_users(comparison: Comparison, arms: Arms, slot: datetime, timeout_s: float) -> Panel:
    """Draw the panel from the users' source."""
    listing = Promise(lambda: arms.users.users(slot, arms.dimensions), name=f"{comparison.name}-users")
    try:
        table = listing.wait(timeout_s)
    except OverdueError:
        msg = f"users of {comparison.name}: the list of users did not arrive before the run's deadline"
        raise SourceError(msg, permanent=False) from None
    return draw(table, comparison, slot)


def pull_arms(
    comparison: Comparison, arms: Arms, panel: Panel, slot: datetime, timeout_s: float
) -> tuple[tuple[Pull, Pull], tuple[str, ...]]:
    """Both arms' answers, pulled side by side so that they speak of the same moment, and what went wrong with a whole arm."""
    request = PullRequest(users=panel.users, k=comparison.k, slot=slot, timeout_s=max(timeout_s, 0.001))
    pulling = {
        arm: Promise(partial(source.pull, request), name=f"{comparison.name}-{arm}")
        for arm, source in ((Arm.BASELINE, arms.baseline), (Arm.CANDIDATE, arms.candidate))
    }
    ends_at = time.monotonic() + request.timeout_s + GRACE_S
    pulls: list[Pull] = []
    troubles: list[str] = []
    for arm, promise in pulling.items():
        try:
            pulls.append(promise.wait(ends_at - time.monotonic()))
        except SourceError as error:
            troubles.append(f"{arm}: {error}")
            pulls.append(_nothing(panel.users, CoverageReason.UNAVAILABLE))
        except OverdueError:
            troubles.append(f"{arm}: no answer within {request.timeout_s:.0f} s, the time left to the run's deadline")
            pulls.append(_nothing(panel.users, CoverageReason.TIMEOUT))
    return (pulls[0], pulls[1]), tuple(troubles)


def _nothing(users: pd.Index[str], reason: CoverageReason) -> Pull:
    """What an arm that gave no list at all is taken to have answered."""
    table = RankingTable(users=users[:0], offsets=np.zeros(1, dtype=np.int64), items=np.empty(0, dtype=np.int64))
    return Pull(rankings=table, failures=dict.fromkeys(users, reason))


def _summarize(
    comparison: Comparison, panel: Panel, pairing: Pairing, scores: Scores, metrics: tuple[Metric, ...]
) -> tuple[Summary, ...]:
    wanted: dict[str, list[Statistic]] = {}
    for rule in comparison.rules:
        wanted.setdefault(rule.metric, []).append(Statistic.parse(rule.statistic))
    ranges = {str(metric): (metric.low, metric.high) for metric in metrics}
    return summarize(panel, pairing.panel_rows, scores.by_metric, ranges=ranges, wanted=wanted)


def _evidence(comparison: Comparison, pairing: Pairing, scores: Scores) -> tuple[Evidence, ...]:
    """Lists of the worst and of ordinary users by the metric of the first rule, or the first metric."""
    metric = comparison.rules[0].metric if comparison.rules else comparison.metrics[0]
    return tuple(
        Evidence(
            kind=kind,
            position=position,
            user=scores.users[row],
            baseline=decode(pairing.batch.baseline[row], pairing.vocabulary),
            candidate=decode(pairing.batch.candidate[row], pairing.vocabulary),
            scores={name: _defined(values[row]) for name, values in scores.by_metric.items()},
        )
        for kind, position, row in choose_evidence(scores.by_metric[metric], comparison.evidence_users)
    )


def _defined(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
