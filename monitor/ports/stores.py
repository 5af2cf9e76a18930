"""The database as Protocols: runs, history, alerts, outbox, pages, maintenance.

The docstrings are the contract. Every method is one transaction unless it says otherwise. If it
fails it raises DatabaseError and changes nothing. All are safe to share between threads, and
several processes may use one database.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model.alerts import AlertState, State, Transition
from monitor.model.explanation import Explanation
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.notifications import Briefing, Delivery, FiringSnapshot, Notification, Silence
from monitor.model.pages import (
    FiringChange,
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
        """Release them. May be called twice."""


class PageStore(Protocol):
    """Reads for people: series over runs, single users, incidents. Changes nothing."""

    def neighbours(
        self, comparison: str, slot: datetime
    ) -> tuple[datetime | None, datetime | None]:
        """Slots of the finished runs before and after this one."""

    def series(
        self,
        series: SeriesKey,
        *,
        alert: str | None,
        since: datetime,
        until: datetime,
        most: int,
    ) -> tuple[SeriesPoint, ...]:
        """Finished runs of these slots, oldest first, with what the rule ``alert`` expected.

        If there are more than ``most``: the newest, and of each group of neighbours a failed run or
        the one with the lowest mean.
        """

    def histograms(
        self,
        run_ids: Sequence[int],
        metric: str,
        segment: str,
    ) -> Mapping[int, Histogram]:
        """Histograms of the segment's scores, by number of the run, for runs that have one."""

    def coverage(self, run_ids: Sequence[int], segment: str) -> Mapping[int, CoverageRow]:
        """Coverage of the segment by number of the run, for runs that have it."""

    def segments(
        self,
        comparison: str,
        metric: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[SegmentMeans, ...]:
        """Every segment's means in the newest ok ``runs``, in the order they were stored."""

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """The mean of each summary of the run, by segment and metric."""

    def explanation(self, run_id: int) -> Explanation | None:
        """Why the run's mean fell, if that is stored."""

    def changes(
        self,
        comparison: str,
        segment: str | None,
        *,
        since: datetime,
        until: datetime,
    ) -> tuple[FiringChange, ...]:
        """Starts and ends of firings from ``since`` to ``until``, in the order they were stored.

        Of all segments if ``segment`` is None.
        """

    def user_scores(
        self,
        comparison: str,
        user: str,
        *,
        until: datetime,
        runs: int,
    ) -> tuple[UserRun, ...]:
        """The user's scores in those of the newest ``runs`` that stored them, oldest first."""

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Both lists of the user, from the run's evidence or its stored lists.

        None if not stored.
        """

    def former_lists(
        self,
        comparison: str,
        user: str,
        slot: datetime,
    ) -> tuple[datetime | None, UserLists | None]:
        """The user's lists, and their slot, in the last run before this slot that stored them.

        That is also before the start of the alerts that still fire.
        """

    def incident(self, key: str) -> IncidentHistory:
        """The incident or firing with this key, with the first of very many transitions.

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
        """The newest ``limit`` incidents before this number that fire, or that have ended."""

    def incident_changes(self, keys: Sequence[str]) -> tuple[Transition, ...]:
        """Starts and ends of every firing of these incidents, in the order they were stored."""


class Leases(Closable, Protocol):
    """The right to lead, for one of the daemons that share a database. Called from one thread.

    After a DatabaseError the lease may or may not still be valid.
    """

    def acquire(self) -> Lease | Occupied:
        """Acquire the lease if it is free, expired or released.

        One of several callers gets it, and the epoch grows by one.
        """

    def renew(self, lease: Lease) -> bool:
        """Extend the lease by its full time, from a moment during the call.

        False if another daemon has acquired it.
        """

    def release(self, lease: Lease) -> None:
        """Release the lease for other daemons. Does nothing if another daemon has acquired it."""


class RunStore(Protocol):
    """Claims on slots, and the results of runs."""

    def claim(  # noqa: PLR0913 - a claim is all of this
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

        A slot can be claimed if it was never run, is ``abandoned``, or is ``running`` past its
        ``until``. With ``rerun`` a finished slot can be claimed too. It keeps its results until
        ``finish`` replaces them (``has_ok``: of an ok run). ``attempt`` grows by one.
        """

    def held_claim(self, comparison: str, slot: datetime) -> Claim | None:
        """The claim on the slot, expired or not. None if there is none."""

    def release(self, claim: Claim) -> None:
        """Release a claim without a run.

        A first attempt is deleted. A rerun shows its earlier results again.
        """

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> int | None:
        """Store a complete result in one transaction, and return the run's number.

        - Replaces the result of an earlier attempt for the slot. If the claim keeps the earlier
          attempt, that one keeps the claim's number and this run gets a new number.
        - Stores one pending delivery for each start of a firing and each of ``receivers``, also for
          an older firing that a receiver has no delivery of. Ends are delivered to the receivers
          that have a delivery of the start.
        - Writes a state only if the stored ``judged_slot`` is older and the stored state (quiet if
          there is none) is the one that the state or its transition started from. Leaves out the
          transitions of other states.
        - Deletes stored lists of earlier slots, except of runs that wait for relevance.

        A second call changes nothing. Returns None and stores nothing if another process has taken
        over the claim.
        """

    def abandon(self, claim: Claim, *, reason: str, at: datetime) -> bool:
        """Take the slot from the owner of this claim, which hangs. Its later results are refused.

        A first attempt becomes ``abandoned``. A rerun shows its earlier results.
        False if the claim is no longer valid.
        """

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        """Mark runs with expired claims as abandoned, except ids in ``sparing``.

        Returns how many.
        """

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        """Ok runs from this slot on with stored lists and without relevance, oldest first.

        Leaves out runs that are being run again.
        """

    def store_relevance(
        self,
        run: Run,
        *,
        summaries: Sequence[Summary],
        scores: Scores | None,
        at: datetime,
    ) -> bool:
        """Add metrics of relevance to a stored run. Replaces its results of these metrics.

        A second call only changes the time. Returns False and stores nothing if the run was run
        again, or is being run again.
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
        """Newest finished run (ok, insufficient, failed, abandoned) of each named comparison.

        ``until``: newest slot. It ignores runs that were stored while a clock ran ahead.
        """

    def changes(
        self,
        comparisons: Sequence[str],
        seen: Watermark,
        *,
        until: datetime,
    ) -> tuple[frozenset[str], Watermark]:
        """Comparisons for which `latest` may have changed since ``seen``, and the new watermark.

        Detects newer runs and changes of alerts, but no deletions or labels of older runs.
        """

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Stored runs of any status from ``since`` to ``until``, newest slot first."""

    def run_records(
        self,
        comparison: str,
        *,
        after: datetime | None,
        limit: int,
    ) -> tuple[RunRecord, ...]:
        """The oldest ``limit`` finished runs of later slots, with any status, oldest first."""

    def record(self, run_id: int) -> RunRecord | None:
        """One run with its results, without an explanation that this version cannot read.

        None if there is no such run.
        """

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """Evidence of one run: worst users first, then representative users, each by position."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """The stored lists of one run, or None. DatabaseError if they are damaged."""

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """All users' scores of these metrics in one run, users ascending by code point.

        Leaves out metrics without stored scores. Has no users if no metric is left.
        """


class AlertStore(Protocol):
    """Alert states, their transitions, and silences."""

    def installation(self, *, create: bool) -> str:
        """The random, permanent id of this database.

        Created if there is none and ``create``, else empty.
        """

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        """Alerts of the comparison or of all, in this state or any, by alert and segment."""

    def firing(self) -> tuple[Transition, ...]:
        """The transitions that started all current firings, oldest first."""

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """The newest ``limit`` transitions in the order they were stored."""

    def store_states(
        self,
        states: Sequence[AlertState],
        transitions: Sequence[Transition],
        *,
        receivers: Sequence[str],
    ) -> None:
        """Store states judged outside a run, with transitions and deliveries, as `finish` does."""

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """End states whose rule or comparison was removed, with transitions and deliveries.

        Leaves out a state that has changed since then.
        """

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        """After a clock was set back, let ``slot`` change states judged in slots after ``now``.

        Nobody is notified.
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
        """Acknowledge firings (alert, segment), and notify the receivers of their starts.

        Returns the transitions of alerts that fire and that the author had not acknowledged yet.
        """

    def resolve(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """End firings (alert, segment) by hand, and notify the receivers of their starts.

        Returns the transitions of alerts that did fire.
        """

    def accept(self, level: Transition) -> Transition:
        """Store that a level is normal from its slot on, as a transition of ACCEPTED.

        Returns the transition that is already stored for the slot, if there is one.
        """

    def undo_acceptance(self, comparison: str, slot: datetime) -> Transition | None:
        """Delete the acceptance of the level from this slot on. Returns it, or None."""

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence. Returns it with its number."""

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """Silences that end after this time, or all for None, oldest first."""

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now. False if no silence of that number is left to end."""


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

        It is the comparison whose delivery is due longest, except one that another process delivers
        to this receiver now. If there are more than ``limit``, due deliveries come first. Exactly
        one caller gets a delivery, so that none overtakes an older one of its alert and segment.
        """

    def firing_snapshot(
        self,
        comparison: str,
        receiver: str,
        changes: Sequence[Transition],
        *,
        now: datetime,
    ) -> FiringSnapshot:
        """Current firings, and what the receiver got of them, these changes and their incidents."""

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        """The explanation, examples and models of the run of this slot, as far as they are stored.

        Examples are one user of each leading group of the explanation, else the two users with the
        lowest scores.
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

        If no outcome is recorded, they may have arrived. Extends the owner's leases to ``until``.
        """

    def record(self, *notifications: Notification) -> None:
        """Store the outcome of deliveries and update their status.

        A pending delivery is due again at ``next_attempt_at``. An attempt with the same outcome as
        the one before adds no row.
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
        """Starts of current firings, and ends since then, that this receiver got, as stored."""

    def retry_refused(self, now: datetime, *, receivers: Sequence[str]) -> int:
        """Retry what these receivers refused: starts of current firings, and ends of the last day.

        Returns the number of deliveries.
        """

    def give_up_removed(self, *, configured: Sequence[str], now: datetime) -> int:
        """Give up deliveries to receivers that are not in ``configured``. Returns how many."""

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
        """Pending or ``held`` deliveries by receiver: how many, and the oldest's age in seconds.

        Counts only starts among held deliveries, because held ends hide no alert.
        """

    def records(self) -> Mapping[str, ReceiverRecord]:
        """Each receiver's last success and last error in the newest 50,000 outcomes."""

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        """Deliveries given up since then, by receiver. Receivers that were removed do not count."""


class Maintenance(Protocol):
    """Maintenance of the database: health, size, and deletion of expired data."""

    def ping(self) -> None:
        """DatabaseError if the database does not answer or its schema is wrong."""

    def probe_write(self) -> None:
        """Write and flush a stored value. DatabaseError if the database cannot be written now."""

    def record_outage(self, since: datetime, until: datetime) -> None:
        """Store a time in which the database was away, or a later end of it. Kept for a week."""

    def away_s_since(self, instant: datetime) -> float:
        """How many seconds the database was away in outages that ended after the instant."""

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        """Delete data of older slots, in many small transactions.

        - Refused (``Pruned.reason``) if neither runs nor the server's clock confirm ``now``.
        - Keeps states, and transitions with waiting deliveries.
        - Rolls up past days first. Deletes explanations together with evidence.
        - Deletes stored lists earlier, except each comparison's newest ones and those that wait for
          relevance. Deletes scores by days on PostgreSQL.
        """

    def sizes(self, *, refresh: bool = True) -> Mapping[DataKind, int]:
        """Bytes on disk of each kind of data.

        Without ``refresh`` the last result, because SQLite must read most of its file to measure.
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
