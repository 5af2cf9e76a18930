"""The story of the demo. Days pass while the daemon watches.

The module reads events from the store of the daemon, and compares them with the expected story.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

from monitor.demo.servers import BROKEN_COUNTRY, OnCall, ReceivedAlert, Recommenders
from monitor.immutable import immutable
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.instants import utc_now
from monitor.model.rankings import ALL
from monitor.model.runs import RunRecord, RunStatus
from monitor.ports import Store

DEMO_COMPARISON = "home-feed"
DEMO_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
EXPECTED_ALERTS = frozenset(
    {("SimilarityLow", f"country={BROKEN_COUNTRY}"), ("ManyUsersApart", "all")}
)
"""The alerts that the fault should cause, each with its segment. No other alerts are expected."""

_REMEMBERED_RUNS = 60
_RUNS_FIRST = 2
"""Even on a slow machine a chapter lasts until it has this number of ok runs."""


class Chapter(StrEnum):
    """The health of the candidate."""

    HEALTHY = "healthy"
    BROKEN = "broken"
    HEALED = "healed"


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
"""A text about each chapter."""


@immutable
class Story:
    """The plan: the length of a day, the interval of runs, and the least days of each chapter."""

    day_s: float
    every: str  # as in the configuration
    healthy_days: int
    broken_days: int
    calm_days: int | None  # from the repair to the next fault; None if no fault follows


NORMAL_STORY = Story(day_s=4.0, every="2s", healthy_days=4, broken_days=3, calm_days=15)
FAST_STORY = Story(day_s=1.5, every="4s", healthy_days=2, broken_days=2, calm_days=None)
UNWATCHED_STORY = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""The first fault comes after 12 minutes, is repaired 8 minutes later, and recurs after 22 more.

So learned rules have enough time to learn before the fault.
"""


@immutable
class StoryDay:
    """The state of the story: the day, the chapter, and the first day of the chapter."""

    day: int = 0
    chapter: Chapter = Chapter.HEALTHY
    since_day: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the candidate's join is broken today."""
        return self.chapter is Chapter.BROKEN


def next_day(story: Story, scene: StoryDay, *, is_noticed: bool = True) -> StoryDay:
    """Return the state of the next day.

    ``is_noticed`` says whether the daemon has noticed the present chapter. Until then the chapter
    continues.
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
    """An event of the story. ``kind`` is STORY, RUN, FIRING, RESOLVED or NOTIFIED."""

    at: datetime
    kind: str
    text: str


@immutable
class DemoStatus:
    """Everything that has happened so far, oldest first."""

    # Each chapter, with the moment just before its lists were served.
    chapters: tuple[tuple[datetime, Chapter], ...]
    elapsed_s: float = 0.0
    scene: StoryDay = field(default_factory=StoryDay)
    runs: tuple[RunRecord, ...] = ()
    alerts: tuple[AlertState, ...] = ()
    transitions: tuple[Transition, ...] = ()
    received: tuple[ReceivedAlert, ...] = ()

    @property
    def firing(self) -> int:
        """The number of alerts that fire."""
        return sum(alert.state is State.FIRING for alert in self.alerts)

    @property
    def notes(self) -> list[LogNote]:
        """Every event of the story, oldest first."""
        return sorted(self._notes(), key=attrgetter("at"))

    def _notes(self) -> Iterator[LogNote]:
        for at, chapter in self.chapters:
            yield LogNote(at=at, kind="STORY", text=CHAPTER_TEXTS[chapter])
        for record in self.runs:
            if record.run.finished_at is not None:
                yield LogNote(at=record.run.finished_at, kind="RUN", text=_run_text(record))
        for change in self.transitions:
            if change.is_announced:
                kind = "FIRING" if change.to_state is State.FIRING else "RESOLVED"
                yield LogNote(
                    at=change.at,
                    kind=kind,
                    text=f"{change.alert} {change.segment}: {change.reason}",
                )
        for alert in self.received:
            yield LogNote(
                at=alert.at,
                kind="NOTIFIED",
                text=f"on-call: {alert.alert} {alert.segment} {alert.status}",
            )


def _run_text(record: RunRecord) -> str:
    run = record.run
    words = [f"{run.status} paired {run.paired or 0}/{run.asked or 0}"]
    for summary in record.summaries:
        if summary.segment == ALL and summary.mean is not None:
            # The configuration writes metrics without the depth.
            metric = summary.metric.partition("@")[0]
            words.append(f"{metric} {summary.mean:.3f}")
    if run.reason:
        words.append(run.reason)
    return " ".join(words)


@dataclass(slots=True, kw_only=True)
class Simulation:
    """One run of the story. It begins when this object is created."""

    recommenders: Recommenders
    on_call: OnCall
    story: Story
    store: Store
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    _status: DemoStatus = field(init=False)
    _began_s: float = field(init=False)
    _day_began_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clocks of the story and of the day."""
        self._began_s = self._day_began_s = self.monotonic()
        self._status = DemoStatus(chapters=((self.now(), Chapter.HEALTHY),))

    def step(self) -> DemoStatus:
        """Read the store, begin the next day if the present one is over, and return the status."""
        # Read on-call first, because the store is never behind on-call.
        received = self.on_call.received
        runs = self._status.runs
        last = runs[-1].run.slot if runs else None
        ended = self.store.history.run_records(DEMO_COMPARISON, after=last, limit=_REMEMBERED_RUNS)
        self._status = replace(
            self._status,
            elapsed_s=self.monotonic() - self._began_s,
            runs=(*runs, *ended)[-_REMEMBERED_RUNS:],
            alerts=self.store.alerts.states(),
            transitions=self.store.alerts.transitions(comparison=DEMO_COMPARISON, limit=None),
            received=received,
        )
        if self.monotonic() - self._day_began_s >= self.story.day_s:
            self._begin_next_day()
        return self._status

    def _begin_next_day(self) -> None:
        now = self._status
        chapter_began, _ = now.chapters[-1]
        ok_runs = 0
        for each in now.runs:
            ok_runs += each.run.status is RunStatus.OK and each.run.started_at >= chapter_began
        # The fault ends only when all its alerts fire. It begins only when none fires.
        if now.scene.is_broken:
            is_noticed = now.firing >= len(EXPECTED_ALERTS)
        else:
            is_noticed = not now.firing
        tomorrow = next_day(self.story, now.scene, is_noticed=is_noticed and ok_runs >= _RUNS_FIRST)
        chapters = now.chapters
        if tomorrow.chapter is not now.scene.chapter:
            chapters += ((self.now(), tomorrow.chapter),)
        self.recommenders.retrain(tomorrow.day, is_broken=tomorrow.is_broken)
        self._status = replace(now, scene=tomorrow, chapters=chapters)
        self._day_began_s = self.monotonic()


_EXPECTED = {(*alert, "firing", Chapter.BROKEN) for alert in EXPECTED_ALERTS} | {
    (*alert, "resolved", Chapter.HEALED) for alert in EXPECTED_ALERTS
}
"""The events that should happen exactly once: alert, segment, new status and chapter."""


def is_over(status: DemoStatus) -> bool:
    """Return whether the story is over.

    It is over if the candidate is healed, no alert fires, and on-call got every start and end.
    """
    announced = sum(transition.is_announced for transition in status.transitions)
    return (
        status.scene.chapter is Chapter.HEALED
        and not status.firing
        and len(status.received) >= announced
    )


def unmet_expectations(status: DemoStatus) -> Iterator[str]:
    """Yield a sentence for each expected event that is missing, and for each unexpected event."""
    # Insufficient runs are allowed, because an overloaded machine causes them.
    failed = [each.run for each in status.runs if each.run.status is RunStatus.FAILED]
    if failed:
        yield (
            f"{len(failed)} runs failed, the last for this reason: "
            f"{failed[-1].reason or 'none given'}."
        )
    if not any(each.run.status is RunStatus.OK for each in status.runs):
        yield "No run ended with the status ok."
    happened: Counter[tuple[str, str, str, Chapter]] = Counter()
    for change in status.transitions:
        if change.is_announced:
            became = "firing" if change.to_state is State.FIRING else "resolved"
            begun = [chapter for began, chapter in status.chapters if began <= change.at]
            happened[change.alert, change.segment, became, begun[-1]] += 1
    for event in sorted(_EXPECTED | happened.keys()):
        alert, segment, became, chapter = event
        expected = int(event in _EXPECTED)
        if happened[event] != expected:
            yield (
                f"{alert} {segment} became {became} {happened[event]} times while the candidate "
                f"was {chapter}, expected {expected}."
            )
    notified = {(each.alert, each.segment, each.status) for each in status.received}
    for alert, segment, became, _ in sorted(_EXPECTED):
        if (alert, segment, became) not in notified:
            yield f"On-call was never notified that {alert} {segment} is {became}."
