"""What the pipeline and the pages use of the database, as Protocols.

The docstrings are the contract. `monitor.storage` has further methods, which only the service uses.
Every method is one transaction unless its docstring says otherwise. A method that fails raises
DatabaseError and changes nothing. Threads may share these objects, and several processes may use
one database.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model.alerts import AlertState, State, Transition
from monitor.model.explanation import Explanation
from monitor.model.notifications import Briefing, Delivery, FiringSnapshot, Notification, Silence
from monitor.model.pages import (
    IncidentFilter,
    IncidentHistory,
    IncidentStart,
    ReceiverHealth,
    SegmentMeans,
    SeriesKey,
    SeriesPoint,
    UserLists,
    UserRun,
)
from monitor.model.rankings import CoverageRow
from monitor.model.retention import DataKind
from monitor.model.runs import (
    Evidence,
    FinishedRun,
    Histogram,
    KeptLists,
    LatestRun,
    Run,
    Scores,
    Summary,
)


class PageStore(Protocol):
    """Reads data for people: series over runs, single users, incidents. Changes nothing."""

    def neighbours(self, comparison: str, slot: datetime) -> tuple[Run | None, Run | None]:
        """Return the finished runs before and after this slot."""

    def series(
        self,
        series: SeriesKey,
        *,
        alert: str | None,
        since: datetime,
        until: datetime,
        max_points: int,
    ) -> tuple[SeriesPoint, ...]:
        """Return finished runs from ``since`` to ``until``, oldest first.

        Each run has the values that the rule ``alert`` expected. If there are more than
        ``max_points`` runs, only the newest run and one run of each group of neighbouring runs are
        returned. A group's run is one without a mean, if there is one. Otherwise it is the run with
        the lowest mean.
        """

    def histograms(
        self,
        run_ids: Sequence[int],
        metric: str,
        segment: str,
    ) -> Mapping[int, Histogram]:
        """Return the histogram of the segment's scores in each run, by the run's number.

        Runs without a histogram are left out.
        """

    def coverage(self, run_ids: Sequence[int], segment: str) -> Mapping[int, CoverageRow]:
        """Return the coverage of the segment in each run, by the run's number.

        Runs without coverage are left out.
        """

    def segments(
        self,
        comparison: str,
        metric: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[SegmentMeans, ...]:
        """Return the means of every segment in the newest ``runs`` runs with status ok.

        The segments are in the order in which they were stored.
        """

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """Return the mean of each summary of the run, by segment and metric."""

    def explanation(self, run_id: int) -> Explanation | None:
        """Return the explanation of why the run's mean fell, if it is stored."""

    def changes(
        self,
        comparison: str,
        segment: str | None,
        *,
        since: datetime,
        until: datetime,
    ) -> tuple[Transition, ...]:
        """Return the starts and ends of firings in these slots, in the order of storing.

        ``segment`` None selects all segments.
        """

    def user_scores(
        self,
        comparison: str,
        user: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[UserRun, ...]:
        """Return the user's scores in the newest ``runs`` runs, oldest first.

        Runs that did not store the user's scores are left out.
        """

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Return both lists of the user, from the run's evidence or its stored lists.

        Returns None if they are not stored.
        """

    def former_lists(
        self,
        comparison: str,
        user: str,
        slot: datetime,
    ) -> tuple[datetime | None, UserLists | None]:
        """Return the slot of an earlier run, and the user's lists in this run.

        It is the last run with stored lists before this slot and before the current alerts began.
        Both are None if there is no such run, or if the user has no lists in it.
        """

    def incident(self, key: str) -> IncidentHistory:
        """Return the history of the incident with this key.

        If the incident has very many transitions, only the first are returned. The history is empty
        for an unknown key.
        """

    def incidents(
        self,
        wanted: IncidentFilter,
        *,
        is_firing: bool,
        before_number: int | None,
        limit: int,
    ) -> tuple[IncidentStart, ...]:
        """Return the newest incidents that fire, or that have ended, at most ``limit``.

        Only incidents with a number below ``before_number`` are returned.
        """

    def incident_changes(self, keys: Sequence[str]) -> tuple[Transition, ...]:
        """Return the starts and ends of all firings of these incidents, in the order of storing."""


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

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        """Return the newest finished run of each named comparison.

        A run is finished if its status is not ``running``. Runs of slots after ``until`` are
        ignored, because they were stored while a clock was ahead.
        """

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Return stored runs with any status from ``since`` to ``until``, newest slot first."""

    def finished_run(self, run_id: int) -> FinishedRun | None:
        """Return one run with its results, or None if there is no such run.

        If this version cannot read the explanation, it is left out.
        """

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """Return the evidence of one run: first the worst users, then the representative users."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """Return the stored lists of one run, or None. Raises DatabaseError if they are damaged."""

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """Return all users' scores of these metrics in one run. Users ascend by code point.

        Leaves out metrics without stored scores. If no metric is left, there are no users.
        """


class AlertStore(Protocol):
    """Alert states, their transitions, and silences."""

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        """Return alert states, ordered by comparison, alert and segment.

        None selects all comparisons or all states.
        """

    def firing(self) -> tuple[Transition, ...]:
        """Return the transition that started each current firing, oldest first."""

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """Return the newest ``limit`` transitions, in the order of storing."""

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

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence. Returns the silence with its number."""

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """Return the silences that end after this time, oldest first. None selects all silences."""

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now.

        Returns False if there is no such silence, or if it had already ended.
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

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        """Return the explanation, examples and models of the run of this slot, if they are stored.

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

    def deliveries(
        self,
        *,
        receiver: str | None,
        given_up_limit: int,
        limit: int,
    ) -> tuple[Delivery, ...]:
        """Return deliveries to this receiver that were given up, and then deliveries that wait.

        The first group contains the newest ``given_up_limit`` deliveries that were given up or
        dropped. The second group contains the oldest ``limit`` waiting deliveries. Each group
        begins with its oldest delivery. ``receiver`` None selects all receivers.
        """

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        """Return the number of pending deliveries to each receiver, and the oldest age in seconds.

        Receivers without pending deliveries are left out.

        If ``held`` is True, held deliveries are counted instead. Only their starts are counted,
        because a held end hides no alert.
        """

    def receiver_health(self) -> Mapping[str, ReceiverHealth]:
        """Return the last success and the last error of each receiver.

        Only the newest 50,000 outcomes are searched.
        """


class Maintenance(Protocol):
    """The size of the database."""

    def sizes(self, *, refresh: bool = True) -> Mapping[DataKind, int]:
        """Return the bytes on disk of each kind of data.

        Without ``refresh``, the last result is returned, because SQLite must read most of its file
        to measure the sizes.
        """


class Store(Protocol):
    """One database and its ports."""

    @property
    def runs(self) -> RunStore:
        """Runs that wait for relevance."""

    @property
    def history(self) -> History:
        """Results of earlier runs."""

    @property
    def alerts(self) -> AlertStore:
        """Alert states and silences."""

    @property
    def outbox(self) -> Outbox:
        """Deliveries."""

    @property
    def pages(self) -> PageStore:
        """Data for pages."""

    @property
    def maintenance(self) -> Maintenance:
        """Sizes of the data."""
