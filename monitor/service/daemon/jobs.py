"""The daemon's jobs: run a comparison's newest slot, back-fill relevance, prune, publish newest runs as they were last read."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count

import structlog

from monitor.export.publisher import PrometheusPublisher
from monitor.model.instants import format_instant
from monitor.model.runs import LatestRun, RunResult, RunStatus, Watermark
from monitor.ports import Clock, Store
from monitor.service.clock import SKEW
from monitor.service.composition import Wiring, reconcile, show_outbox
from monitor.service.daemon.delivery_loops import DeliveryLoops
from monitor.service.daemon.outage import OutageAlert, look_again
from monitor.service.daemon.scheduler import JobPlan
from monitor.service.daemon.slots import SlotChooser, StalenessMonitor
from monitor.service.daemon.threads import took_whole_deadline
from monitor.service.logs import errors_logged
from monitor.service.runner import STORING, Runner, backfill_runs
from monitor.settings.configuration import RetentionOptions

ROUNDS = 20
"""In how many refreshes each comparison is read anew although nothing says that it changed: old runs may have been deleted."""

REFRESH = timedelta(seconds=15)
"""How often what other daemons stored, the outbox and abandoned runs are looked up."""
PRUNE = timedelta(hours=1)
FIRST_PRUNE = timedelta(minutes=5)
"""How long after the start, or after the lead was taken, old rows are first deleted: the first round of runs goes before."""
BACKFILL = timedelta(minutes=10)
"""How often relevance is looked for that may have arrived since, beside after each run."""
PROBE = timedelta(seconds=10)
"""How often the database is asked whether it works, and how often one that is away at the start is tried."""
NOTIFY = timedelta(seconds=5)
"""How often receivers are notified of an outage of the database, where there is anything to send."""
WAITING = timedelta(minutes=4)
"""How long a run may wait for a database that comes and goes, beside its deadline and the time to store it."""
log = structlog.get_logger(__name__)


class LatestRuns:
    """Reads newest runs and publishes them.

    Safe to share between threads; no lock is held while the database is read.
    """

    def __init__(self, store: Store, publisher: PrometheusPublisher, clock: Clock) -> None:
        self._store, self._publisher, self._clock = store, publisher, clock
        self._lock = threading.Lock()
        self._reads, self._refreshes = count(), count()
        self._names: tuple[str, ...] = ()
        self._seen: Watermark | None = None
        self.read_at: datetime | None = None  # when all of them were last read; None before
        self._found: dict[str, tuple[int, LatestRun | None]] = {}

    @property
    def all(self) -> tuple[LatestRun, ...] | None:
        """Those of all comparisons that have one, from memory; None before they were first read."""
        return (
            None
            if self._seen is None
            else tuple(found for name in self._names if (found := self.of(name)) is not None)
        )

    def of(self, name: str) -> LatestRun | None:
        """That of one comparison, from memory."""
        return self._found.get(name, (0, None))[1]

    def read(self, name: str) -> None:
        """Read and publish one comparison, of which something was stored.

        DatabaseError when it cannot be read.
        """
        if self._seen is None:
            self.refresh(self._names)
        else:
            self._read((name,))

    def refresh(self, names: Sequence[str]) -> None:
        """Read what others have stored of these comparisons, and publish these alone.

        DatabaseError when it cannot be read.
        """
        began = self._clock.now()
        self._names = tuple(names)
        # What was read meanwhile, after a run of this daemon's own, is not read again.
        marks = {name: found.run.mark for name in names if (found := self.of(name)) is not None}
        before = Watermark(runs=marks, transition=self._seen.transition if self._seen else 0)
        changed, seen = self._store.history.changes(names, before, until=self._clock.now() + SKEW)
        unread = (name for name in names if name not in self._found)
        self._read({*changed, *unread, *names[next(self._refreshes) % ROUNDS :: ROUNDS]})
        self._seen, self.read_at = seen, began

    def _read(self, wanted: Collection[str]) -> None:
        ticket = next(self._reads)
        found = (
            self._store.history.latest(tuple(wanted), until=self._clock.now() + SKEW)
            if wanted
            else ()
        )
        by_name = {each.run.comparison: each for each in found}
        with self._lock:
            for name in wanted:
                read_at, before = self._found.get(name, (-1, None))
                # Of two that read at the same time the one that began later knows more.
                if ticket > read_at:
                    after = by_name.get(name)
                    self._found[name] = ticket, (before if before == after else after)
            self._found = {name: self._found[name] for name in self._names if name in self._found}
            self._publisher.publish([run for _, run in self._found.values() if run is not None])


@dataclass(slots=True, kw_only=True)
class DaemonJobs:
    """Each method is one job, in a thread of its own.

    Errors are logged, those of a defect by the scheduler.
    """

    publisher: PrometheusPublisher
    runner: Runner
    loops: DeliveryLoops
    outage_alert: OutageAlert
    slots: SlotChooser
    wiring: Callable[[], Wiring]  # the one in force at the moment
    leads: Callable[[], bool]
    is_stopping: Callable[[], bool]
    run_now: Callable[[str], None]  # makes a job due at once
    open: Callable[[], object]  # opens a database that was away at the start
    latest: LatestRuns = field(init=False)  # what was last published of the store
    staleness: StalenessMonitor = field(init=False)

    def __post_init__(self) -> None:
        away_s_since = self.outage_alert.database.away_s_since
        self.staleness = StalenessMonitor(
            alerts=self.runner.store.alerts, clock=self.runner.clock, away_s_since=away_s_since
        )
        self.latest = LatestRuns(self.runner.store, self.publisher, self.runner.clock)

    def plans(self, *, has_database: bool) -> Mapping[str, JobPlan]:
        """Jobs by comparison, or with a dash in front housekeeping.

        Fewer without a database, and as a standby.
        """
        minute = timedelta(minutes=1)
        plans = {
            f"-notify-{each.name}": JobPlan(
                call=partial(self.outage_alert.notify, each), when=NOTIFY, limit=5 * minute
            )
            for each in self.wiring().receivers
        }
        if not has_database:
            return plans | {"-open": JobPlan(call=self.open, when=PROBE, limit=2 * minute)}
        plans |= {
            "-probe": JobPlan(call=self.probe, when=PROBE, limit=minute),
            "-refresh": JobPlan(call=self.refresh, when=REFRESH, limit=2 * minute),
        }
        return plans | self._plans_of_leader() if self.leads() else plans

    def _plans_of_leader(self) -> dict[str, JobPlan]:
        plans = {
            "-prune": JobPlan(call=self.prune, when=PRUNE, limit=6 * PRUNE, first=FIRST_PRUNE),
            "-size": JobPlan(
                call=partial(publish_sizes, self.runner.store, self.publisher),
                when=PRUNE,
                limit=PRUNE,
                first=timedelta(0),
            ),
            "-loops": JobPlan(
                call=self.loops.renew_stalled, when=REFRESH, limit=timedelta(minutes=2)
            ),
        }
        for name, watched in self.wiring().watched.items():
            deadline = watched.comparison.measuring.deadline
            run = partial(self.run_slot, name)
            plans[name] = JobPlan(
                call=run,
                when=watched.schedule,
                limit=deadline + STORING + WAITING,
                is_run=True,
                has_hung=partial(self._has_hung, name, deadline),
                slow_after=deadline / 2,
            )
            if watched.arms.relevance is not None:
                backfill = partial(self.backfill, name)
                plans[f"-backfill-{name}"] = JobPlan(
                    call=backfill,
                    when=BACKFILL,
                    limit=deadline + PRUNE,
                    is_run=True,
                    slow_after=deadline / 2,
                )
        return plans

    def _has_hung(self, name: str, deadline: timedelta) -> bool:
        newest = self.latest.of(name)
        return newest is not None and took_whole_deadline(newest.run, deadline)

    def run_slot(self, name: str) -> None:
        """Run this comparison's newest slot, unless it was run already, here or elsewhere."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return
        if not watched.schedule.is_open(now := self.runner.clock.now()):
            log.info(
                "no run begins outside of only_between",
                comparison=name,
                next=format_instant(watched.schedule.next(now)),
            )
            return
        result = None
        with errors_logged("run not done", comparison=name):
            choice = self.slots.choose(watched)
            result = self.runner.run(
                watched, choice.slot, receivers=wiring.receiver_names, rerun=choice.is_rerun
            )
        if result is not None:
            for reason, count in choice.skipped.items():
                self.publisher.count("slots_skipped_total", name, reason, value=count)
            self._follow_up(name, result, wiring)

    def _follow_up(self, name: str, result: RunResult, wiring: Wiring) -> None:
        if wiring is not self.wiring():
            # A run that began before a reload may have raised alerts of rules that were removed
            # since.
            with errors_logged("alerts of removed rules not ended"):
                reconcile(self.wiring(), self.runner.store, self.runner.clock)
        self._show(name)
        if any(transition.is_announced for transition in result.transitions):
            self.loops.wake()
        self.run_now(f"-backfill-{name}")
        if result.status is not RunStatus.OK:
            self.run_now("-refresh")  # it may be stale now

    def backfill(self, name: str) -> None:
        """Measure relevance that has arrived since for this comparison's runs."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return
        measured = 0
        with errors_logged("relevance not measured", comparison=name):
            for filled in backfill_runs(watched, self.runner.store, self.runner.clock):
                slot = format_instant(filled.run.slot)
                if filled.trouble is not None:
                    log.warning(
                        "relevance not measured", comparison=name, slot=slot, reason=filled.trouble
                    )
                elif filled.summaries:
                    measured += 1
                    log.info("relevance measured", comparison=name, slot=slot)
                if self.is_stopping() or self.wiring() is not wiring:
                    break
        if measured:
            self._show(name)

    def _show(self, name: str) -> None:
        """Publish what is stored of this comparison now.

        What changes for all of them has its own pace.
        """
        with errors_logged("database not read"):
            self.latest.read(name)

    def probe(self) -> None:
        """See whether the database works.

        Once it is back, refresh at once, and run what may have failed meanwhile.
        """
        ended = look_again(self.runner.store, self.outage_alert.database)
        if ended is not None:
            self.run_now("-refresh")
        if ended is not None and ended.may_have_cost_runs:
            for name in self.wiring().watched:
                self.run_now(name)

    def refresh(self) -> None:
        """Publish what others stored, and the outbox; abandon expired runs and judge staleness."""
        # Both are read once: a reload or a change of leader may come between.
        wiring, leads, store, now = (
            self.wiring(),
            self.leads(),
            self.runner.store,
            self.runner.clock.now(),
        )
        abandoned = 0
        with errors_logged("database not read"):
            # Runs at work here are spared: only a clock that jumped can have them expire.
            abandoned = (
                store.runs.abandon_expired(now, sparing=tuple(self.runner.claims)) if leads else 0
            )
            show_outbox(store, self.publisher, now)
            self.latest.refresh(
                tuple(wiring.watched)
            )  # last: what is published is taken for the present
        for name in wiring.watched if abandoned else ():
            self.run_now(name)
        latest = [found for name in wiring.watched if (found := self.latest.of(name)) is not None]
        for name in (
            self.staleness.look(wiring.watched.values(), latest, wiring.receiver_names)
            if leads
            else ()
        ):
            self.loops.wake()
            self._show(name)

    def prune(self) -> None:
        """Delete what is older than the configuration says."""
        prune_old(
            self.runner.store,
            self.publisher,
            self.runner.clock.now(),
            self.wiring().settings.retention,
        )


def publish_sizes(store: Store, publisher: PrometheusPublisher) -> None:
    """Publish how much room the database takes; a failure is logged."""
    with errors_logged("database not measured"):
        publisher.database_sizes(store.maintenance.sizes())


def prune_old(
    store: Store, publisher: PrometheusPublisher, now: datetime, retention: RetentionOptions
) -> None:
    """Delete what is older than the retention says, and publish what the rest takes.

    A failure is logged.
    """
    with errors_logged("old rows not deleted"):
        pruned = store.maintenance.prune(retention.cutoffs(now), now=now)
        if pruned.refused:
            log.warning(
                "old rows not deleted: nothing confirms this machine's clock", reason=pruned.refused
            )
        else:
            publisher.pruned(pruned, at=now)
        if pruned.rows:
            log.info("old rows deleted", **pruned.rows)
        for reason in pruned.put_off:
            log.warning("old rows put off", reason=reason)
        publish_sizes(store, publisher)
