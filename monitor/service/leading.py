"""Leading: who leads on this database, and what this daemon does first when it is the one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import structlog

from monitor.export import PrometheusPublisher
from monitor.model import Lease
from monitor.ports import Clock
from monitor.service.following import Follower
from monitor.service.leadership import Leadership
from monitor.service.running import whoami
from monitor.service.wiring import Wiring, settle
from monitor.storage import SqlStore, open_leases

log = structlog.get_logger(__name__)


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
        self._follower = Follower(changed=self.leadership.changed, act=on_change)
        store.stand_by()
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
        self._store.stand_by()
        if lease is not None:
            self._lead(lease, wiring)
        return True

    def _lead(self, lease: Lease, wiring: Wiring) -> None:
        """Give up, and count, what an earlier leader left; then settle the store."""
        abandoned = self._store.lead(lease, patience=self._lasts, now=self._clock.now())
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
