"""The daemon's jobs: run the newest slot of a comparison, back-fill relevance, publish what is stored, prune."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog

from monitor.errors import MonitorError
from monitor.model import RunResult
from monitor.ports import Clock, Publisher
from monitor.service.composition import Wiring, reconcile_logged
from monitor.service.daemon.delivery_loops import DeliveryLoops
from monitor.service.daemon.outage import OutageMonitor, look_again
from monitor.service.daemon.outage_alert import OutageAlert
from monitor.service.daemon.scheduler import JobPlan
from monitor.service.daemon.slot_choice import SlotChooser
from monitor.service.daemon.staleness import StalenessMonitor
from monitor.service.daemon.upkeep import Upkeep
from monitor.service.relevance_backfill import backfill_logged
from monitor.service.runner import STORING, Runner
from monitor.storage import SqlStore

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


@dataclass(slots=True, kw_only=True)
class DaemonJobs:
    """Each method is one job, in a thread of its own. ``wiring`` is the one in force at the moment.

    ``open`` opens a database that was away at the start; ``run_now`` makes a job due at once.
    """

    store: SqlStore
    clock: Clock
    publisher: Publisher
    runner: Runner
    upkeep: Upkeep
    loops: DeliveryLoops
    database: OutageMonitor
    outage_alert: OutageAlert
    slots: SlotChooser
    wiring: Callable[[], Wiring]
    leads: Callable[[], bool]
    is_stopping: Callable[[], bool]
    run_now: Callable[[str], None]
    open: Callable[[], object]
    staleness: StalenessMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.staleness = StalenessMonitor(alerts=self.store.alerts, clock=self.clock)

    def plans(self, *, has_database: bool) -> Mapping[str, JobPlan]:
        """All jobs of this wiring; without a database only those that need none, as a standby only those that read it.

        Names of comparisons stand for their runs; a dash in front marks housekeeping.
        """
        minute = timedelta(minutes=1)
        plans = {
            f"-notify-{each.name}": JobPlan(call=partial(self.outage_alert.notify, each), when=NOTIFY, limit=5 * minute)
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
            "-prune": JobPlan(call=self.prune, when=PRUNE, limit=6 * PRUNE, first=FIRST_PRUNE, is_put_off_by_jump=True),
            "-size": JobPlan(call=self.upkeep.size, when=PRUNE, limit=PRUNE, first=timedelta(0)),
            "-loops": JobPlan(call=self.loops.renew_stalled, when=REFRESH, limit=timedelta(minutes=2)),
        }
        for name, watched in self.wiring().watched.items():
            deadline = watched.comparison.measuring.deadline
            run = partial(self.run_slot, name)
            plans[name] = JobPlan(call=run, when=watched.schedule, limit=deadline + STORING + WAITING, is_run=True)
            if watched.arms.relevance is not None:
                backfill = partial(self.backfill, name)
                plans[f"-backfill-{name}"] = JobPlan(call=backfill, when=BACKFILL, limit=deadline + PRUNE, is_run=True)
        return plans

    def run_slot(self, name: str) -> None:
        """Run this comparison's newest slot, unless it was run already, here or elsewhere. What goes wrong is logged."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return
        try:
            choice = self.slots.choose(watched)
            result = self.runner.run(watched, choice.slot, receivers=wiring.receiver_names, rerun=choice.is_rerun)
        except MonitorError as error:
            log.error("run not done", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
            return
        except Exception:  # a defect in one comparison must cost no other one its slot
            log.exception("run not done", comparison=name)
            return
        if result is not None:
            for reason, count in choice.skipped.items():
                self.publisher.slots_skipped(name, reason, count)
            self._follow_up(name, result, wiring)

    def _follow_up(self, name: str, result: RunResult, wiring: Wiring) -> None:
        if wiring is not self.wiring():
            # A run that began before a reload may have raised alerts of rules that were removed since.
            reconcile_logged(self.wiring(), self.store, self.clock)
        self.refresh()
        if any(transition.is_announced for transition in result.transitions):
            self.loops.wake()
        self.run_now(f"-backfill-{name}")

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

    def probe(self) -> None:
        """See whether the database works; once it is back, refresh at once, and run what may have failed meanwhile."""
        ended = look_again(self.store, self.database)
        if ended is not None:
            self.run_now("-refresh")
        if ended is not None and ended.may_have_cost_runs:
            for name in self.wiring().watched:
                self.run_now(name)

    def refresh(self) -> None:
        """Publish what is stored now; abandon expired runs and judge staleness."""
        # Both are read once: a reload or a change of leader may come between.
        wiring, leads = self.wiring(), self.leads()
        if self.upkeep.refresh(tuple(wiring.watched), leads=leads, at_work=tuple(self.runner.claims)):
            for name in wiring.watched:
                self.run_now(name)
        if leads and self.staleness.look(wiring.watched.values(), self.upkeep.latest, wiring.receiver_names):
            self.loops.wake()

    def prune(self) -> None:
        """Delete what is older than the configuration says."""
        self.upkeep.prune(self.wiring().settings.retention)
