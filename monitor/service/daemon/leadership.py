"""Leadership. One of the daemons on a database is the leader: it runs slots and delivers messages.

The other daemons are standbys until the lease is free.
"""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from monitor.export.publisher import PrometheusPublisher
from monitor.model.daemon_state import Role, RoleKind
from monitor.model.errors import DatabaseError
from monitor.model.ports import Clock, do_nothing
from monitor.model.runs import Lease, Occupied, RunStatus
from monitor.service.composition import Wiring, adapt_store
from monitor.service.daemon.threads import LoopThread
from monitor.service.runner import process_name
from monitor.storage import SqlStore
from monitor.storage.leases import Leases, open_leases

ANSWER_S = 5.0
"""How long a stop waits for the database to answer."""

log = structlog.get_logger(__name__)


def since_boot() -> float:
    """Return the seconds since the machine started, including suspensions if possible."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Leadership:
    """Acquires and renews the lease in its own thread.

    The thread calls ``on_change`` after it has won or lost the lease. ``lasts`` is the length of
    the lease. The leader renews the lease after a third of this length. A standby tries to take the
    lease after a fifteenth of this length. ``lease`` is None for a standby. ``database_error`` says
    why the last attempt failed, or is None if it succeeded.
    """

    def __init__(
        self,
        leases: Leases,
        *,
        lasts: timedelta,
        on_change: Callable[[], object] = do_nothing,
        boottime: Callable[[], float] = since_boot,
    ) -> None:
        self._leases = leases
        self._on_change = on_change
        self._lasts_s = lasts.total_seconds()
        self._boottime = boottime
        self.lease: Lease | None = None
        self.database_error: str | None = None
        self.loop = LoopThread("leadership", self.step, retry_s=self._lasts_s / 15)
        self._leader: Lease | Occupied | None = None
        self._sure_until = boottime()

    @property
    def is_sure(self) -> bool:
        """Whether this daemon is certainly the leader, because its lease has not expired.

        Check this before you send anything.
        """
        # If a leader was frozen, another daemon may lead now. The store rejects writes of the old
        # leader, but only this check stops its messages.
        return self.lease is not None and self._boottime() < self._sure_until

    @property
    def epoch(self) -> int | None:
        """The epoch of the leader that this daemon saw last. None if it has seen none yet."""
        return None if self._leader is None else self._leader.epoch

    @property
    def role(self) -> Role:
        """The role of this daemon, as pages show it."""
        leader = None if self._leader is None else self._leader.holder
        if self.lease is None:
            kind = RoleKind.STANDBY
        elif self.is_sure:
            kind = RoleKind.LEADER
        else:
            kind = RoleKind.UNSURE
        return Role(kind=kind, leader=leader, epoch=self.epoch)

    def start(self) -> None:
        """Try to take the lease once, and then continue in the thread.

        Raises DatabaseError if another daemon uses the SQLite file.
        """
        if self.loop.is_alive:
            return
        try:
            self._advance()
        except DatabaseError as error:
            if error.permanent:
                raise
            self._remember_error(error)
        self.loop.start()

    def stop(self, timeout_s: float = ANSWER_S) -> None:
        """Release the lease, so that another daemon can take it at once, and close the connection.

        May be called twice, and without a start.
        """
        self.loop.stop(timeout_s)
        lease = self.lease
        self.lease = None
        if lease is not None:
            try:
                self._leases.release(lease)
            except DatabaseError as error:
                log.warning("lease not released; it is free when it expires", reason=str(error))
        self._leases.close()

    def step(self) -> float:
        """Renew the lease, or take it if it is free. Returns the seconds until the next step."""
        try:
            return self._advance()
        except DatabaseError as error:
            self._remember_error(error)
            return self._lasts_s / 15

    def _advance(self) -> float:
        """Do what `step` does, but raise DatabaseError."""
        began = self._boottime()
        # The lease is counted from this moment, before the database gets the statement. So a slow
        # answer never makes this daemon lead for too long.
        if self.lease is None:
            rest_s = self._acquire(began)
        else:
            rest_s = self._renew(self.lease, began)
        self.database_error = None
        return rest_s

    def _acquire(self, began: float) -> float:
        """Take the lease if it is free. Returns the seconds until the next step."""
        before = self._leader
        self._leader = self._leases.acquire()
        if isinstance(self._leader, Occupied):
            if before is None or before.epoch != self._leader.epoch:
                log.info("standing by", leader=self._leader.holder, epoch=self._leader.epoch)
            return min(self._lasts_s / 15, max(self._leader.free_in_s, 0.01))
        log.info("leading", epoch=self._leader.epoch, before=self._leader.last_holder)
        self._sure_until = began + self._lasts_s
        self.lease = self._leader
        self._on_change()
        return self._lasts_s / 3

    def _renew(self, lease: Lease, began: float) -> float:
        """Renew the lease, or note that it is lost. Returns the seconds until the next step."""
        # A lease is lost only if the database says so. While the database does not answer, runs
        # continue, but nothing is sent.
        if self._leases.renew(lease):
            self._sure_until = began + self._lasts_s
            return self._lasts_s / 3
        log.warning("lease lost: another daemon has taken it", epoch=lease.epoch)
        self.lease = None
        self._on_change()
        return 0.0

    def _remember_error(self, error: DatabaseError) -> None:
        """Remember the error as ``database_error``, and log it once."""
        reason = str(error)
        if reason != self.database_error:
            log.warning("lease not renewed" if self.lease else "lease not taken", reason=reason)
        self.database_error = reason


class DaemonRole:
    """Lets the store write only while this daemon has the lease."""

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        publisher: PrometheusPublisher,
        *,
        lasts: timedelta,
        on_change: Callable[[], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._publisher = publisher
        self._lasts = lasts
        self._led: Lease | None = None  # the lease under which the store writes
        leases = open_leases(store.database.url, holder=process_name(), lasts=lasts)
        self.leadership = Leadership(leases, lasts=lasts, on_change=on_change)
        store.maintenance.stand_by()
        publisher.show("leader", self.is_sure)
        publisher.show("lease_epoch", lambda: self.leadership.epoch)

    @property
    def leads(self) -> bool:
        """Whether the store may write, because this daemon is the leader."""
        return self._led is not None

    def is_sure(self) -> bool:
        """Return whether this daemon is certainly the leader."""
        return self.leadership.is_sure

    def follow(self, wiring: Wiring) -> bool:
        """Become the leader if the lease was won, or a standby if it was lost.

        Returns False if nothing changed.
        """
        lease = self.leadership.lease
        if lease == self._led:
            return False
        if self._led is not None:
            log.warning(
                "no longer the leader: the results of present runs are dropped",
                epoch=self._led.epoch,
            )
        self._led = None
        self._store.maintenance.stand_by()
        if lease is None:
            return True
        # First abandon the runs of an earlier leader, so that their slots are free.
        abandoned = self._store.maintenance.lead(lease, patience=self._lasts, now=self._clock.now())
        for comparison, count in abandoned.items():
            log.warning(
                "runs of an earlier leader abandoned",
                comparison=comparison,
                runs=count,
                leader=lease.last_holder,
            )
            self._publisher.count("runs_total", comparison, RunStatus.ABANDONED, value=count)
        adapt_store(wiring, self._store, self._clock)
        self._led = lease
        return True

    def unhealthy(self) -> str | None:
        """Return why the process must be restarted, or None."""
        if self.leadership.loop.is_alive:
            return None
        return "the thread that renews the lease has stopped"
