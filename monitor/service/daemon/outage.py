"""Outages of the database: when one began, by the steady clock, and whether it has ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import structlog

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.ports import Clock, Publisher, Store
from monitor.storage import SqlStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which the database does not work: since when, by both clocks, and what was wrong first."""

    since: datetime
    since_s: float
    reason: str
    trouble: DatabaseTrouble

    @property
    def may_have_cost_runs(self) -> bool:
        """Whether runs that failed meanwhile are worth another attempt; a rejected statement would be rejected again."""
        return self.trouble not in {DatabaseTrouble.OTHER, DatabaseTrouble.SCHEMA}


CALM_S = 60.0
"""How long the database has to work until the next failure is another outage: one that comes and goes is one outage."""


@dataclass(slots=True, kw_only=True)
class OutageMonitor:
    """Gets every error of the database; ``outage`` is the one under way.

    ``answered`` ends an outage: call it after a write that came through, as reading may go on while nothing can be written,
    and once the schema was found to be right.
    """

    clock: Clock
    publisher: Publisher
    outage: Outage | None = None
    failures: int = 0
    _ended: tuple[Outage, float] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, error: DatabaseError) -> None:
        """Record an error; all but a conflict among writers begin an outage, unless one is under way."""
        self.publisher.database_failed(error.trouble)
        if error.trouble is DatabaseTrouble.CONFLICT:
            return
        with self._lock:
            self.failures += 1
            if self.outage is not None:
                return
            again = self.lasting
            fresh = Outage(since=self.clock.now(), since_s=self.clock.monotonic(), reason=str(error), trouble=error.trouble)
            self.outage = replace(fresh, since=again.since, since_s=again.since_s) if again else fresh
        self.publisher.database(is_up=False)
        log.error("database away", reason=str(error))

    @property
    def lasting(self) -> Outage | None:
        """The outage that is under way, or that ended less than CALM_S ago."""
        if self.outage is not None or self._ended is None:
            return self.outage
        ended, at_s = self._ended
        return ended if self.clock.monotonic() - at_s < CALM_S else None

    def answered(self) -> Outage | None:
        """Record that it can be read and written; the outage that this ends, if any."""
        with self._lock:
            before, self.outage = self.outage, None
            if before is not None:
                self._ended = (before, self.clock.monotonic())
        self.publisher.database(is_up=True)
        if before is not None:
            log.info("database back", away_s=round(self.clock.monotonic() - before.since_s, 1))
        return before


OPENING_S = 20.0
"""Longer than the driver takes to give up on a connection."""


def open_in_time(store: SqlStore, database: OutageMonitor) -> bool:
    """Open the database, with our tables if it has none; False when it does not answer, DatabaseError when it rejects us."""
    try:
        BackgroundCall(partial(store.maintenance.prepare, create=True), name="open-database").wait(Deadline.after(OPENING_S))
    except OverdueError:
        database.failed(DatabaseError(f"{store.place} does not answer", permanent=False, trouble=DatabaseTrouble.HUNG))
        store.database.renew()
        return False
    database.answered()
    return True


def look_again(store: Store, database: OutageMonitor) -> Outage | None:
    """Read from the database, and write while it is away; the outage that has ended."""
    is_away, failures = database.outage is not None, database.failures
    try:
        if is_away:
            store.maintenance.probe_write()
        store.maintenance.ping()  # last, as the schema may have changed since the write
    except DatabaseError:
        return None  # recorded where it was raised
    is_newest = database.failures == failures  # what failed after this began says more
    return database.answered() if is_away and is_newest else None
