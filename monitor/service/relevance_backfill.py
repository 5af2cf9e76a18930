"""Back-fill of relevance that arrived after the run, for the daemon and for commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import structlog

from monitor.errors import MonitorError
from monitor.model import format_instant
from monitor.pipeline.backfill import BackfilledRun, backfill_relevance
from monitor.ports import Clock, Store
from monitor.service.runner import Watched

log = structlog.get_logger(__name__)


def backfill_runs(
    watched: Watched, store: Store, clock: Clock, *, start: datetime | None = None, end: datetime | None = None
) -> Iterator[BackfilledRun]:
    """The outcome for each run of the comparison that waits for relevance; nothing without a source of it."""
    if watched.arms.relevance is None:
        return
    filling = backfill_relevance(watched.comparison, store, watched.arms.relevance, clock, start=start, end=end)
    while True:
        # Held for one run at a time, so that the next slot need not wait for all of them.
        with watched.in_use:
            filled = next(filling, None)
        if filled is None:
            return
        yield filled


def backfill_logged(watched: Watched, store: Store, clock: Clock, *, should_stop: Callable[[], bool]) -> int:
    """Back-fill what has arrived since, and log it; how many runs have their relevance now."""
    name = watched.comparison.name
    count = 0
    try:
        for filled in backfill_runs(watched, store, clock):
            slot = format_instant(filled.run.slot)
            if filled.trouble is not None:
                log.warning("relevance not measured", comparison=name, slot=slot, reason=filled.trouble)
            elif filled.summaries:
                count += 1
                log.info("relevance measured", comparison=name, slot=slot)
            if should_stop():
                break
    except MonitorError as error:
        log.error("relevance not measured", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
    except Exception:
        log.exception("relevance not measured", comparison=name)
    return count
