"""What the pipeline uses of the database, as Protocols.

The docstrings are the contract. `monitor.storage` has further methods, which the service and the pages
use.
Every method is one transaction unless its docstring says otherwise. A method that fails raises
DatabaseError and changes nothing. Threads may share these objects, and several processes may use
one database.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model.alerts import Transition
from monitor.model.notifications import Briefing, Delivery, FiringSnapshot, Notification
from monitor.model.runs import KeptLists, Run, Scores, Summary


class RunStore(Protocol):
    """Stored runs that wait for relevance."""

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        """Return runs with status ok and stored lists that wait for relevance, oldest first.

        Only runs of this slot or later slots are returned. Runs that are being run again are left
        out.
        """

    def store_relevance(
        self,
        run: Run,
        *,
        summaries: Sequence[Summary],
        scores: Scores | None,
        at: datetime,
    ) -> bool:
        """Add metrics of relevance to a stored run. Replaces the run's results of these metrics.

        A second call only changes the time. If the slot was run again or is being run again,
        returns False and stores nothing.
        """


class History(Protocol):
    """Reads results of earlier runs, for later runs and for people. Changes nothing."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """Return the stored lists of one run, or None. Raises DatabaseError if they are damaged."""

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """Return all users' scores of these metrics in one run. Users ascend by code point.

        Leaves out metrics without stored scores. If no metric is left, there are no users.
        """


class AlertStore(Protocol):
    """Alert states, their transitions, and silences."""

    def firing(self) -> tuple[Transition, ...]:
        """Return the transition that started each current firing, oldest first."""

    def acknowledge(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        author: str,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """Acknowledge the firings of these ``alerts``. Each is an alert's name and a segment.

        The receivers that got their starts are notified. Returns the transitions. Leaves out alerts
        that do not fire, and firings that this author had acknowledged before.
        """

    def resolve(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """End the firings of these ``alerts`` by hand. Each is an alert's name and a segment.

        The receivers that got their starts are notified. Returns the transitions. Leaves out alerts
        that do not fire.
        """


class Outbox(Protocol):
    """Deliveries: one for each announced transition and receiver."""

    def due_receivers(self, receivers: Collection[str], *, now: datetime) -> frozenset[str]:
        """Return which of these receivers have an unclaimed delivery or a repetition that is due.

        Their claim may still select nothing, because other deliveries of the comparison are claimed.
        """

    def claim_deliveries(
        self,
        receiver: str,
        *,
        owner: str,
        now: datetime,
        until: datetime,
        limit: int,
    ) -> tuple[Delivery, ...]:
        """Claim waiting and held deliveries of one comparison to this receiver, oldest first.

        Selects the comparison whose delivery has been due for the longest time. Leaves out
        comparisons for which another process sends to this receiver now. If there are more than
        ``limit`` deliveries, due ones come first. Only one caller gets a delivery, so that no
        delivery overtakes an older delivery of the same alert and segment.
        """

    def firing_snapshot(
        self,
        comparison: str,
        receiver: str,
        changes: Sequence[Transition],
        *,
        now: datetime,
    ) -> FiringSnapshot:
        """Return the current firings, and what the receiver got of them.

        Firings and incidents of ``changes`` are included, even if they have ended.
        """

    def briefing(self, comparison: str, slot: datetime | None) -> Briefing:
        """Return what messages say about the run of this slot, if it is stored.

        If ``slot`` is None, it is the newest finished run.

        These are the explanation, examples, and sentences about the models that changed.
        The examples are one user of each leading group of the explanation. Without an explanation
        they are the two users with the lowest scores.
        """

    def mark_sending(
        self,
        sending: Sequence[Delivery],
        *,
        message_key: str,
        owner: str,
        until: datetime,
    ) -> None:
        """Mark deliveries before they are sent in the message with this key.

        If no outcome is recorded later, the deliveries may have arrived. Extends the owner's claims
        to ``until``.
        """

    def record(self, *notifications: Notification) -> None:
        """Store the outcome of deliveries and update their status.

        A pending delivery is due again at ``next_attempt_at``. If an attempt has the same outcome
        as the attempt before, it adds no row.
        """

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        """Return starts of unacknowledged firings that this receiver must get again now."""

    def schedule_repetition(
        self,
        repeated: Sequence[Delivery],
        *,
        at: datetime,
        message_key: str | None,
    ) -> None:
        """Set the time at which these deliveries are sent again.

        ``message_key`` is the key of a repetition that may have arrived. It is None if no
        repetition may have arrived.
        """

    def delivered(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        """Return the starts of current firings and the recent ends that this receiver got.

        Only ends after ``ended_since`` are returned. Transitions are in the order in which they
        were stored.
        """

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        """Return the number of pending deliveries to each receiver, and the oldest age in seconds.

        Receivers without pending deliveries are left out.

        If ``held`` is True, held deliveries are counted instead. They are not sent now, because of a
        silence for example. Only their starts are counted, because a held end hides no alert.
        """


class Store(Protocol):
    """One database and its ports."""

    @property
    def runs(self) -> RunStore:
        """Runs that wait for relevance."""

    @property
    def history(self) -> History:
        """Results of earlier runs."""
