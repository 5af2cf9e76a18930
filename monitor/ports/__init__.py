"""What the pipeline and the service ask of the world, as Protocols. The docstrings are the contract of every implementation.

All instants are aware UTC datetimes. Implementations translate their vendor's errors into `monitor.errors` at their edge.
"""

from datetime import datetime
from typing import Protocol

from monitor.model.notifications import Message, Treatment
from monitor.ports.sources import (
    ItemTitleSource,
    ItemWeightSource,
    JoinedAnswers,
    JoinedSource,
    Measurer,
    RelevanceSource,
    RemoteAnswers,
    ScoreSink,
    ScoreSpool,
    Source,
    UserSource,
)
from monitor.ports.stores import AlertStore, History, Leases, Maintenance, Outbox, PageStore, RunStore, Store


class Clock(Protocol):
    """Time from outside, so that a test may hold it."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow; for durations and deadlines."""


class Receiver(Protocol):
    """Somebody who is notified; it holds nothing that would have to be closed.

    Sending the same message twice must be harmless there (same incident, same dedup keys).
    """

    @property
    def name(self) -> str:
        """Name from configuration, unique, free of secrets; a metric label and a key of the outbox."""

    @property
    def treatment(self) -> Treatment:
        """How it wants to be treated; always the same."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError when it was not accepted.

        ``permanent`` if it never will be, ``of_message`` if that is due to its content, ``may_be_known`` if it may have
        arrived all the same.
        """


class DeliveryCounter(Protocol):
    """Counts what became of attempts to deliver. Never raises, never blocks on I/O."""

    def count(self, name: str, *labels: str) -> None:
        """Count an attempt in ``notifications_total`` (receiver, outcome), one that failed in ``delivery_errors_total`` too.

        There the second label is what kept it from arriving. ``watchdog_restarts_total``: a loop that hung or died, and was
        replaced.
        """
