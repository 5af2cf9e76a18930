"""Upkeep beside runs: publish what is stored, abandon expired runs, prune old rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from monitor.errors import DatabaseError
from monitor.model import LatestRun
from monitor.ports import Clock, Publisher, Store
from monitor.service.clock import SKEW
from monitor.settings import RetentionOptions

LATELY = timedelta(hours=1)
"""How long a dead delivery is shown."""

log = structlog.get_logger(__name__)


def show_stored(store: Store, publisher: Publisher, comparisons: tuple[str, ...], now: datetime) -> tuple[LatestRun, ...]:
    """Publish what is stored of these comparisons, and the outbox; DatabaseError when it cannot be read."""
    latest = store.history.latest(comparisons, until=now + SKEW)
    waiting, held, given_up = store.outbox.pending(now), store.outbox.held(now), store.outbox.given_up(since=now - LATELY)
    publisher.publish(latest)  # once all is read: what is published is taken for the present
    publisher.outbox(
        {name: count for name, (count, _) in waiting.items()},
        {name: oldest for name, (_, oldest) in waiting.items()},
        {name: count for name, (count, _) in held.items()},
        given_up,
    )
    return latest


@dataclass(slots=True, kw_only=True)
class Upkeep:
    """Reads and prunes the store. ``latest`` is what was last published; ``has_published``: whether anything was read yet."""

    store: Store
    publisher: Publisher
    clock: Clock
    latest: tuple[LatestRun, ...] = ()
    has_published: bool = False

    def refresh(self, comparisons: tuple[str, ...], *, leads: bool = True, at_work: Collection[int] = ()) -> int:
        """Publish what is stored of these comparisons, by this daemon or another, and the outbox.

        Returns how many expired runs were abandoned: their slots are free again. Runs ``at_work`` here are spared, as only a
        clock that jumped can have them expire. A standby abandons none.
        """
        now = self.clock.now()
        try:
            abandoned = self.store.runs.abandon_expired(now, sparing=at_work) if leads else 0
            self.latest = show_stored(self.store, self.publisher, comparisons, now)
        except DatabaseError as error:
            log.error("database not read", reason=str(error))  # noqa: TRY400 - its text says all
            return 0
        self.has_published = True
        return abandoned

    def size(self) -> None:
        """Publish how much room the database takes."""
        try:
            self.publisher.database_sizes(self.store.maintenance.sizes())
        except DatabaseError as error:
            log.error("database not measured", reason=str(error))  # noqa: TRY400 - its text says all

    def prune(self, retention: RetentionOptions) -> None:
        """Delete what is older than the retention says, and show what the rest takes."""
        now = self.clock.now()
        try:
            pruned = self.store.maintenance.prune(retention.cutoffs(now), now=now)
        except DatabaseError as error:
            log.error("old rows not deleted", reason=str(error))  # noqa: TRY400 - its text says all
            return
        if pruned.refused:
            log.warning("old rows not deleted: nothing confirms this machine's clock", reason=pruned.refused)
        else:
            self.publisher.pruned(pruned, at=now)
        if pruned.rows:
            log.info("old rows deleted", **pruned.rows)
        for reason in pruned.put_off:
            log.warning("old rows put off", reason=reason)
        self.size()
