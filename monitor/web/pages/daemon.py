"""The daemon itself: who leads, what is scheduled, what waits for receivers, the database, the configuration in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.model import DeliveryRecord
from monitor.web.pages.site import Query, Site, Status

_DELIVERIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPage:
    """What the page of the daemon shows."""

    status: Status
    sizes: Mapping[str, int]
    pending: Mapping[str, tuple[int, float]]
    held: Mapping[str, tuple[int, float]]
    deliveries: tuple[DeliveryRecord, ...]
    at: datetime


def read_daemon_page(site: Site, _: Query) -> DaemonPage:
    """The daemon that answers; its fellows have pages of their own."""
    now, outbox = site.clock.now(), site.store.outbox
    return DaemonPage(
        status=site.status(),
        sizes={str(kind): size for kind, size in site.store.maintenance.sizes(anew=False).items()},
        pending=outbox.pending(now),
        held=outbox.held(now),
        deliveries=outbox.deliveries(receiver=None, settled=_DELIVERIES, limit=_DELIVERIES),
        at=now,
    )
