"""The watchdog. It checks clocks and jobs twice a second, and restarts jobs that hang."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.export.publisher import PrometheusPublisher
from monitor.model.runs import Claim, RunStatus
from monitor.service.clock import JumpFinder
from monitor.service.daemon.outage import OutageMonitor
from monitor.service.daemon.scheduler import JobScheduler
from monitor.service.daemon.threads import LoopThread
from monitor.service.runner import Runner

LOOK_S = 0.5
SILENT_S = 30.0
"""After this time without a complete look, something outside must restart the process."""
MARKING_S = 30.0
"""The time limit for marking a run as abandoned in the database."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """Checks clocks and jobs in its ``loop``.

    A look never waits. Slow steps run in their own threads.
    """

    jobs: JobScheduler
    publisher: PrometheusPublisher
    database: OutageMonitor
    runner: Runner
    # Reopens the sources of a comparison, because a hung run still uses the old ones.
    renew_sources: Callable[[str], None]
    renew_store: Callable[[], None]  # drops connections that may hang
    _jumps: JumpFinder = field(default_factory=JumpFinder)
    _rescued: set[str] = field(default_factory=set)
    _looked_s: float = field(init=False)
    loop: LoopThread = field(init=False)

    def __post_init__(self) -> None:
        self.loop = LoopThread("watchdog", self.look, again_s=LOOK_S)
        self._looked_s = self.runner.clock.monotonic()

    @property
    def is_looking(self) -> bool:
        """Whether the last complete look was less than SILENT_S ago."""
        return self.runner.clock.monotonic() - self._looked_s < SILENT_S

    def look(self) -> float:
        """Reschedule jobs after a jump of the wall clock, and restart jobs that hang.

        Returns the seconds until the next look.
        """
        # Check the scheduler first. If it hangs, it may hold locks that the next steps need.
        jobs = self.jobs
        if jobs.is_stuck():
            log.error("scheduler hung; restarted")
            self.publisher.count("watchdog_restarts_total", "scheduler")
            jobs.restart()
        jump = self._jumps.look(self.runner.clock.now(), self.runner.clock.monotonic())
        if jump is not None:
            log.warning("clock jumped, or the machine slept", by_s=round(jump.total_seconds(), 1))
            self.publisher.count("clock_jumps_total")
            jobs.follow_clock()
        jobs.begin_repeated()
        jobs.wake_up()
        for name in set(jobs.overdue()) - self._rescued:
            self._rescued.add(name)
            threading.Thread(
                target=self._rescue,
                args=(name,),
                name=f"rescue-{name}",
                daemon=True,
            ).start()
        self._looked_s = self.runner.clock.monotonic()
        return LOOK_S

    def _rescue(self, name: str) -> None:
        try:
            self.renew_store()
            if name.startswith("-"):
                self._rescue_housekeeping(name)
            else:
                self._rescue_run(name)
        except Exception:
            log.exception("hung job may not be restarted properly", job=name)
        finally:
            # Abandon the job last. Otherwise the steps above could mistake a new job for the hung
            # one.
            self.jobs.abandon(name)
            self._rescued.discard(name)
            self.jobs.run_now(name)

    def _rescue_housekeeping(self, name: str) -> None:
        log.error("housekeeping hung; restarted", job=name)
        self.publisher.count("watchdog_restarts_total", "housekeeping")
        if not name.startswith("-notify-"):  # these jobs do not use the database
            self.database.failed(
                DatabaseError(
                    "the database does not answer",
                    permanent=False,
                    trouble=DatabaseTrouble.HUNG,
                )
            )

    def _rescue_run(self, name: str) -> None:
        log.error("run hung; abandoned and restarted", comparison=name)
        self.publisher.count("watchdog_restarts_total", "run")
        # Abandon the slot first, so that the hung run can store nothing if it continues.
        for claim in list(self.runner.claims.values()):
            if claim.comparison == name:
                self._abandon(claim)
                self.runner.claims.pop(claim.run_id, None)
        self.renew_sources(name)

    def _abandon(self, claim: Claim) -> None:
        reason = "the run hung: it did not end long after its deadline, and was abandoned"
        abandon = partial(
            self.runner.store.runs.abandon,
            claim,
            reason=reason,
            at=self.runner.clock.now(),
        )
        marking = BackgroundCall(abandon, name="abandon-run")
        try:
            # The database itself may hang.
            if marking.wait(Deadline.after(MARKING_S)):
                self.publisher.count("runs_total", claim.comparison, RunStatus.ABANDONED)
        except (DatabaseError, OverdueError) as error:
            log.warning(
                "hung run not marked as abandoned; its claim expires",
                comparison=claim.comparison,
                reason=str(error),
            )
