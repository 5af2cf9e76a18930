"""Beginning to lead: opening the lease, and what whoever has won it does first."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import structlog

from monitor.export import PrometheusPublisher
from monitor.model import Lease
from monitor.ports import Clock
from monitor.service.leadership import Leadership
from monitor.service.running import whoami
from monitor.service.wiring import Wiring, settle
from monitor.storage import SqlStore, open_leases

log = structlog.get_logger(__name__)


def make_leadership(store: SqlStore, lasts: timedelta, publisher: PrometheusPublisher) -> Leadership:
    """Who leads on this database, shown by the publisher; until it is told to lead the store writes nothing."""
    store.stand_by()
    leadership = Leadership(open_leases(store.database.url, holder=whoami(), lasts=lasts), lasts=lasts)
    publisher.led_by(lambda: (leadership.is_sure, leadership.epoch))
    return leadership


def lead(lease: Lease, store: SqlStore, wiring: Wiring, clock: Clock, publisher: PrometheusPublisher) -> None:
    """Write under the lease: first give up, and count, what an earlier leader left, then settle the store."""
    abandoned = store.lead(lease, patience=wiring.settings.lease, now=clock.now())
    for comparison in Counter(abandoned).elements():
        log.warning("run of an earlier leader abandoned", comparison=comparison, leader=lease.before)
        publisher.run_abandoned(comparison)
    settle(wiring, store, clock)
