"""The daemon's jobs: run the newest slot of a comparison, back-fill relevance, refresh what is published, prune."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.errors import MonitorError
from monitor.model import RunResult, format_instant
from monitor.ports import Clock, Publisher, Receiver, Store
from monitor.service.clock import SKEW
from monitor.service.daemon.delivery_loops import DeliveryLoops
from monitor.service.daemon.housekeeping import Housekeeping
from monitor.service.daemon.staleness import StalenessMonitor
from monitor.service.relevance_backfill import backfill_logged
from monitor.service.runner import STORING, Runner, Watched
from monitor.service.wiring import Wiring, settle_quietly
from monitor.settings import Schedule
from monitor.storage import SqlStore


def count_skipped(passed: Sequence[datetime], busy_until: datetime | None) -> dict[str, int]:
    """Count slots that passed without a run by reason.

    ``overlap``: this process was still at its last run, which ended at ``busy_until``; ``missed``: nobody was there.
    """
    overlapped = sum(1 for slot in passed if busy_until is not None and slot <= busy_until)
    counts = {"overlap": overlapped, "missed": len(passed) - overlapped}
    return {reason: count for reason, count in counts.items() if count}


_COUNTED = 10_000

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Ticker:
    """Runs slots for the daemon. ``busy_until`` is when this process ended its last run of each comparison.

    Slots that were run while a clock was ahead of this one come again, and are measured anew: each once, so that neither the
    runs nor the alerts of a wrong clock hold up those of the right one. By comparison: ``ahead`` is the newest slot that was
    stored when the clock was found to be behind, ``repeated`` the last one that was run again.
    """

    runner: Runner
    store: Store
    publisher: Publisher
    clock: Clock
    busy_until: dict[str, datetime] = field(default_factory=dict)
    ahead: dict[str, datetime] = field(default_factory=dict)
    repeated: dict[str, datetime] = field(default_factory=dict)

    def tick(self, watched: Watched, receivers: tuple[str, ...]) -> RunResult | None:
        """Run the comparison's newest slot unless it was run already, here or elsewhere. What goes wrong is logged."""
        name = watched.comparison.name
        try:
            return self._run_latest(name, watched, receivers)
        except MonitorError as error:
            log.error("run not done", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
        except Exception:
            log.exception("run not done", comparison=name)
        return None

    def _run_latest(self, name: str, watched: Watched, receivers: tuple[str, ...]) -> RunResult | None:
        now = self.clock.now()
        slot = watched.schedule.latest(now)
        last = self.runner.patiently(partial(self.store.runs.last_slot, name))
        if last is not None and last > now + SKEW:
            self.ahead[name] = last
        is_rerun = name in self.ahead and slot <= self.ahead[name] and self._rewind(name, slot)
        result = self.runner.run(watched, slot, receivers=receivers, rerun=is_rerun)
        if result is not None:
            for reason, count in count_skipped(_passed(watched, last, slot), self.busy_until.get(name)).items():
                self.publisher.slots_skipped(name, reason, count)
            self.busy_until[name] = self.clock.now()
        return result

    def _rewind(self, name: str, slot: datetime) -> bool:
        """Make way for a slot that lies before what was stored by a clock that ran ahead; False when that was done already."""
        if self.repeated.get(name) == slot:
            return False
        log.warning(
            "clock was set back: slots that were run before are run again",
            comparison=name,
            newest=format_instant(self.ahead[name]),
        )
        self.runner.patiently(partial(self.store.alerts.rewind, name, slot=slot, now=self.clock.now()))
        self.repeated[name] = slot
        return True


def _passed(watched: Watched, last: datetime | None, slot: datetime) -> list[datetime]:
    """Slots strictly between the last one claimed and this one; of a very long absence the latest ones only."""
    if last is None:
        return []
    start = max(last, slot - _COUNTED * watched.schedule.interval)
    return [each for each in watched.schedule.between(start, slot) if last < each < slot]


@dataclass(slots=True, kw_only=True)
class DaemonJobs:
    """Each method is one job, in a thread of its own. ``wiring`` is the one in force at the moment.

    ``hasten`` lets a name of the timetable be due at once.
    """

    store: SqlStore
    clock: Clock
    runner: Runner
    ticker: Ticker
    upkeep: Housekeeping
    loops: DeliveryLoops
    wiring: Callable[[], Wiring]
    leads: Callable[[], bool]
    is_stopping: Callable[[], bool]
    hasten: Callable[[str], None]
    staleness: StalenessMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.staleness = StalenessMonitor(alerts=self.store.alerts, clock=self.clock)

    def tick(self, name: str) -> None:
        """Run this comparison's newest slot, unless it was run already, and tell what came of it."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return
        result = self.ticker.tick(watched, wiring.receiver_names)
        if result is None:
            return
        if wiring is not self.wiring():  # a run that began before a reload may have raised alerts of rules that are gone since
            settle_quietly(self.wiring(), self.store, self.clock)
        self.refresh()
        if any(transition.is_announced for transition in result.transitions):
            self.loops.wake()
        self.hasten(f"-fill-{name}")

    def backfill(self, name: str) -> None:
        """Measure relevance that has arrived since for this comparison's runs."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return

        def is_over() -> bool:
            return self.is_stopping() or self.wiring() is not wiring

        if backfill_logged(watched, self.store, self.clock, should_stop=is_over):
            self.refresh()

    def refresh(self) -> None:
        """Show what is stored now, and look what was abandoned and what has gone stale."""
        wiring, leads = self.wiring(), self.leads()
        if self.upkeep.refresh(tuple(wiring.watched), leads=leads, at_work=tuple(self.runner.claims)):
            for name in wiring.watched:
                self.hasten(name)
        if leads and self.staleness.look(wiring.watched.values(), self.upkeep.latest, wiring.receiver_names):
            self.loops.wake()

    def size(self) -> None:
        """Show what the database takes."""
        self.upkeep.size()

    def prune(self) -> None:
        """Delete what is older than the configuration says."""
        self.upkeep.prune(self.wiring().settings.retention)


REFRESH = timedelta(seconds=15)
"""How often what other daemons stored, the outbox and abandoned runs are looked up."""
PRUNING = "-prune"
PRUNE = timedelta(hours=1)
FIRST_PRUNE = timedelta(minutes=5)
"""How long after the start, or after the lead was taken, old rows are first deleted: the first round of runs goes before."""
SIZING = "-size"
BACKFILL = timedelta(minutes=10)
"""How often relevance is looked for that may have arrived since, beside after each run."""
PROBE = timedelta(seconds=10)
"""How often the database is asked whether it works, and how often one that is away at the start is tried."""
TELL = timedelta(seconds=5)
"""How often it is looked whether a receiver has to hear that the database is away."""
WAITING = timedelta(minutes=4)
"""How long a run may wait for a database that comes and goes, beside its deadline and the time to store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something to do when it is due: at each slot of a schedule, or every so often.

    ``limit``: after so long at work it hangs; ``is_bounded``: few of these at a time. ``is_wanted`` is asked when it is due,
    and answers at once: where it says no, the time is passed over. ``first``: how soon it comes the first time, where that is
    not after the time it comes round in.
    """

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta
    is_bounded: bool = False
    is_wanted: Callable[[], bool] = lambda: True
    first: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What tasks call: the first two with the name of a comparison."""

    tick: Callable[[str], object]
    backfill: Callable[[str], object]
    has_news: Callable[[Receiver], bool]
    tell: Callable[[Receiver], object]
    refresh: Callable[[], object]
    prune: Callable[[], object]
    size: Callable[[], object]
    probe: Callable[[], object]
    renew_loops: Callable[[], object]
    open: Callable[[], object]


def tasks_of(wiring: Wiring, calls: Calls, *, has_database: bool, leads: bool) -> Mapping[str, Task]:
    """All that is to be done with this wiring; without a database only what needs none, as a standby only what looks at it."""
    minute = timedelta(minutes=1)
    tasks = {
        f"-tell-{each.name}": Task(
            call=partial(calls.tell, each), when=TELL, limit=5 * minute, is_wanted=partial(calls.has_news, each)
        )
        for each in wiring.receivers
    }
    if not has_database:
        return tasks | {"-open": Task(call=calls.open, when=PROBE, limit=2 * minute)}
    tasks |= {
        "-probe": Task(call=calls.probe, when=PROBE, limit=minute),
        "-refresh": Task(call=calls.refresh, when=REFRESH, limit=2 * minute),
    }
    return tasks | _of_leader(wiring, calls) if leads else tasks


def _of_leader(wiring: Wiring, calls: Calls) -> dict[str, Task]:
    tasks = {
        PRUNING: Task(call=calls.prune, when=PRUNE, limit=6 * PRUNE, first=FIRST_PRUNE),
        SIZING: Task(call=calls.size, when=PRUNE, limit=PRUNE),
        "-loops": Task(call=calls.renew_loops, when=REFRESH, limit=timedelta(minutes=2)),
    }
    for name, watched in wiring.watched.items():
        deadline = watched.comparison.deadline
        run = partial(calls.tick, name)
        tasks[name] = Task(call=run, when=watched.schedule, limit=deadline + STORING + WAITING, is_bounded=True)
        if watched.arms.relevance is not None:
            fill = partial(calls.backfill, name)
            tasks[f"-fill-{name}"] = Task(call=fill, when=BACKFILL, limit=deadline + PRUNE, is_bounded=True)
    return tasks
