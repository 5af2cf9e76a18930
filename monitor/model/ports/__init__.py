"""Protocols that the pipeline and the service use. The docstrings are the contract.

All instants are aware UTC. Implementations translate vendors' errors to errors of
`monitor.model.errors`. Sources translate them to SourceError. Sources need not be closed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, runtime_checkable

from monitor.model.immutable import immutable
from monitor.model.notifications import Message, Treatment
from monitor.model.ports.stores import (
    AlertStore as AlertStore,
    History as History,
    Outbox as Outbox,
    RunStore as RunStore,
    Store as Store,
)
from monitor.model.rankings import (
    Arm,
    AskedUsers,
    ItemWeights,
    Pull,
    RelevanceTable,
    UserBatch,
    UserSums,
    UserTable,
)
from monitor.model.runs import JoinRequest, PullRequest, Scores
from monitor.model.unpaired import AssignedUsers
from monitor.model.unreadable import Unreadable


def do_nothing(*_: object) -> None:
    """Do nothing: the default of callbacks."""


class Clock(Protocol):
    """Gives the time. Tests can set it."""

    def now(self) -> datetime:
        """Return the time of the wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for durations and deadlines."""


class Receiver(Protocol):
    """A receiver of notifications. It need not be closed. Sending a message twice does no harm."""

    @property
    def name(self) -> str:
        """The name from the configuration. It is unique, has no secrets, and serves as a key."""

    @property
    def treatment(self) -> Treatment:
        """How to treat the receiver. It never changes."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. Raises DeliveryError if the receiver did not accept the message.

        The error is ``permanent`` if the receiver will never accept the message. It is
        ``of_message`` if the message's content is the cause. It is ``may_be_known`` if the message
        may have arrived.
        """


class DeliveryCounter(Protocol):
    """Counts results of deliveries. It never raises, and never waits for I/O."""

    def count(self, name: str, *labels: str) -> None:
        """Add one to the counter of this name.

        - ``notifications_total`` (receiver, outcome) counts attempts.
        - ``delivery_errors_total`` (receiver, cause) counts failed attempts.
        - ``watchdog_restarts_total`` counts loops that died and were replaced.
        """


class Source(Protocol):
    """Provides one arm's lists."""

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users, in any order. No user appears twice.

        Returns within about ``request.timeout_s`` and uses bounded memory, whatever the server
        does. If one user fails, ``failures`` contains the reason. Raises SourceError only if
        nothing can be read, for example because a file or column is missing or a query is refused.
        Several threads may call this method.
        """


class Answered(Protocol):
    """Both arms' lists of all users. The caller closes this object.

    If an arm cannot be read, all its users are ``unavailable``.
    """

    @property
    def asked(self) -> AskedUsers:
        """The users of the run."""

    @property
    def unread_inputs(self) -> Sequence[str]:
        """Sentences about optional inputs that could not be read."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Values that could not be read so far. Further reading may add more values."""


class JoinedAnswers(Answered, Protocol):
    """Lists that are read into this process."""

    def batches(self, size: int) -> Iterator[UserBatch]:
        """Yield all users in batches of about ``size`` users, each user once, in any order.

        Raises SourceError if reading fails.
        """


class Measurer(Protocol):
    """Measures users with numpy and pandas, on the machines that have the users' lists.

    A measurer can be pickled, and has no side effects.
    """

    def measure(self, users: UserBatch) -> bytes:
        """Return the packed measurement of these users."""

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Return the packed measurement of all users in these parts."""


@runtime_checkable
class RemoteAnswers(Answered, Protocol):
    """Lists that are measured on the machines that have them."""

    def measure(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        """Yield parts of the measurement, for about ``size`` users each. Each user is in one part.

        Raises SourceError if the measurement fails.
        """


class JoinedSource(Protocol):
    """Provides both arms' lists, joined by user. Needs bounded memory for any number of users."""

    def read(self, request: JoinRequest) -> AbstractContextManager[JoinedAnswers | RemoteAnswers]:
        """Start to read.

        Raises SourceError if the users cannot be read, or if there are no users.
        """


class UserSource(Protocol):
    """Provides the users of a panel."""

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """Return all users for this slot with these dimensions, each user once.

        Raises SourceError if a dimension is missing, or if there are no users.
        """


class OutcomeSource(Protocol):
    """Provides outcomes of users, such as clicks, from a log."""

    def sums(self, slot: datetime, outcomes: Sequence[str]) -> UserSums:
        """Return the sums of these columns for each user, over the log's rows for this slot.

        Null counts as 0. Raises SourceError if a column is missing, or if it has no numbers.
        """


class AssignmentSource(Protocol):
    """Provides the users of an unpaired comparison that were assigned to each arm."""

    def assigned(self, slot: datetime) -> AssignedUsers:
        """Return the users that were assigned since the test began, up to the slot.

        Raises SourceError if an arm has no user.
        """


@immutable
class LogRows:
    """The rows of a log that a run of an unpaired comparison needs. They are still being read.

    - ``assigned`` gives the users that were assigned to the arms.
    - ``users`` gives the users with a current list, with their segments and their arm.
    - ``lists`` gives the current lists of each arm, and ``before`` the pre-test lists.
    """

    assigned: AssignmentSource
    users: UserSource
    lists: Mapping[Arm, Source]
    before: Source


class LogSource(Protocol):
    """Reads the log of an unpaired comparison. Its parts are read at the same time."""

    def read(self, slot: datetime, dimensions: Sequence[str], timeout_s: float) -> LogRows:
        """Begin to read the rows. ``dimensions`` are the columns with the users' segments."""


class ItemWeightSource(Protocol):
    """Provides the weights of items."""

    def weights(self, slot: datetime) -> ItemWeights:
        """Return the weights at this slot.

        Raises SourceError if they cannot be read, or if a weight is missing, infinite, or not above
        zero.
        """


class ItemTitleSource(Protocol):
    """Provides the titles of items."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Return the titles at this slot. Items without a title are left out.

        Raises SourceError if the titles cannot be read.
        """


class RelevanceSource(Protocol):
    """Provides the items that are relevant for users."""

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """Return the relevance for this slot. Return None before it arrives.

        Raises SourceError if it cannot be read.
        """


class ScoreSink(Protocol):
    """Stores all users' scores of each run."""

    def open(
        self,
        slot: datetime,
        metrics: Sequence[str],
        about: Mapping[str, str],
    ) -> AbstractContextManager[Callable[[Scores], object]]:
        """Store the scores of this slot's run, with the facts in ``about``.

        The caller passes each block of users to the yielded function. At the end the scores replace
        the scores of an earlier run of the slot. After an exception nothing has changed. Raises
        OutputError if the scores cannot be written.
        """


class ScoreSpool(Protocol):
    """Keeps a run's scores on disk until they are stored. Only one thread may use it.

    Raises OutputError if the scores cannot be written or read.
    """

    def add(self, scores: Scores) -> None:
        """Add the scores of further users."""

    def blocks(self) -> Iterator[Scores]:
        """Yield all scores, with ascending users. May be called again.

        Each block has all metrics. A missing score is NaN.
        """

    def close(self) -> None:
        """Delete the scores. May be called twice."""
