"""Runs to explain, of lists made up here: a shop whose models wander together from day to day, and faults to break it with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kernels import reference
from monitor.attribution import (
    CodedExplanation,
    CurrentRun,
    PastRuns,
    average_parts,
    classify,
    explain_metric,
    pool_kinds,
    pool_runs,
    share_kinds,
    split_distances,
)
from monitor.metrics import parse, score_all
from monitor.model import Arm, CoverageReason, CoverageRow

K = 10
ITEMS = 300
Lists = list[list[int]]


@dataclass(frozen=True)
class Day:
    """One day's lists of both arms; users of ``is_missing`` have none. ``values`` are the users' by dimension."""

    values: Mapping[str, npt.NDArray[np.str_]]
    baseline: Lists
    candidate: Lists
    is_missing: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def users(self, **wanted: str) -> npt.NDArray[np.intp]:
        """Who has these values."""
        return np.flatnonzero(np.logical_and.reduce([self.values[name] == value for name, value in wanted.items()]))

    def giving(self, rows: npt.NDArray[np.intp], change: Callable[[list[int]], list[int]]) -> Day:
        """The day with the candidate's lists of these users changed."""
        candidate = list(self.candidate)
        for row in rows:
            candidate[row] = change(candidate[row])
        return replace(self, candidate=candidate)


def draw_day(seed: int, n: int = 1200, share_of_new: float = 0.2) -> Day:
    """Two models of one taste that err by themselves, by more or less from day to day, and most for new users."""
    taste = np.random.default_rng(7).normal(size=(n, ITEMS)) + np.linspace(2, 0, ITEMS)
    rng = np.random.default_rng(seed)
    values = {
        "activity": np.where(rng.random(n) < share_of_new, "new", rng.choice(["q1", "q2", "q3"], n)),
        "country": rng.choice(["DE", "FR", "UK"], n, p=[0.15, 0.25, 0.6]),
    }
    error = rng.uniform(0.12, 0.2) * np.where(values["activity"] == "new", 1.5, 1.0)
    arms = [np.argsort(-(taste + error[:, None] * rng.normal(size=(n, ITEMS))), axis=1)[:, :K].tolist() for _ in range(2)]
    return Day(values=values, baseline=arms[0], candidate=arms[1], is_missing=np.zeros(n, dtype=np.bool_))


def measure(day: Day, name: str) -> CurrentRun:
    """What a run knows of the day by one metric."""
    metric = parse(name)
    rows = np.flatnonzero(~day.is_missing)
    batch = reference.batch([(day.baseline[row], day.candidate[row]) for row in rows], K)
    parts = split_distances(batch, lambda each: score_all(each, [metric])[name])
    asked, segments = {"all": len(day.baseline)}, {"all": np.arange(len(rows))}
    for dimension, values in day.values.items():
        for value in np.unique(values):
            asked[f"{dimension}={value}"] = int((values == value).sum())
            segments[f"{dimension}={value}"] = np.flatnonzero(values[rows] == value)
    lost = (Arm.CANDIDATE, CoverageReason.MISSING)
    coverage = tuple(
        CoverageRow(segment=name, asked=count, paired=(n := len(segments[name])), reasons={lost: count - n})
        for name, count in asked.items()
    )
    means = average_parts(parts, segments, asked)
    return CurrentRun(batch=batch, parts=parts, segments=segments, means=means, coverage=coverage)


def remember(past: Iterable[Day], name: str) -> PastRuns:
    """What these days leave for a later one by one metric."""
    days = [measure(each, name) for each in past]
    kinds = [{name: share_kinds(classify(day.batch.take(rows))) for name, rows in day.segments.items()} for day in days]
    return PastRuns(means=pool_runs([day.means for day in days]), kinds=pool_kinds(kinds))


def explain_day(day: Day, past: PastRuns, name: str) -> CodedExplanation:
    """The day held against others by one metric."""
    metric = parse(name)
    assert metric.identical is not None
    found = explain_metric(measure(day, name), past, farthest=metric.identical - metric.low, top=20, examples=20)
    assert found is not None
    assert abs(sum(cause.amount for cause in found.causes) - found.drop.whole) < 1e-9
    return found
