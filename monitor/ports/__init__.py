"""What the pipeline and the service ask of the world, as Protocols.

The docstrings are the contract of every implementation.

All instants are aware UTC. Vendors' errors become those of `monitor.errors` at the edge,
SourceError for sources, which hold nothing that would have to be closed."""

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
    """Time from outside, so that a test may hold it."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow; for durations and deadlines."""


class Receiver(Protocol):
    """Somebody who is notified.

    It holds nothing that would have to be closed. The same message twice must be harmless.
    """

    @property
    def name(self) -> str:
        """Name from configuration, unique, free of secrets.

        A metric label and a key of the outbox.
        """

    @property
    def treatment(self) -> Treatment:
        """How it wants to be treated; always the same."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError when it was not accepted.

        ``permanent`` if it never will be, ``of_message`` if due to its content, ``may_be_known`` if
        it may have arrived."""


class DeliveryCounter(Protocol):
    """Counts what became of attempts to deliver. Never raises, never blocks on I/O."""

    def count(self, name: str, *labels: str) -> None:
        """Count an attempt in ``notifications_total`` (receiver, outcome), one that failed in ``delivery_errors_total`` too.

        There the second label is what kept it from arriving. ``watchdog_restarts_total``: a loop that died was replaced.
        """


class Source(Protocol):
    """Where one arm's lists come from."""

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users, in any order.

        Never a user that was not asked for, never one twice.

        Returns within about ``request.timeout_s`` and with bounded memory, whatever the other side
        does. What goes wrong for one user is a reason in ``failures``; SourceError only when
        nothing can be read at all (file or column missing, query refused). Safe to call from
        several threads."""


class Answered(Protocol):
    """Both arms' lists of everybody, to be closed by who asked.

    Of an arm that cannot be read all are ``unavailable``.
    """

    @property
    def asked(self) -> AskedUsers:
        """Who is asked."""

    @property
    def lacks(self) -> Sequence[str]:
        """Sentences about what a run can do without and could not be read."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """What of the rows could not be read; may grow until all is read."""


class JoinedAnswers(Answered, Protocol):
    """Lists that come here."""

    def batches(self, size: int) -> Iterator[UserBatch]:
        """All users, each in one batch, about ``size`` in each, in any order.

        SourceError when reading fails halfway.
        """


class Measurer(Protocol):
    """What measures users wherever their lists are: it can be pickled, and needs numpy and pandas there. All calls are pure."""

    def measure(self, users: UserBatch) -> bytes:
        """What is found of some users."""

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """What is found of the users of all of these parts together."""


@runtime_checkable
class RemoteAnswers(Answered, Protocol):
    """Lists that stay where they are, and are measured there."""

    def measured(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        """Parts that cover each user once.

        About ``size`` are measured at once. SourceError when that fails halfway.
        """


class JoinedSource(Protocol):
    """Where both arms' lists come from at once, joined by user by whoever holds them: any number of users in bounded memory."""

    def read(self, request: JoinRequest) -> AbstractContextManager[JoinedAnswers | RemoteAnswers]:
        """Begin to read. SourceError when the users cannot be read, or there is not one."""


class UserSource(Protocol):
    """Where the users of a panel come from."""

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users for this slot with these dimensions, each once.

        SourceError for a dimension missing, or not one user.
        """


class ItemWeightSource(Protocol):
    """Where the weights of items come from."""

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights as of this slot.

        SourceError when they cannot be read, or when one is missing, not above zero or infinite.
        """


class ItemTitleSource(Protocol):
    """Where the titles of items come from."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles as of this slot of those of the items that have one, for people to read.

        SourceError when not readable.
        """


class RelevanceSource(Protocol):
    """Where it is known what users found relevant."""

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What is known of this slot's users.

        None when nothing has arrived yet. SourceError when it cannot be read.
        """


class ScoreSink(Protocol):
    """Takes every user's scores, run by run."""

    def open(
        self, slot: datetime, metrics: Sequence[str], about: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[Scores], object]]:
        """Take the scores of this slot's run in these metrics: what is yielded is called with each batch of users.

        At the end they replace, whole, what an earlier run left, with ``about`` beside them; with an exception nothing has
        changed. OutputError when they cannot be written.
        """


class ScoreSpool(Protocol):
    """A run's scores outside of memory until they are stored.

    One thread. OutputError when they cannot be taken or read.
    """

    def add(self, scores: Scores) -> None:
        """Take scores of users who have not come before."""

    def batches(self) -> Iterator[Scores]:
        """All of them by user, ascending, as often as it is called.

        Each batch has all metrics, NaN where there is no score.
        """

    def close(self) -> None:
        """Delete them; may be called twice."""
