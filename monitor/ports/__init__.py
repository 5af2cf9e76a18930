"""What the pipeline and the service ask of the world, as Protocols. The docstrings are the contract of every implementation.

All instants are aware UTC datetimes. Implementations translate their vendor's errors into `monitor.errors` at their edge.
"""

from datetime import datetime
from typing import Protocol

from monitor.ports.notification import DeliveryCounter, Receiver
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
