"""Whether this daemon leads: takes the lease once it is free, renews it in time, knows when it cannot be sure any more.

Of all daemons on a database one leads: it runs slots and delivers; the others stand by. What keeps a leader that was frozen
from writing is the store's fence; here it is only found out. Only the database says that a lease is lost: while it cannot be
asked, runs go on and wait for it. But nothing is sent while it is not sure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from monitor.errors import DatabaseError
from monitor.model import Lease, Occupied
from monitor.ports import Leases

STOP_S = 10.0
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
            self._thread.join(STOP_S)
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
