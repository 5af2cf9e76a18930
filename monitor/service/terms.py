"""A term: what a leading daemon works with, from the taking of the lease to its loss or the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from monitor.errors import DatabaseError
from monitor.export import PrometheusPublisher
from monitor.model import Lease, spell
from monitor.ports import Clock, Receiver
from monitor.service.delivering import DeliveryLoop
from monitor.service.running import Runner
from monitor.service.ticking import Ticker
from monitor.storage import SqlStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """All that is written through its ``store`` is written under the lease, or not at all.

    Each term has its own: a run of an earlier one that still goes on in this process cannot write under the new epoch.
    """

    lease: Lease
    store: SqlStore
    runner: Runner
    ticker: Ticker
    publisher: PrometheusPublisher

    def start_loops(self, receivers: Sequence[Receiver], is_sure: Callable[[], bool]) -> tuple[DeliveryLoop, ...]:
        """Deliver to each of these in a loop of its own while ``is_sure`` says so."""
        loops = tuple(
            DeliveryLoop(
                store=self.store,
                receiver=receiver,
                clock=self.runner.clock,
                publisher=self.publisher,
                owner=self.runner.owner,
                is_sure=is_sure,
            )
            for receiver in receivers
        )
        for loop in loops:
            loop.start()
        return loops

    def end_runs(self, timeout_s: float) -> None:
        """Wait at most so long for the runs to end, and give back the slots of those that have not."""
        ends_at = time.monotonic() + timeout_s
        while self.runner.claims and time.monotonic() < ends_at:
            time.sleep(0.05)
        for claim in list(self.runner.claims.values()):
            log.warning("run given back: it did not end in time", comparison=claim.comparison, slot=spell(claim.slot))
            try:
                self.store.release(claim)
            except DatabaseError as error:
                log.error("slot not given back", comparison=claim.comparison, reason=str(error))  # noqa: TRY400 - its text says all


def begin_term(lease: Lease, store: SqlStore, *, lasts: timedelta, clock: Clock, publisher: PrometheusPublisher) -> Term:
    """Begin to lead: what earlier epochs left half done is given up, and counted, so that it can be done anew."""
    fenced = store.under(lease, patience=lasts)
    for comparison, count in fenced.take_over(lease, clock.now()).items():
        log.warning("runs of an earlier leader abandoned", comparison=comparison, runs=count, leader=lease.before)
        publisher.runs_abandoned(comparison, count)
    runner = Runner(store=fenced, clock=clock, publisher=publisher)
    ticker = Ticker(runner=runner, store=fenced, publisher=publisher, clock=clock)
    return Term(lease=lease, store=fenced, runner=runner, ticker=ticker, publisher=publisher)
