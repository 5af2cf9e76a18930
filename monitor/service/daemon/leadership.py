"""Leadership: of all daemons on a database one leads, runs slots and delivers.

The others stand by until the lease is free.
"""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import structlog

from monitor.errors import DatabaseError, MonitorError
from monitor.export.publisher import PrometheusPublisher
from monitor.model.runs import Lease, Occupied, RunStatus
from monitor.ports import Clock, Leases
from monitor.service.composition import Wiring, reconcile
from monitor.service.daemon.threads import LoopThread
from monitor.service.runner import whoami
from monitor.storage import SqlStore, open_leases

ANSWER_S = 10.0
"""How long a stop waits for an answer of the database that is under way."""
AGAIN_S = 2.0
"""How long after a failed change of role it is tried again."""

log = structlog.get_logger(__name__)


def since_boot() -> float:
    """Seconds since the machine started, with those of suspension where the system counts them."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Leadership:
    """Acquires and renews the lease in a thread of its own.

    Calls ``on_change`` when it was won or lost.

    ``lasts``: of the lease, renewed after a third of it; a standby looks after a fifteenth.
    ``lease``: None as a standby. ``trouble``: why it could not be taken, renewed or looked at the
    last time, None when it could."""

    def __init__(
        self,
        leases: Leases,
        *,
        lasts: timedelta,
        on_change: Callable[[], object] = lambda: None,
        boottime: Callable[[], float] = since_boot,
    ) -> None:
        self._leases, self._on_change = leases, on_change
        self._lasts_s = lasts.total_seconds()
        self._boottime = boottime
        self.lease: Lease | None = None
        self.trouble: str | None = None
        self.loop = LoopThread("leadership", self.step, again_s=self._lasts_s / 15)
        self._leader: Lease | Occupied | None = None
        self._sure_until = boottime()

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can have taken the lease: it was renewed within its time.

        To be asked before anything is sent.
        """
        # A frozen leader is kept from writing by the store's fence; sending has no fence but this.
        return self.lease is not None and self._boottime() < self._sure_until

    @property
    def epoch(self) -> int | None:
        """Epoch of whoever leads, as last seen; None before anything was seen."""
        return self._leader.epoch if self._leader else None

    def describe(self) -> str | None:
        """For people, on which daemon they look at a standby; None on the leader."""
        if self.lease is not None:
            return None
        found = self._leader
        leader = (
            f"{found.holder} (host:process) leads under epoch {found.epoch}"
            if found
            else "nobody leads"
        )
        return f"This daemon stands by: {leader}."

    def start(self) -> None:
        """Try once, then go on by itself; DatabaseError when another daemon has the SQLite file."""
        if self.loop.is_alive:
            return
        try:
            self._advance()
        except DatabaseError as error:
            if error.permanent:
                raise
            self._note(error)
        self.loop.start()

    def stop(self, timeout_s: float = ANSWER_S) -> None:
        """Give the lease back, so that another daemon takes it at once, and close.

        May be called twice, and without a start.
        """
        self.loop.stop(timeout_s)
        lease, self.lease = self.lease, None
        if lease is not None:
            try:
                self._leases.release(lease)
            except DatabaseError as error:
                log.warning("lease not given back; it is free when it runs out", reason=str(error))
        self._leases.close()

    def step(self) -> float:
        """Renew the lease, or take it if it is free; seconds to rest until the next step."""
        try:
            return self._advance()
        except DatabaseError as error:
            self._note(error)
            return self._lasts_s / 15

    def _advance(self) -> float:
        began = self._boottime()
        # Counted from before the statement: the time that the database took to answer has passed
        # already.
        rest_s = self._acquire(began) if self.lease is None else self._renew(self.lease, began)
        self.trouble = None
        return rest_s

    def _acquire(self, began: float) -> float:
        before, self._leader = self._leader, self._leases.acquire()
        if isinstance(self._leader, Occupied):
            if before is None or before.epoch != self._leader.epoch:
                log.info("standing by", leader=self._leader.holder, epoch=self._leader.epoch)
            return min(self._lasts_s / 15, max(self._leader.free_in_s, 0.01))
        log.info("leading", epoch=self._leader.epoch, before=self._leader.before)
        self._sure_until = began + self._lasts_s
        self.lease = self._leader
        self._on_change()
        return self._lasts_s / 3

    def _renew(self, lease: Lease, began: float) -> float:
        # Only the database says that a lease is lost: while it is away runs go on and wait for it,
        # and nothing is sent.
        if self._leases.renew(lease):
            self._sure_until = began + self._lasts_s
            return self._lasts_s / 3
        log.warning("lease lost: another daemon has taken it", epoch=lease.epoch)
        self.lease = None
        self._on_change()
        return 0.0

    def _note(self, error: DatabaseError) -> None:
        if str(error) != self.trouble:
            log.warning("lease not renewed" if self.lease else "lease not taken", reason=str(error))
        self.trouble = str(error)


class DaemonRole:
    """Lets the store write while the lease is held.

    ``on_change`` follows, in its own thread so that renewing never waits.
    """

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        publisher: PrometheusPublisher,
        *,
        lasts: timedelta,
        on_change: Callable[[], object],
    ) -> None:
        self._store, self._clock, self._publisher, self._lasts = store, clock, publisher, lasts
        self._on_change = on_change
        self._led: Lease | None = None
        self.loop = LoopThread("follow-lease", self._step, again_s=AGAIN_S)
        leases = open_leases(store.database.url, holder=whoami(), lasts=lasts)
        self.leadership = Leadership(leases, lasts=lasts, on_change=self.loop.wake)
        store.maintenance.stand_by()
        publisher.show("leader", lambda: self.leadership.is_sure)
        publisher.show("lease_epoch", lambda: self.leadership.epoch)

    @property
    def leads(self) -> bool:
        """Whether the store may write: as far as is known nobody else leads."""
        return self._led is not None

    def follow(self, wiring: Wiring) -> bool:
        """Stand down if the lease was lost, lead if it was won.

        False when there was nothing to do.
        """
        lease = self.leadership.lease
        if lease == self._led:
            return False
        if self._led is not None:
            log.warning("standing down: runs under way are given up", epoch=self._led.epoch)
        self._led = None
        self._store.maintenance.stand_by()
        if lease is None:
            return True
        # Runs of an earlier leader are abandoned first, so that their slots are free.
        abandoned = self._store.maintenance.lead(lease, patience=self._lasts, now=self._clock.now())
        for comparison in Counter(abandoned).elements():
            log.warning(
                "run of an earlier leader abandoned", comparison=comparison, leader=lease.before
            )
            self._publisher.count("runs_total", comparison, RunStatus.ABANDONED)
        reconcile(wiring, self._store, self._clock)
        self._led = lease
        return True

    def unhealthy(self) -> str | None:
        """Why the process ought to be restarted."""
        is_alive = self.leadership.loop.is_alive and self.loop.is_alive
        return None if is_alive else "what keeps the lease has stopped"

    def _step(self) -> float:
        try:
            if self.leadership.lease != self._led:
                self._on_change()
        except MonitorError as error:
            log.warning("change of leader not followed yet", reason=str(error), again_in_s=AGAIN_S)
        return AGAIN_S
