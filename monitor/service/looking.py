"""Measure without a database: two files, or a few users of a configured comparison. Nothing is stored, nobody is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pandas as pd

from monitor.errors import MonitorError
from monitor.metrics import parse
from monitor.model import Arm, Comparison, Coverage, CoverageReason, Evidence, SampleSize, UserTable
from monitor.pipeline.measure import Arms, Measurement, Stopwatch, measure
from monitor.service.clock import SystemClock
from monitor.service.running import Watched
from monitor.sources.file import FileOptions, FileSource, FileUsers, FileUsersOptions

_LONG = timedelta(hours=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a handful of users got from both arms, or why they got nothing."""

    comparison: Comparison
    slot: datetime
    coverage: Coverage | None
    evidence: tuple[Evidence, ...]
    troubles: tuple[str, ...]
    notes: Mapping[tuple[Arm, CoverageReason], str]


@dataclass(frozen=True, slots=True)
class _Union:
    """The users of either file."""

    parts: tuple[FileUsers, ...]

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        tables = [part.users(slot, dimensions).users for part in self.parts]
        return UserTable(users=pd.Index(tables[0].union(tables[1], sort=False), dtype="str"), segments={})

    def close(self) -> None:
        return


def compare_files(baseline: FileOptions, candidate: FileOptions, *, metrics: Sequence[str], k: int) -> Measurement:
    """Compare the lists of all users of two files. SourceError when either cannot be read."""
    sources = (baseline, candidate)
    users = tuple(
        FileUsers(FileUsersOptions(path=each.path, user=each.user, format=each.format, max_bytes=each.max_bytes))
        for each in sources
    )
    arms = Arms(baseline=FileSource(baseline), candidate=FileSource(candidate), users=_Union(users), dimensions=())
    return measure(_comparison(metrics, k), arms, datetime.now(UTC), Stopwatch(SystemClock()))


def _comparison(metrics: Sequence[str], k: int) -> Comparison:
    return Comparison(
        name="compare",
        k=k,
        metrics=tuple(str(parse(name)) for name in metrics),
        rules=(),
        sample=None,
        seed=0,
        deadline=_LONG,
        min_paired_share=0.0,
        max_segment_values=1,
        evidence_users=0,
        keep_scores=False,
        config_hash="",
    )


def look_at(watched: Watched, count: int) -> Look:
    """Ask both arms of a comparison for a handful of its users."""
    few = replace(watched.comparison, sample=SampleSize(rotating=count), evidence_users=count)
    slot = watched.schedule.latest(SystemClock().now())
    try:
        found = measure(few, watched.arms, slot, Stopwatch(SystemClock()))
    except MonitorError as error:
        return Look(comparison=few, slot=slot, coverage=None, evidence=(), troubles=(str(error),), notes={})
    return Look(
        comparison=few,
        slot=slot,
        coverage=found.coverage,
        evidence=found.evidence,
        troubles=found.troubles,
        notes=found.notes,
    )
