"""What a run leaves for later runs, and all that a run needs of earlier ones as one value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from monitor.model.alerts import AlertState, Expectation, Standstill, State, Transition
from monitor.model.explanation import Explanation, Split
from monitor.model.model_versions import Models
from monitor.model.runs import KeptLists, Run, Summary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Of each segment: value and sampling error on the judged scale, z, share without a score, what z
# added to evidence
PARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """One rule's series in one run."""

    series: str  # what was measured, as `describe_series` has it
    segments: tuple[str, ...]
    numbers: npt.NDArray[np.float64]  # (PARTS, segments), NaN for none


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """An ok run of the same configuration, as far as later ones learn from it."""

    slot: datetime
    states: Mapping[
        tuple[str, str], State
    ]  # alerts, by name and segment, that were not quiet after it
    lessons: Mapping[str, Lesson] = field(default_factory=dict)  # by alert
    standstills: Mapping[str, Standstill] = field(default_factory=dict)  # by alert
    summaries: tuple[
        Summary, ...
    ] = ()  # only for rules without a lesson: they are new or watch something else now
    models: Models | None = None

    def teaches(self, alert: str, series: str) -> bool:
        """Whether this series of the alert is at hand, so that no summary is needed."""
        lesson = self.lessons.get(alert)
        return lesson is not None and lesson.series == series


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """What a run of the slot ``before`` asks of earlier slots of the same comparison and configuration."""

    comparison: str
    config_hash: str
    before: datetime
    runs: int = 0  # how many of the newest ok ones to learn from
    series: Mapping[str, str] = field(
        default_factory=dict
    )  # by alert; a run that lacks a lesson of one has its summaries
    splits: int = 0  # how many healthy runs the explanation is held against
    wants_last_lists: bool = False  # and those from before the alerts that last


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a run needs of the past, read at once before it begins."""

    installation: str = ""  # id of the database, of which the keys of new incidents are made
    states: tuple[AlertState, ...] = ()
    past: tuple[PastRun, ...] = ()  # ok runs of the same configuration, oldest first
    accepted: tuple[Transition, ...] = ()  # levels that are normal since somebody said so
    last_lists: KeptLists | None = None  # of the last run that kept any
    anew_since: datetime | None = (
        None  # from which run on rules learn anew, while they have too few runs
    )
    former_lists: KeptLists | None = None  # of the last such run from before the alerts that last
    former_slot: datetime | None = None
    last_ok: Run | None = None  # the newest one of an earlier slot, whatever the configuration
    floor_overlaps: tuple[
        float, ...
    ] = ()  # mean overlap of the noise floor's lists in the last runs that have it
    splits: tuple[Split, ...] = ()  # what healthy runs left to explain this one by, oldest first
    explained: tuple[
        tuple[datetime, Explanation], ...
    ] = ()  # slots of the last ok runs and their explanations, newest first
    unreadable: tuple[
        str, ...
    ] = ()  # a sentence for each part that is stored but damaged, and so is left out


def to_lessons(expectations: Iterable[Expectation]) -> dict[str, Lesson]:
    """Lessons by alert, each over the segments in the order of the expectations."""
    by_alert: dict[str, list[Expectation]] = defaultdict(list)
    for each in expectations:
        by_alert[each.alert].append(each)
    return {alert: _lesson(found) for alert, found in by_alert.items()}


def _lesson(found: list[Expectation]) -> Lesson:
    import numpy as np  # noqa: PLC0415 - commands that only read alerts and runs need none

    rows = [(each.judged, each.error, each.z, each.lost, each.steady) for each in found]
    numbers = np.array(rows, dtype=np.float64)  # None becomes NaN
    return Lesson(
        series=found[0].series, segments=tuple(each.segment for each in found), numbers=numbers.T
    )
