"""What a run stores for later runs, and what it needs from earlier runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from monitor.model.alerts import AlertState, Expectation, Standstill, State, Transition
from monitor.model.explanation import Explanation, Split
from monitor.model.immutable import immutable
from monitor.model.model_versions import Models
from monitor.model.rules import JudgedSeries
from monitor.model.run_reasons import UnmatchedName
from monitor.model.runs import KeptLists, Run, Summary
from monitor.model.unpaired import UnpairedResults

if TYPE_CHECKING:
    from monitor.model.arrays import Floats

LESSON_NUMBERS = 5
"""How many numbers a lesson has for each segment.

They are the value, its sampling error, z, the share of users without a score, and what the run adds
to the evidence. The first two are on the scale on which the rule judges.
"""


class LessonTopic(NamedTuple):
    """What the lesson of one alert is about. It has one column of numbers for each segment."""

    alert: str
    series: JudgedSeries | None  # what was measured
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lessons:
    """What the rules measured in one run. Later runs learn from it."""

    topics: tuple[LessonTopic, ...]
    # Shape (LESSON_NUMBERS, columns), NaN if there is no value. The columns are those of the topics, in
    # their order.
    numbers: Floats


@immutable
class PastRun:
    """What later runs learn from an ok run of the same configuration."""

    slot: datetime
    # The states of alerts that were not quiet after the run, by name and segment
    states: Mapping[tuple[str, str], State]
    lessons: Lessons | None = None
    standstills: Mapping[str, Standstill] = field(default_factory=dict)  # by alert
    # Summaries are returned only if a rule has no lesson, because it is new or now judges
    # something else.
    summaries: tuple[Summary, ...] = ()
    models: Models | None = None

    @property
    def topics(self) -> tuple[LessonTopic, ...]:
        """The topics of the run's lessons."""
        return () if self.lessons is None else self.lessons.topics


@immutable
class MemoryRequest:
    """What a run of the slot ``before`` needs from earlier runs with the same configuration."""

    comparison: str
    config_hash: str
    before: datetime
    runs: int = 0  # the rules learn from at most this many of the newest runs with status ok
    # The series of each alert. If a run lacks a lesson for one of them, its summaries are returned.
    series: Mapping[str, JudgedSeries] = field(default_factory=dict)
    wants_summaries: bool = False  # whether the summaries of all runs are returned
    splits: int = 0  # the explanation compares this run with at most this many healthy runs
    # Whether the run needs the lists of the last run, and the lists from before the current alerts.
    wants_last_lists: bool = False
    k: int = 0  # the lists must be of a run with at least this k
    wants_last_unpaired: bool = False  # only runs of unpaired comparisons do


@immutable
class Memory:
    """What a run needs from earlier runs. It is read once, before the run starts."""

    installation: str = ""  # id of the database, a part of the keys of new incidents
    states: tuple[AlertState, ...] = ()
    past: tuple[PastRun, ...] = ()  # ok runs of the same configuration, oldest first
    accepted: tuple[Transition, ...] = ()  # levels that somebody accepted as normal
    last_lists: KeptLists | None = None  # lists of the last run that stored its lists
    # Slot from which the rules learn again after a change of the configuration. None if they have
    # enough runs
    learning_since: datetime | None = None
    # Lists of the last run that stored its lists before the current alerts began
    former_lists: KeptLists | None = None
    former_slot: datetime | None = None
    last_ok: Run | None = None  # the newest earlier run with status ok, with any configuration
    # Mean overlap of the noise floor's lists, in the last runs with a noise floor
    floor_overlaps: tuple[float, ...] = ()
    splits: tuple[Split, ...] = ()  # splits of healthy runs, to explain this run, oldest first
    # Slot and explanation of the last runs with status ok, newest first
    earlier_explanations: tuple[tuple[datetime, Explanation], ...] = ()
    last_unpaired: UnpairedResults | None = None  # of the last run of an unpaired comparison
    # Names in active silences that match nothing and may be meant for this comparison
    unmatched: tuple[UnmatchedName, ...] = ()
    # A sentence for each part that is left out because the stored data is damaged
    unreadable: tuple[str, ...] = ()


def to_lessons(expectations: Iterable[Expectation]) -> Lessons | None:
    """Return the lessons of a run. The segments of a topic are in the order of the expectations.

    Returns None if there are no expectations.
    """
    by_alert: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in expectations:
        by_alert[expectation.alert].append(expectation)
    if not by_alert:
        return None
    import numpy as np  # noqa: PLC0415 - commands that only read alerts and runs do not need it

    topics = []
    rows = []
    for alert, of_alert in by_alert.items():
        segments = tuple(lesson.segment for lesson in of_alert)
        topics.append(LessonTopic(alert, of_alert[0].series, segments))
        rows += [
            (lesson.judged, lesson.error, lesson.z, lesson.lost, lesson.trend_z)
            for lesson in of_alert
        ]
    numbers = np.array(rows, dtype=np.float64)  # None becomes NaN
    return Lessons(topics=tuple(topics), numbers=numbers.T)
