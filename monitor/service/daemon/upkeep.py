"""Upkeep of the database beside runs: publish what waits to be delivered and how much room all takes, prune old rows."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from monitor.errors import DatabaseError
from monitor.export.publisher import PrometheusPublisher
from monitor.ports import Store
from monitor.settings.configuration import RetentionOptions

LATELY = timedelta(hours=1)
"""How long a dead delivery is shown."""

log = structlog.get_logger(__name__)


def show_outbox(store: Store, publisher: PrometheusPublisher, now: datetime) -> None:
    """Publish how many deliveries wait, are held back and were lately given up; DatabaseError when it cannot be read."""
    waiting, held, given_up = store.outbox.pending(now), store.outbox.held(now), store.outbox.given_up(since=now - LATELY)
    publisher.outbox(
        {name: count for name, (count, _) in waiting.items()},
        {name: oldest for name, (_, oldest) in waiting.items()},
        {name: count for name, (count, _) in held.items()},
        given_up,
    )


def publish_sizes(store: Store, publisher: PrometheusPublisher) -> None:
    """Publish how much room the database takes; a failure is logged."""
    try:
        publisher.database_sizes(store.maintenance.sizes())
    except DatabaseError as error:
        log.error("database not measured", reason=str(error))  # noqa: TRY400 - its text says all


def prune_old(store: Store, publisher: PrometheusPublisher, now: datetime, retention: RetentionOptions) -> None:
    """Delete what is older than the retention says, and publish what the rest takes; a failure is logged."""
    try:
        pruned = store.maintenance.prune(retention.cutoffs(now), now=now)
    except DatabaseError as error:
        log.error("old rows not deleted", reason=str(error))  # noqa: TRY400 - its text says all
        return
    if pruned.refused:
        log.warning("old rows not deleted: nothing confirms this machine's clock", reason=pruned.refused)
    else:
        publisher.pruned(pruned, at=now)
    if pruned.rows:
        log.info("old rows deleted", **pruned.rows)
    for reason in pruned.put_off:
        log.warning("old rows put off", reason=reason)
    publish_sizes(store, publisher)
