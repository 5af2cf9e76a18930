"""The story of the demo. Days pass while the daemon watches.

This module reads what happened from the daemon's store, and compares it with the expected story.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

from monitor.demo.servers import BROKEN_COUNTRY, OnCall, ReceivedAlert, Recommenders
from monitor.model.alerts import State, Transition
from monitor.model.immutable import immutable
from monitor.model.instants import utc_now
from monitor.model.rankings import ALL
from monitor.model.runs import FinishedRun, RunStatus
from monitor.storage import SqlStore

DEMO_COMPARISON = "home-feed"
DEMO_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
EXPECTED_ALERTS = frozenset(
    {("SimilarityLow", f"country={BROKEN_COUNTRY}"), ("ManyUsersApart", "all")}
)
"""The alerts that the fault should cause, each with its segment. No other alert should fire."""

_DEMO_RUNS = 60
_RUNS_FIRST = 2
"""A chapter lasts at least until it has this number of ok runs, also on a slow machine."""


class Chapter(StrEnum):
    """A part of the story. It says how well the candidate works."""

    HEALTHY = "healthy"
    BROKEN = "broken"
    HEALED = "healed"


_EXPECTED = {(*alert, "firing", Chapter.BROKEN) for alert in EXPECTED_ALERTS} | {
    (*alert, "resolved", Chapter.HEALED) for alert in EXPECTED_ALERTS
}
"""The changes that should happen exactly once. Each has an alert, segment, new status and chapter.
"""

CHAPTER_TEXTS = {
    Chapter.HEALTHY: (
        "Both models are retrained every day. They differ a little, as two good models do."
    ),
    Chapter.BROKEN: (
        "The candidate was deployed with a broken join: it no longer finds what users in "
        f"{BROKEN_COUNTRY} bought, and shows them the popular items."
    ),
    Chapter.HEALED: (
        f"The join is repaired: users in {BROKEN_COUNTRY} get their own recommendations again."
    ),
}
"""What the demo prints at the beginning of each chapter."""


@immutable
class Story:
    """The plan: the length of a day, the interval of runs, and the least days in each chapter."""

    day_s: float
    every: str  # the interval of runs, as in the configuration
    healthy_days: int
    broken_days: int
    calm_days: int | None  # days from the repair to the next fault; None if no fault follows


NORMAL_STORY = Story(day_s=4.0, every="2s", healthy_days=4, broken_days=3, calm_days=15)
FAST_STORY = Story(day_s=1.5, every="4s", healthy_days=2, broken_days=2, calm_days=None)
UNWATCHED_STORY = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""The fault begins after 12 minutes, is repaired after 8 more, and returns after 22 more.

So rules that learn have enough healthy runs before each fault.
"""


@immutable
class StoryDay:
    """One day of the story, with its chapter and the first day of this chapter."""

    day: int = 0
    chapter: Chapter = Chapter.HEALTHY
    since_day: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the candidate's join is broken today."""
        return self.chapter is Chapter.BROKEN


def next_day(story: Story, scene: StoryDay, *, is_noticed: bool = True) -> StoryDay:
    """Return the next day of the story.

    ``is_noticed`` says whether the daemon has noticed what changed with this chapter. Until then
    the chapter continues.
    """
    day = scene.day + 1
    chapter = scene.chapter
    since_day = scene.since_day
    days = {
        Chapter.HEALTHY: story.healthy_days,
        Chapter.BROKEN: story.broken_days,
        Chapter.HEALED: story.calm_days,
    }[chapter]
    if is_noticed and days is not None and day - since_day >= days:
        chapter = Chapter.HEALED if scene.is_broken else Chapter.BROKEN
        since_day = day
    return StoryDay(day=day, chapter=chapter, since_day=since_day)


@immutable
class LogNote:
    """A line about an event. ``kind`` is STORY, RUN, FIRING, RESOLVED or NOTIFIED."""

    at: datetime
    kind: str
    text: str


@dataclass(slots=True, kw_only=True)
class Simulation:
    """The story as it happens, and all its events so far, oldest first.

    The story begins when this object is created.
    """

    recommenders: Recommenders
    on_call: OnCall
    story: Story
    store: SqlStore
    scene: StoryDay = field(default_factory=StoryDay)
    # Each chapter, and the time just before its first lists were served.
    chapters: list[tuple[datetime, Chapter]] = field(init=False)
    runs: list[FinishedRun] = field(default_factory=list)
    firing: int = 0  # the number of alerts that are firing now
    transitions: tuple[Transition, ...] = ()  # starts and ends of alerts
    received: tuple[ReceivedAlert, ...] = ()
    _began_s: float = field(default_factory=time.monotonic)
    _day_began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin the first chapter."""
        self.chapters = [(utc_now(), Chapter.HEALTHY)]

    @property
    def elapsed_s(self) -> float:
        """The seconds since the story began."""
        return time.monotonic() - self._began_s

    def step(self) -> None:
        """Read the store. If the present day is over, begin the next one."""
        # Read on-call first. Then the store has every alert that on-call has received.
        self.received = self.on_call.received
        last = self.runs[-1].slot if self.runs else None
        ended = self.store.history.finished_runs(DEMO_COMPARISON, after=last, limit=_DEMO_RUNS)
        self.runs = [*self.runs, *ended][-_DEMO_RUNS:]
        self.firing = sum(state.state is State.FIRING for state in self.store.alerts.states())
        stored = self.store.alerts.transitions(comparison=DEMO_COMPARISON, limit=None)
        self.transitions = tuple(change for change in stored if change.is_announced)
        if time.monotonic() - self._day_began_s >= self.story.day_s:
            self._begin_next_day()

    def _begin_next_day(self) -> None:
        chapter_began, chapter = self.chapters[-1]
        ok_runs = 0
        for run in self.runs:
            ok_runs += run.status is RunStatus.OK and run.started_at >= chapter_began
        # The fault ends only after all its alerts fire. It begins only while no alert fires.
        if self.scene.is_broken:
            is_noticed = self.firing >= len(EXPECTED_ALERTS)
        else:
            is_noticed = not self.firing
        is_noticed = is_noticed and ok_runs >= _RUNS_FIRST
        self.scene = next_day(self.story, self.scene, is_noticed=is_noticed)
        if self.scene.chapter is not chapter:
            self.chapters.append((utc_now(), self.scene.chapter))
        self.recommenders.retrain(self.scene.day, is_broken=self.scene.is_broken)
        self._day_began_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the candidate is healed, no alert fires, and on-call got all starts and ends."""
        is_healed = self.scene.chapter is Chapter.HEALED
        return is_healed and not self.firing and len(self.received) >= len(self.transitions)

    def notes(self) -> list[LogNote]:
        """Return a line about every event of the story, oldest first."""
        notes = []
        for began_at, chapter in self.chapters:
            notes.append(LogNote(at=began_at, kind="STORY", text=CHAPTER_TEXTS[chapter]))
        for run in self.runs:
            if run.finished_at is not None:
                text = _run_text(run)
                notes.append(LogNote(at=run.finished_at, kind="RUN", text=text))
        for change in self.transitions:
            kind = "FIRING" if change.is_start else "RESOLVED"
            text = f"{change.alert} {change.segment}: {change.reason}"
            notes.append(LogNote(at=change.at, kind=kind, text=text))
        for alert in self.received:
            text = f"on-call: {alert.alert} {alert.segment} {alert.status}"
            notes.append(LogNote(at=alert.at, kind="NOTIFIED", text=text))
        return sorted(notes, key=attrgetter("at"))

    def unmet_expectations(self) -> Iterator[str]:
        """Yield a sentence for each expected event that is missing, and each unexpected event."""
        # Insufficient runs are allowed, because an overloaded machine causes them.
        failed = [run for run in self.runs if run.status is RunStatus.FAILED]
        if failed:
            last = failed[-1].reason or "none given"
            yield f"{len(failed)} runs failed. The reason for the last failure: {last}."
        if not any(run.status is RunStatus.OK for run in self.runs):
            yield "No run ended with the status ok."
        happened: Counter[tuple[str, str, str, Chapter]] = Counter()
        for change in self.transitions:
            became = "firing" if change.is_start else "resolved"
            begun = [chapter for began, chapter in self.chapters if began <= change.at]
            happened[change.alert, change.segment, became, begun[-1]] += 1
        for event in sorted(_EXPECTED | happened.keys()):
            alert, segment, became, chapter = event
            expected = int(event in _EXPECTED)
            if happened[event] != expected:
                yield (
                    f"{alert} {segment} became {became} {happened[event]} times while the "
                    f"candidate was {chapter}, but {expected} times were expected."
                )
        notified = {(alert.alert, alert.segment, alert.status) for alert in self.received}
        for alert, segment, became, _ in sorted(_EXPECTED):
            if (alert, segment, became) not in notified:
                yield f"On-call was never notified that {alert} {segment} is {became}."


def _run_text(run: FinishedRun) -> str:
    words = [f"{run.status} paired {run.paired or 0}/{run.asked or 0}"]
    for summary in run.summaries:
        if summary.segment == ALL and summary.mean is not None:
            # Omit the depth, because the configuration names metrics without it.
            metric = summary.metric.partition("@")[0]
            words.append(f"{metric} {summary.mean:.3f}")
    if run.reason:
        words.append(run.reason)
    return " ".join(words)
