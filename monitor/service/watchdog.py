"""Notices by the steady clock what hangs, and begins it anew: a run, the scheduler, a delivery loop, housekeeping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.model import Claim
from monitor.pipeline.deadline import OverdueError, Promise
from monitor.ports import Clock, Publisher, Store
from monitor.service.outage import DatabaseWatch
from monitor.service.running import Runner
from monitor.service.scheduling import Jobs

MARKING_S = 30.0
"""How long the database has to take note of a run that was given up."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """Looks at the jobs. ``look`` waits for nobody: what may take time happens in a thread of its own.

    ``renew_sources`` opens a comparison's sources anew, as the hung run holds the old ones.
    ``renew_store`` lets go of connections that somebody hangs on. ``hasten`` lets a name be due at once.
    """

    jobs: Jobs
    store: Store
    clock: Clock
    publisher: Publisher
    database: DatabaseWatch
    runner: Runner
    renew_sources: Callable[[str], None]
    renew_store: Callable[[], None]
    hasten: Callable[[str], None]
    _rescued: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Begin anew what hangs."""
        for name in set(self.jobs.overdue()) - self._rescued:
            self._rescued.add(name)
            threading.Thread(target=self._rescue, args=(name,), name=f"rescue-{name}", daemon=True).start()
        if self.jobs.is_stuck:
            log.error("scheduler hung; begun anew")
            self.publisher.restarted("scheduler")
            self.jobs.restart()

    def _rescue(self, name: str) -> None:
        """Only at the end may another of this name begin: it would be taken for the hung one."""
        try:
            self.renew_store()
            if name.startswith("-"):
                self._rescue_housekeeping(name)
            else:
                self._rescue_run(name)
        except Exception:
            log.exception("what hung was not put in order", job=name)
        finally:
            self.jobs.forsake(name)
            self._rescued.discard(name)
            self.hasten(name)

    def _rescue_housekeeping(self, name: str) -> None:
        log.error("housekeeping hung; begun anew", job=name)
        self.publisher.restarted("housekeeping")
        if not name.startswith("-tell-"):  # those ask no database
            self.database.failed(DatabaseError("the database does not answer", permanent=False, trouble=DatabaseTrouble.HUNG))

    def _rescue_run(self, name: str) -> None:
        """Free the slot first, so that the hung run can store nothing when it comes back, then the sources."""
        log.error("run hung; given up and begun anew", comparison=name)
        self.publisher.restarted("run")
        for claim in [claim for claim in list(self.runner.claims.values()) if claim.comparison == name]:
            self._abandon(claim)
            self.runner.claims.pop(claim.run_id, None)
        self.renew_sources(name)

    def _abandon(self, claim: Claim) -> None:
        """Mark the run, unless the database is what hangs."""
        reason = "it hung: it had not ended long after its deadline, and was given up"
        marking = Promise(partial(self.store.abandon, claim, reason=reason, at=self.clock.now()), name="abandon-run")
        try:
            if marking.wait(MARKING_S):
                self.publisher.run_abandoned(claim.comparison)
        except (DatabaseError, OverdueError) as error:
            log.warning("hung run not marked; its claim runs out by itself", comparison=claim.comparison, reason=str(error))
