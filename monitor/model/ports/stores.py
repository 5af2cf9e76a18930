"""The database as Protocols: runs, history, alerts, outbox, pages, maintenance.

The docstrings are the contract. Every method is one transaction unless its docstring says
otherwise. A method that fails raises DatabaseError and changes nothing. Threads may share these
objects, and several processes may use one database.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model.alerts import AlertState, State, Transition
from monitor.model.explanation import Explanation
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.notifications import Briefing, Delivery, FiringSnapshot, Notification, Silence
from monitor.model.pages import (
    IncidentFilter,
    IncidentHistory,
    IncidentStart,
    ReceiverRecord,
    SegmentMeans,
    SeriesKey,
    SeriesPoint,
    UserLists,
    UserRun,
)
from monitor.model.rankings import CoverageRow
from monitor.model.retention import Cutoffs, DataKind, Pruned
from monitor.model.runs import (
    Claim,
    Evidence,
    Histogram,
    KeptLists,
    LatestRun,
    Lease,
    Occupied,
    Run,
    RunRecord,
    RunResult,
    Scores,
    Summary,
    Watermark,
)


class Closable(Protocol):
    """Has connections, files or threads."""

    def close(self) -> None:
        """Close the connections, files or threads. May be called twice."""


class PageStore(Protocol):
    """Reads data for people: series over runs, single users, incidents. Changes nothing."""

    def neighbours(
        self, comparison: str, slot: datetime
    ) -> tuple[datetime | None, datetime | None]:
        """The slots of the finished runs before and after this run."""

    def series(
        self,
        series: SeriesKey,
        *,
        alert: str | None,
        since: datetime,
        until: datetime,
        most: int,
    ) -> tuple[SeriesPoint, ...]:
        """Finished runs of these slots, oldest first, with the values that rule ``alert`` expected.

        If there are more than ``most`` runs, selects the newest run, and one run of each group of
        neighbouring runs: a failed run, or else the run with the lowest mean.
        """

    def histograms(
        self,
        run_ids: Sequence[int],
        metric: str,
        segment: str,
    ) -> Mapping[int, Histogram]:
        """The histogram of the segment's scores for each run that has one, by the run's number."""

    def coverage(self, run_ids: Sequence[int], segment: str) -> Mapping[int, CoverageRow]:
        """The coverage of the segment for each run that has one, by the run's number."""

    def segments(
        self,
        comparison: str,
        metric: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[SegmentMeans, ...]:
        """The means of every segment in the newest ``runs`` runs with status ok.

        The segments are in the order in which they were stored.
        """

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """The mean of each summary of the run, by segment and metric."""

    def explanation(self, run_id: int) -> Explanation | None:
        """The explanation why the run's mean fell, if it is stored."""

    def changes(
        self,
        comparison: str,
        segment: str | None,
        *,
        since: datetime,
        until: datetime,
    ) -> tuple[Transition, ...]:
        """The starts and ends of firings from ``since`` to ``until``, in the order of storing.

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
        """The user's scores in the newest ``runs`` runs, oldest first.

        Runs that did not store the user's scores are left out.
        """

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Both lists of the user, from the run's evidence or its stored lists.

        None if they are not stored.
        """

    def former_lists(
        self,
        comparison: str,
        user: str,
        slot: datetime,
    ) -> tuple[datetime | None, UserLists | None]:
        """The user's lists and their slot, in the last run with stored lists before this slot.

        The run is older than the alerts that still fire.
        """

    def incident(self, key: str) -> IncidentHistory:
        """The incident or firing with this key. If it has very many transitions, only the first.

        Empty for an unknown key.
        """

    def incidents(
        self,
        wanted: IncidentFilter,
        *,
        is_firing: bool,
        before_number: int | None,
        limit: int,
    ) -> tuple[IncidentStart, ...]:
        """The newest ``limit`` incidents with a lower number that fire, or that have ended."""

    def incident_changes(self, keys: Sequence[str]) -> tuple[Transition, ...]:
        """The starts and ends of every firing of these incidents, in the order of storing."""


class Leases(Closable, Protocol):
    """The right to lead, for one of the daemons that share a database. Use it from one thread.

    After a DatabaseError, it is unknown whether the lease is still valid.
    """

    def acquire(self) -> Lease | Occupied:
        """Acquire the lease if it is free, expired or released.

        Only one of several callers gets the lease. The epoch grows by one.
        """

    def renew(self, lease: Lease) -> bool:
        """Extend the lease by its full time, counted from some moment during the call.

        False if another daemon has acquired it.
        """

    def release(self, lease: Lease) -> None:
        """Release the lease for other daemons. Does nothing if another daemon has acquired it."""


class RunStore(Protocol):
    """Claims on slots, and the results of runs."""

    def claim(  # noqa: PLR0913 - a claim needs all of these
        self,
        comparison: str,
        slot: datetime,
        *,
        owner: str,
        now: datetime,
        until: datetime,
        config_hash: str,
        rerun: bool,
    ) -> Claim | None:
        """Claim the slot for one run. Exactly one caller wins. None if it cannot be claimed.

        A slot can be claimed if it was never run, is ``abandoned``, or still ``running`` after its
        ``until``. With ``rerun`` a finished slot can be claimed too. It keeps its results until
        ``finish`` replaces them. The claim's ``has_ok`` says whether these are results of a run
        with status ok. ``attempt`` grows by one.
        """

    def held_claim(self, comparison: str, slot: datetime) -> Claim | None:
        """The claim on the slot, even if it has expired. None if there is no claim."""

    def release(self, claim: Claim) -> None:
        """Give up a claim without having run the slot.

        A first attempt is deleted. A rerun shows its earlier results again.
        """

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> int | None:
        """Store a complete result in one transaction, and return the run's number.

        - Replaces the result of an earlier attempt for the slot. If the claim keeps the earlier
          attempt, that attempt keeps the claim's number, and this run gets a new number.
        - Stores one pending delivery for each start of a firing and each of ``receivers``. If a
          receiver has no delivery of an older firing, it gets one too. Ends are delivered to the
          receivers that have a delivery of the start.
        - Writes a state only if two conditions are met. The stored ``judged_slot`` is older. The
          stored state (quiet if there is none) is the one from which the new state follows.
          Transitions of other states are not stored.
        - Deletes stored lists of earlier slots, but not those of runs that wait for relevance.

        A second call changes nothing. If another process has taken over the claim, returns None and
        stores nothing.
        """

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        """Mark runs with expired claims as abandoned, except runs with ids in ``sparing``.

        Returns the number of marked runs.
        """

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        """Runs with status ok and stored lists that wait for relevance, oldest first.

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

    def memory_of(self, request: MemoryRequest) -> Memory:
        """What a run needs from earlier runs.

        Lists only if the request wants them: those of the last run, and those from before the
        alerts that fire. Damaged lists are left out, with a sentence in ``unreadable``.
        """

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        """The newest finished run (ok, insufficient, failed, abandoned) of each named comparison.

        Runs of slots after ``until`` are ignored, as they were stored while a clock was ahead.
        """

    def changes(
        self,
        comparisons: Sequence[str],
        seen: Watermark,
        *,
        until: datetime,
    ) -> tuple[frozenset[str], Watermark]:
        """Comparisons for which `latest` may have changed since ``seen``, and the new watermark.

        Detects newer runs and changes of alerts. Does not detect deletions or labels of older runs.
        """

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Stored runs with any status from ``since`` to ``until``, newest slot first."""

    def run_records(
        self,
        comparison: str,
        *,
        after: datetime | None,
        limit: int,
    ) -> tuple[RunRecord, ...]:
        """The oldest ``limit`` finished runs of later slots with any status, oldest first."""

    def record(self, run_id: int) -> RunRecord | None:
        """One run with its results. None if there is no such run.

        If this version cannot read the explanation, it is left out.
        """

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """The evidence of one run: worst users, then representative users, each by position."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """The stored lists of one run, or None. DatabaseError if they are damaged."""

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """All users' scores of these metrics in one run. Users ascend by code point.

        Leaves out metrics without stored scores. If no metric is left, there are no users.
        """


class AlertStore(Protocol):
    """Alert states, their transitions, and silences."""

    def installation(self, *, create: bool) -> str:
        """The random, permanent id of this database.

        If there is none, it is created with ``create`` True. Otherwise it is empty.
        """

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        """Alert states, by alert and segment. None selects all comparisons or all states."""

    def firing(self) -> tuple[Transition, ...]:
        """The transition that started each current firing, oldest first."""

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """The newest ``limit`` transitions, in the order of storing."""

    def store_states(
        self,
        states: Sequence[AlertState],
        transitions: Sequence[Transition],
        *,
        receivers: Sequence[str],
    ) -> None:
        """Store states that no run judged, with transitions and deliveries. Works like `finish`."""

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """End the states whose rule or comparison was removed, with transitions and deliveries.

        Leaves out a state that has changed since it was read.
        """

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        """Allow ``slot`` to change states that were judged in slots after ``now``.

        This is needed after a clock was set back. Nobody is notified.
        """

    def acknowledge(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        author: str,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """Acknowledge firings (alert, segment). Notifies the receivers that got their starts.

        Returns the transitions. Leaves out alerts that do not fire, and firings that this author
        had acknowledged before.
        """

    def resolve(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """End firings (alert, segment) by hand. Notifies the receivers that got their starts.

        Returns the transitions. Leaves out alerts that do not fire.
        """

    def accept(self, level: Transition) -> Transition:
        """Store that a level is normal, beginning with its slot, as a transition of ACCEPTED.

        If a transition is already stored for the slot, returns that one.
        """

    def undo_acceptance(self, comparison: str, slot: datetime) -> Transition | None:
        """Delete the acceptance of the level that began in this slot. Returns it, or None."""

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence. Returns the silence with its number."""

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """The silences that end after this time, oldest first. None selects all silences."""

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now. Returns False if there is no such silence, or if it has ended."""


class Outbox(Protocol):
    """Deliveries: one for each announced transition and receiver."""

    def claim_deliveries(
        self,
        receiver: str,
        *,
        owner: str,
        now: datetime,
        until: datetime,
        limit: int,
    ) -> tuple[Delivery, ...]:
        """Lease waiting and held deliveries of one comparison to this receiver, oldest first.

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
        """The current firings, and what the receiver got of them.

        This includes the firings and incidents of ``changes``.
        """

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        """The explanation, examples and models of the run of this slot, if they are stored.

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

        If no outcome is recorded later, the deliveries may have arrived. Extends the owner's leases
        to ``until``.
        """

    def record(self, *notifications: Notification) -> None:
        """Store the outcome of deliveries and update their status.

        A pending delivery is due again at ``next_attempt_at``. If an attempt has the same outcome
        as the attempt before, it adds no row.
        """

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        """Starts of unacknowledged firings that this receiver must get again now."""

    def schedule_repetition(
        self,
        repeated: Sequence[Delivery],
        *,
        at: datetime,
        message_key: str | None,
    ) -> None:
        """Set when these deliveries are sent again.

        ``message_key``: the key of the repetition that may have arrived. None if none may have.
        """

    def delivered(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        """The starts of current firings and the recent ends that this receiver got.

        Only ends after ``ended_since`` are returned. The order is that of storing.
        """

    def retry_refused(self, now: datetime, *, receivers: Sequence[str]) -> int:
        """Retry what these receivers refused: starts of current firings, and ends of the last day.

        Returns the number of deliveries that are retried.
        """

    def give_up_removed(self, *, configured: Sequence[str], now: datetime) -> int:
        """Give up deliveries to receivers that are not in ``configured``. Returns their number."""

    def deliveries(
        self,
        *,
        receiver: str | None,
        given_up_limit: int,
        limit: int,
    ) -> tuple[Delivery, ...]:
        """The oldest ``limit`` waiting deliveries to this receiver (to all with None), as stored.

        Before them, oldest first, the newest ``given_up_limit`` that were given up or dropped.
        """

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        """The number of pending or ``held`` deliveries, and the oldest age in seconds, by receiver.

        Of held deliveries only starts are counted, because a held end hides no alert.
        """

    def records(self) -> Mapping[str, ReceiverRecord]:
        """The last success and the last error of each receiver, in the newest 50,000 outcomes."""

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        """By receiver, how many deliveries were given up since then. Omits removed receivers."""


class Maintenance(Protocol):
    """Maintenance of the database: health, size, and deletion of expired data."""

    def ping(self) -> None:
        """Raise DatabaseError if the database does not answer or its schema is wrong."""

    def probe_write(self) -> None:
        """Write and flush a stored value. DatabaseError if the database cannot be written now."""

    def record_outage(self, since: datetime, until: datetime) -> None:
        """Store an outage of the database, or a later end of the same outage. Kept for a week."""

    def away_s_since(self, instant: datetime) -> float:
        """How many seconds the database was away in outages that ended after the instant."""

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        """Delete data of older slots, in many small transactions.

        - Deletes nothing if neither runs nor the server's clock confirm ``now``. ``Pruned.reason``
          says so.
        - Keeps states, and transitions with waiting deliveries.
        - Rolls up past days first. Deletes explanations together with evidence.
        - Deletes stored lists earlier, except the newest lists of each comparison and lists that
          wait for relevance. PostgreSQL deletes scores of whole days only.
        """

    def sizes(self, *, refresh: bool = True) -> Mapping[DataKind, int]:
        """The bytes on disk of each kind of data.

        Without ``refresh`` this is the last result, because SQLite must read most of its file to
        measure.
        """


class Store(Closable, Protocol):
    """One database with its six ports."""

    runs: RunStore
    history: History
    alerts: AlertStore
    outbox: Outbox
    pages: PageStore

    @property
    def maintenance(self) -> Maintenance:
        """The maintenance port."""
