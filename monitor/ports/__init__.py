"""Protocols that the pipeline and the service use. The docstrings are the contract.

All instants are aware UTC. Implementations translate vendors' errors to those of `monitor.errors`,
sources to SourceError. Sources need not be closed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, runtime_checkable

from monitor.model.notifications import Message, Treatment
from monitor.model.rankings import (
    AskedUsers,
    ItemWeights,
    Pull,
    RelevanceTable,
    UserBatch,
    UserTable,
)
from monitor.model.runs import JoinRequest, PullRequest, Scores
from monitor.model.unreadable import Unreadable
from monitor.ports.stores import (
    AlertStore,
    History,
    Leases,
    Maintenance,
    Outbox,
    PageStore,
    RunStore,
    Store,
)


class Clock(Protocol):
    """The time, which tests can set."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for durations and deadlines."""


class Receiver(Protocol):
    """A receiver of notifications. Need not be closed. Sending a message twice must be harmless."""

    @property
    def name(self) -> str:
        """Name from the configuration: unique, without secrets, used as label and key."""

    @property
    def treatment(self) -> Treatment:
        """What the receiver needs. Constant."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError if it was not accepted.

        The error is ``permanent`` if it will never be accepted, ``of_message`` if its content is
        the cause, and ``may_be_known`` if it may have arrived.
        """


class DeliveryCounter(Protocol):
    """Counts results of deliveries. Never raises, never blocks on I/O."""

    def count(self, name: str, *labels: str) -> None:
        """Add one to the counter of this name.

        - ``notifications_total`` (receiver, outcome): an attempt.
        - ``delivery_errors_total`` (receiver, cause): a failed attempt.
        - ``watchdog_restarts_total``: a loop that died was replaced.
        """


class Source(Protocol):
    """Provides one arm's lists."""

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users, in any order. No other users, and no user twice.

        Returns within about ``request.timeout_s`` and with bounded memory, whatever the server
        does. A failure for one user is a reason in ``failures``. SourceError only if nothing can be
        read (file or column missing, query refused). Safe to call from several threads.
        """


class Answered(Protocol):
    """Both arms' lists of all users, closed by the caller.

    All users of an arm that cannot be read are ``unavailable``.
    """

    @property
    def asked(self) -> AskedUsers:
        """The users of the run."""

    @property
    def lacks(self) -> Sequence[str]:
        """Sentences about optional inputs that could not be read."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Values that could not be read. May grow until everything is read."""


class JoinedAnswers(Answered, Protocol):
    """Lists that are read into this process."""

    def batches(self, size: int) -> Iterator[UserBatch]:
        """All users, each in one batch of about ``size`` users, in any order.

        SourceError if reading fails.
        """


class Measurer(Protocol):
    """Measures users on the machines with their lists, with numpy and pandas.

    Picklable and pure.
    """

    def measure(self, users: UserBatch) -> bytes:
        """The packed measurement of these users."""

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """The packed measurement of the users of all these parts."""


@runtime_checkable
class RemoteAnswers(Answered, Protocol):
    """Lists that are measured on the machines that have them."""

    def measured(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        """Parts of the measurement, each user once, about ``size`` users at once.

        SourceError if it fails.
        """


class JoinedSource(Protocol):
    """Provides both arms' lists joined by user, for any number of users in bounded memory."""

    def read(self, request: JoinRequest) -> AbstractContextManager[JoinedAnswers | RemoteAnswers]:
        """Start to read. SourceError if the users cannot be read, or there are none."""


class UserSource(Protocol):
    """Provides the users of a panel."""

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users for this slot with these dimensions, each once.

        SourceError if a dimension is missing, or there are no users.
        """


class ItemWeightSource(Protocol):
    """Provides the weights of items."""

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights at this slot.

        SourceError if they cannot be read, or if one is missing, infinite, or not above zero.
        """


class ItemTitleSource(Protocol):
    """Provides the titles of items."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles at this slot of the items that have one. SourceError if they cannot be read."""


class RelevanceSource(Protocol):
    """Provides the items that are relevant for users."""

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """The relevance for this slot. None if nothing has arrived. SourceError if unreadable."""


class ScoreSink(Protocol):
    """Stores all users' scores of each run."""

    def open(
        self,
        slot: datetime,
        metrics: Sequence[str],
        about: Mapping[str, str],
    ) -> AbstractContextManager[Callable[[Scores], object]]:
        """Store the scores of this slot's run, with the facts in ``about``.

        The caller passes each batch of users to the yielded function. At the end the scores replace
        those of an earlier run of the slot. After an exception nothing has changed.
        OutputError if they cannot be written.
        """


class ScoreSpool(Protocol):
    """Holds a run's scores outside of memory until they are stored. For one thread.

    OutputError if they cannot be written or read.
    """

    def add(self, scores: Scores) -> None:
        """Add scores of new users."""

    def batches(self) -> Iterator[Scores]:
        """All scores, users ascending. May be called again.

        Each batch has all metrics, NaN where there is no score.
        """

    def close(self) -> None:
        """Delete the scores. May be called twice."""
