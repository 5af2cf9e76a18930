"""Loops that deliver to real receivers what a store owes them, in real time, as a daemon's do."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from monitor.pipeline.delivery import OutboxSender
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service.clock import SystemClock
from monitor.service.daemon.delivery_loops import DeliveryLoop
from monitor.storage import SqlStore


@contextmanager
def delivering(store: SqlStore, entries: Sequence[Mapping[str, Any]], publisher: Any) -> Iterator[list[DeliveryLoop]]:
    """A loop for each receiver of these entries of ``receivers:``; none goes on once the block has ended."""
    options = [ReceiverOptions.model_validate(entry) for entry in entries]
    told: Mapping[str, Any] = {"outbox": store.outbox, "clock": SystemClock(), "publisher": publisher, "draw": lambda: 0.02}
    loops = [
        DeliveryLoop(sender=OutboxSender(receiver=each, owner=each.name, **told))
        for each in open_receivers(options, external_url="http://rankwatch.test:29108")
    ]
    for loop in loops:
        loop.take_turn()  # the first one sends again what fires: nothing yet
        loop.start()
    yield loops
    for loop in loops:
        loop.thread.ask_to_stop()
    for loop in loops:
        loop.thread.stop(10)
    assert not any(loop.thread.is_alive for loop in loops)
