"""What a run stores for later runs, and what it needs from earlier runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from monitor.immutable import immutable
from monitor.model.alerts import AlertState, Expectation, Standstill, State, Transition
from monitor.model.explanation import Explanation, Split
from monitor.model.model_versions import Models
from monitor.model.run_reasons import UnmatchedName
from monitor.model.runs import KeptLists, Run, Summary

if TYPE_CHECKING:
    from monitor.model.arrays import Floats

PARTS = 5
"""Numbers of a segment: value and sampling error on the judged scale, z, share of users without a
score, and what z added to evidence."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """One rule's series in one run."""

    series: str  # what was measured, as `describe_series` has it
    segments: tuple[str, ...]
    numbers: Floats  # (PARTS, segments), NaN for none


@immutable
class PastRun:
    """What later runs learn from an ok run of the same configuration."""

    slot: datetime
    # Alerts, by name and segment, that were not quiet after it
    states: Mapping[tuple[str, str], State]
    lessons: Mapping[str, Lesson] = field(default_factory=dict)  # by alert
    standstills: Mapping[str, Standstill] = field(default_factory=dict)  # by alert
    # Only for rules without a lesson: they are new or watch something else now
    summaries: tuple[Summary, ...] = ()
    models: Models | None = None

    def teaches(self, alert: str, series: str) -> bool:
        """Whether the run has a lesson for this series of the alert, so that needs no summary."""
        lesson = self.lessons.get(alert)
        return lesson is not None and lesson.series == series


@immutable
class MemoryRequest:
    """What a run of the slot ``before`` needs from earlier runs with the same configuration."""

    comparison: str
    config_hash: str
    before: datetime
    runs: int = 0  # how many of the newest ok ones to learn from
    # By alert; a run that lacks a lesson of one has its summaries
    series: Mapping[str, str] = field(default_factory=dict)
    splits: int = 0  # how many healthy runs the explanation is held against
    wants_last_lists: bool = False  # and those from before the alerts that last


@immutable
class Memory:
    """What a run needs from the past, read once before the run starts."""

    installation: str = ""  # id of the database, of which the keys of new incidents are made
    states: tuple[AlertState, ...] = ()
    past: tuple[PastRun, ...] = ()  # ok runs of the same configuration, oldest first
    accepted: tuple[Transition, ...] = ()  # levels that are normal since somebody said so
    last_lists: KeptLists | None = None  # of the last run that kept any
    # Slot from which on rules learn again, while they have too few runs
    anew_since: datetime | None = None
    former_lists: KeptLists | None = None  # of the last such run from before the alerts that last
    former_slot: datetime | None = None
    last_ok: Run | None = None  # the newest one of an earlier slot, whatever the configuration
    # Mean overlap of the noise floor's lists in the last runs that have it
    floor_overlaps: tuple[float, ...] = ()
    splits: tuple[Split, ...] = ()  # what healthy runs left to explain this one by, oldest first
    # Slots of the last ok runs and their explanations, newest first
    explained: tuple[tuple[datetime, Explanation], ...] = ()
    # Active silences that match nothing and may be meant for this comparison
    unmatched: tuple[UnmatchedName, ...] = ()
    # A sentence for each part that is stored but damaged, and so is left out
    unreadable: tuple[str, ...] = ()


def to_lessons(expectations: Iterable[Expectation]) -> dict[str, Lesson]:
    """Lessons by alert, each over the segments in the order of the expectations."""
    by_alert: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in expectations:
        by_alert[expectation.alert].append(expectation)
    return {alert: _lesson(of_alert) for alert, of_alert in by_alert.items()}


def _lesson(expectations: list[Expectation]) -> Lesson:
    import numpy as np  # noqa: PLC0415 - commands that only read alerts and runs need none

    rows = [(each.judged, each.error, each.z, each.lost, each.steady) for each in expectations]
    numbers = np.array(rows, dtype=np.float64)  # None becomes NaN
    return Lesson(
        series=expectations[0].series,
        segments=tuple(each.segment for each in expectations),
        numbers=numbers.T,
    )
