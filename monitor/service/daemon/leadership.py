"""Leadership of one daemon among those on a database: acquire and renew the lease, take over, stand down."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from monitor.errors import DatabaseError, MonitorError
from monitor.export import PrometheusPublisher
from monitor.model import Lease, Occupied
from monitor.ports import Clock, Leases
from monitor.service.runner import whoami
from monitor.service.wiring import Wiring, settle
from monitor.storage import SqlStore, open_leases

ANSWER_S = 10.0
"""How long a stop waits for an answer of the database that is under way."""

log = structlog.get_logger(__name__)


def since_boot() -> float:
    """Seconds since the machine started, also those for which it was suspended where the system counts them."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Leadership:
    """Acquires and renews in a thread of its own. ``changed`` is set whenever the lease was won or lost.

    ``lasts``: of the lease; a third of it lies between renewals, a fifteenth between looks of who stands by.
    """

    def __init__(self, leases: Leases, *, lasts: timedelta, boottime: Callable[[], float] = since_boot) -> None:
        self._leases = leases
        self._lasts_s = lasts.total_seconds()
        self._boottime = boottime
        self._lease: Lease | None = None
        self._leader: Lease | Occupied | None = None
        self._sure_until = boottime()
        self._trouble: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.changed = threading.Event()

    @property
    def lease(self) -> Lease | None:
        """The lease as far as is known; None as a standby."""
        return self._lease

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can have taken the lease: it was renewed within its time. To be asked before anything is sent."""
        return self._lease is not None and self._boottime() < self._sure_until

    @property
    def epoch(self) -> int | None:
        """Epoch of whoever leads, as last seen; None before anything was seen."""
        return self._leader.epoch if self._leader else None

    @property
    def trouble(self) -> str | None:
        """Why the lease could not be taken, renewed or looked at the last time; None when it could."""
        return self._trouble

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def describe(self) -> str | None:
        """For people, on which daemon they look at a standby; None on the leader."""
        if self._lease is not None:
            return None
        leader = (
            f"{self._leader.holder} (host:process) leads under epoch {self._leader.epoch}" if self._leader else "nobody leads"
        )
        return f"This daemon stands by: {leader}."

    def start(self) -> None:
        """Try once, then go on by itself; nothing where it does already.

        DatabaseError when it is not to be had: another daemon has the SQLite file.
        """
        if self._thread is not None:
            return
        try:
            self._advance()
        except DatabaseError as error:
            if error.permanent:
                raise
            self._note(error)
        self._thread = threading.Thread(target=self._loop, name="leadership", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the lease back, so that another daemon takes it at once, and close. May be called twice, and without a start."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(ANSWER_S)
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._leases.release(lease)
            except DatabaseError as error:
                log.warning("lease not given back; it is free when it runs out", reason=str(error))
        self._leases.close()

    def _loop(self) -> None:
        rest_s = 0.0
        while not self._stop.wait(rest_s):
            rest_s = self.step()

    def step(self) -> float:
        """Renew the lease, or take it if it is free; seconds to rest until the next step."""
        try:
            return self._advance()
        except DatabaseError as error:
            self._note(error)
        except Exception:
            log.exception("lease not looked at; it goes on")
        return self._lasts_s / 15

    def _advance(self) -> float:
        began = self._boottime()
        rest_s = self._acquire(began) if self._lease is None else self._renew(self._lease, began)
        self._trouble = None
        return rest_s

    def _acquire(self, began: float) -> float:
        before, self._leader = self._leader, self._leases.acquire()
        if isinstance(self._leader, Occupied):
            if before is None or before.epoch != self._leader.epoch:
                log.info("standing by", leader=self._leader.holder, epoch=self._leader.epoch)
            return min(self._lasts_s / 15, max(self._leader.free_in_s, 0.01))
        log.info("leading", epoch=self._leader.epoch, before=self._leader.before)
        self._sure_until = began + self._lasts_s
        self._lease = self._leader
        self.changed.set()
        return self._lasts_s / 3

    def _renew(self, lease: Lease, began: float) -> float:
        if self._leases.renew(lease):
            self._sure_until = began + self._lasts_s
            return self._lasts_s / 3
        log.warning("lease lost: another daemon has taken it", epoch=lease.epoch)
        self._lease = None
        self.changed.set()
        return 0.0

    def _note(self, error: DatabaseError) -> None:
        if str(error) != self._trouble:
            log.warning("lease not renewed" if self._lease else "lease not taken", reason=str(error))
        self._trouble = str(error)


AGAIN_S = 2.0
"""How long after a failure it is tried again."""


@dataclass(slots=True, kw_only=True)
class LeaseFollower:
    """Calls ``act`` each time ``changed`` is set, and again until it succeeds. Apart, so that renewing never waits for it."""

    changed: threading.Event
    act: Callable[[], None]
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name="follow-lease", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, waiting at most so long for what is under way."""
        self._stop.set()
        self.changed.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while True:
            self.changed.wait()
            self.changed.clear()
            if self._stop.is_set():
                return
            try:
                self.act()
            except MonitorError as error:
                log.warning("change of leader not followed yet", reason=str(error), again_in_s=AGAIN_S)
                self._again()
            except Exception:
                log.exception("change of leader not followed yet", again_in_s=AGAIN_S)
                self._again()

    def _again(self) -> None:
        self._stop.wait(AGAIN_S)
        self.changed.set()


class Leading:
    """Holds the lease, and lets the store write while it does. ``on_change`` is called when it was won or lost."""

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        publisher: PrometheusPublisher,
        *,
        lasts: timedelta,
        on_change: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._publisher, self._lasts = store, clock, publisher, lasts
        self._led: Lease | None = None
        self.leadership = Leadership(open_leases(store.database.url, holder=whoami(), lasts=lasts), lasts=lasts)
        self._follower = LeaseFollower(changed=self.leadership.changed, act=on_change)
        store.maintenance.stand_by()
        publisher.led_by(lambda: (self.leadership.is_sure, self.leadership.epoch))

    @property
    def leads(self) -> bool:
        """Whether the store may write: as far as is known nobody else leads."""
        return self._led is not None

    def is_sure(self) -> bool:
        """Whether nobody else can lead at this moment."""
        return self.leadership.is_sure

    def begin(self, wiring: Wiring) -> None:
        """Try to win the lease, and lead if it was won; may be called again where the database failed."""
        self.leadership.start()
        self.follow(wiring)

    def watch(self) -> None:
        """Call ``on_change`` from now on."""
        self._follower.start()

    def stop_watching(self, timeout_s: float) -> None:
        """Call ``on_change`` no more; the lease is kept until `stop`."""
        self._follower.stop(timeout_s)

    def follow(self, wiring: Wiring) -> bool:
        """Stand down if the lease was lost, lead if it was won; False when there was nothing to do."""
        lease = self.leadership.lease
        if lease == self._led:
            return False
        if self._led is not None:
            log.warning("standing down: runs under way are given up", epoch=self._led.epoch)
        self._led = None
        self._store.maintenance.stand_by()
        if lease is not None:
            self._lead(lease, wiring)
        return True

    def _lead(self, lease: Lease, wiring: Wiring) -> None:
        """Give up, and count, what an earlier leader left; then settle the store."""
        abandoned = self._store.maintenance.lead(lease, patience=self._lasts, now=self._clock.now())
        for comparison in Counter(abandoned).elements():
            log.warning("run of an earlier leader abandoned", comparison=comparison, leader=lease.before)
            self._publisher.run_abandoned(comparison)
        settle(wiring, self._store, self._clock)
        self._led = lease

    def stop(self) -> None:
        """Give the lease back, so that another daemon takes it at once."""
        self.leadership.stop()

    def unhealthy(self) -> str | None:
        """Why the process ought to be restarted."""
        is_alive = self.leadership.is_alive and self._follower.is_alive
        return None if is_alive else "what keeps the lease has stopped"
