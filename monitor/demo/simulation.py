"""Days pass while the daemon watches: the story, what happened, read from its store, and whether exactly that story did."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from monitor.demo.servers import BROKEN_COUNTRY, OnCall, ReceivedAlert, Recommenders
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
"""The alerts, each with its segment, that the fault should cause: these and no others."""

_REMEMBERED_RUNS = 60
_RUNS_FIRST = 2
"""So many ok runs are wanted in a chapter before the next may begin, however slow the machine."""


class Chapter(StrEnum):
    """How things stand with the candidate."""

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
"""Each chapter in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The plan: how long a day is, how often a run is due, and least days of each chapter."""

    day_s: float
    every: str  # as in the configuration
    healthy_days: int
    broken_days: int
    calm_days: (
        int | None
        # After the repair until the fault comes back, so that a demo left alone shows something;
        # None: never
    )


NORMAL_STORY = Story(day_s=4.0, every="2s", healthy_days=4, broken_days=3, calm_days=15)
FAST_STORY = Story(day_s=1.5, every="4s", healthy_days=2, broken_days=2, calm_days=None)
UNWATCHED_STORY = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""A fault after 12 minutes, repaired after 8, back after 22: time enough for rules that learn to have learned before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryDay:
    """Where the story stands: today, and since which day in which chapter."""

    day: int = 0
    chapter: Chapter = Chapter.HEALTHY
    since_day: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the candidate's join is broken today."""
        return self.chapter is Chapter.BROKEN


def next_day(story: Story, scene: StoryDay, *, is_noticed: bool = True) -> StoryDay:
    """Tomorrow's scene.

    No chapter ends before it ``is_noticed`` by whoever watches, however slow the machine.
    """
    day, broken = scene.day + 1, scene.is_broken
    days = {
        Chapter.HEALTHY: story.healthy_days,
        Chapter.BROKEN: story.broken_days,
        Chapter.HEALED: story.calm_days,
    }
    lasts = days[scene.chapter]
    if is_noticed and lasts is not None and day - scene.since_day >= lasts:
        return StoryDay(
            day=day, chapter=Chapter.HEALED if broken else Chapter.BROKEN, since_day=day
        )
    return StoryDay(day=day, chapter=scene.chapter, since_day=scene.since_day)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """Something that happened, for the log. ``kind``: STORY, RUN, FIRING, RESOLVED or NOTIFIED."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStatus:
    """All that is known at one moment, oldest first."""

    chapters: tuple[
        tuple[datetime, Chapter], ...
    ]  # those begun, each with the moment just before its lists were served
    elapsed_s: float = 0.0
    scene: StoryDay = field(default_factory=StoryDay)
    runs: tuple[RunRecord, ...] = ()
    alerts: tuple[AlertState, ...] = ()
    transitions: tuple[Transition, ...] = ()
    received: tuple[ReceivedAlert, ...] = ()  # by on-call

    @property
    def firing(self) -> int:
        """How many alerts fire."""
        return sum(alert.state is State.FIRING for alert in self.alerts)

    @property
    def notes(self) -> list[LogNote]:
        """Everything worth a line in the log, oldest first."""
        return sorted(self._notes(), key=lambda note: note.at)

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
    run, known = (
        record.run,
        [each for each in record.summaries if each.segment == ALL and each.mean is not None],
    )
    # The configuration names metrics without the depth.
    values = [f"{each.metric.partition('@')[0]} {each.mean:.3f}" for each in known]
    reason = [run.reason] if run.reason else []
    return " ".join([f"{run.status} paired {run.paired or 0}/{run.asked or 0}", *values, *reason])


@dataclass(slots=True, kw_only=True)
class Simulation:
    """One run of the story, which begins when this is made."""

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
        """Let time count from here."""
        self._began_s = self._day_began_s = self.monotonic()
        self._status = DemoStatus(chapters=((self.now(), Chapter.HEALTHY),))

    def step(self) -> DemoStatus:
        """Read the daemon's store, begin the next day when this one is over, and return what there is to show."""
        # On-call first: what it knows by now, the store shows a moment later too.
        received, runs = self.on_call.received, self._status.runs
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
        ok_runs = sum(
            each.run.status is RunStatus.OK and each.run.started_at >= now.chapters[-1][0]
            for each in now.runs
        )
        # The fault is repaired only when as many alerts fire as it should cause, and let in only
        # when all is quiet.
        is_noticed = now.firing >= len(EXPECTED_ALERTS) if now.scene.is_broken else not now.firing
        tomorrow = next_day(self.story, now.scene, is_noticed=is_noticed and ok_runs >= _RUNS_FIRST)
        begun = () if tomorrow.chapter is now.scene.chapter else ((self.now(), tomorrow.chapter),)
        self.recommenders.retrain(tomorrow.day, is_broken=tomorrow.is_broken)
        self._status = replace(now, scene=tomorrow, chapters=(*now.chapters, *begun))
        self._day_began_s = self.monotonic()


_EXPECTED = {(*alert, "firing", Chapter.BROKEN) for alert in EXPECTED_ALERTS} | {
    (*alert, "resolved", Chapter.HEALED) for alert in EXPECTED_ALERTS
}
"""What should happen once, and nothing else: alert, segment, what becomes of it, and while the candidate is how."""


def is_over(status: DemoStatus) -> bool:
    """Whether nothing more is to come: healed, all quiet, and on-call was notified of every start and end."""
    announced = sum(transition.is_announced for transition in status.transitions)
    return (
        status.scene.chapter is Chapter.HEALED
        and not status.firing
        and len(status.received) >= announced
    )


def unmet_expectations(status: DemoStatus) -> Iterator[str]:
    """What was expected and did not happen, or happened and was not expected; a sentence each."""
    # A run that reached too few users in time is no fault of the story: an overloaded machine does
    # that.
    failed = [each.run for each in status.runs if each.run.status is RunStatus.FAILED]
    if failed:
        yield (
            f"{len(failed)} runs failed, the last for this reason: "
            f"{failed[-1].reason or 'none given'}."
        )
    if not any(each.run.status is RunStatus.OK for each in status.runs):
        yield "No run ended ok."
    happened = Counter(
        (
            change.alert,
            change.segment,
            "firing" if change.to_state is State.FIRING else "resolved",
            begun[-1],
        )
        for change in status.transitions
        for begun in [[chapter for began, chapter in status.chapters if began <= change.at]]
        if change.is_announced
    )
    for alert, segment, became, chapter in sorted(_EXPECTED | happened.keys()):
        times = happened[alert, segment, became, chapter]
        if times != (expected := int((alert, segment, became, chapter) in _EXPECTED)):
            yield (
                f"{alert} {segment} became {became} {times} times while the candidate was "
                f"{chapter}, expected {expected}."
            )
    got = {(each.alert, each.segment, each.status) for each in status.received}
    for alert, segment, became, _ in sorted(_EXPECTED):
        if (alert, segment, became) not in got:
            yield f"On-call was never notified that {alert} {segment} is {became}."
