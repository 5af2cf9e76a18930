"""What is stored, cut by who uses it: runs, history, alerts, the outbox, pages, maintenance. Docstrings are the contract.

Every method is one transaction unless it says otherwise; DatabaseError when it cannot be done, and then nothing was changed.
All are safe to share between threads, and several processes may work on one database.
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
    IncidentHistory,
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
    """What holds connections, files or threads."""

    def close(self) -> None:
        """Release what is held; may be called twice."""


class PageStore(Protocol):
    """Series over runs and single users, read for people.

    Changes nothing; DatabaseError when it cannot be read.
    """

    def neighbours(
        self, comparison: str, slot: datetime
    ) -> tuple[datetime | None, datetime | None]:
        """Slots of the finished runs before and after this one."""

    def series(
        self, series: SeriesKey, *, alert: str | None, since: datetime, until: datetime, most: int
    ) -> tuple[SeriesPoint, ...]:
        """Finished runs of these slots, oldest first, with what the rule ``alert`` expected of them.

        Beyond ``most``: the newest, and of each group of neighbours the one that failed or has the lowest mean.
        """

    def histograms(
        self, run_ids: Sequence[int], metric: str, segment: str
    ) -> Mapping[int, Histogram]:
        """How scores of the segment were distributed in each of the runs that has any, by its number."""

    def coverage(self, run_ids: Sequence[int], segment: str) -> Mapping[int, CoverageRow]:
        """Coverage of the segment in each of the runs that has any, by its number."""

    def segments(
        self, comparison: str, metric: str, *, until: datetime, runs: int
    ) -> tuple[SegmentMeans, ...]:
        """Every segment's means in the newest ok ``runs``, in the order in which they were stored."""

    def means(self, run_id: int) -> Mapping[tuple[str, str], float | None]:
        """The mean of each summary of the run, by segment and metric."""

    def explanation(self, run_id: int) -> Explanation | None:
        """Why the run's mean fell, where that is stored."""

    def changes(
        self, comparison: str, segment: str | None, *, since: datetime, until: datetime
    ) -> tuple[FiringChange, ...]:
        """Firings that began or ended from ``since`` to ``until``, of one segment or of all, in the order they were stored."""

    def user_scores(
        self, comparison: str, user: str, *, until: datetime, runs: int
    ) -> tuple[UserRun, ...]:
        """Scores of the user in those of the newest ``runs`` that kept any, oldest first."""

    def user_lists(self, run_id: int, user: str) -> UserLists | None:
        """Both lists of the user in the run, from its evidence or from its kept lists.

        None where they were not kept.
        """

    def former_lists(
        self, comparison: str, user: str, slot: datetime
    ) -> tuple[datetime | None, UserLists | None]:
        """Slot and lists of the last run before this slot, and before the alerts that last, that kept the user's lists."""

    def incident(self, key: str) -> IncidentHistory:
        """What belongs to this incident or firing, of very many transitions the first.

        Empty for an unknown key.
        """


class Leases(Closable, Protocol):
    """The right to lead, for one daemon among those that share a database. Called from one thread.

    DatabaseError when the database cannot be asked: then nothing is known, and what was held may be
    held still."""

    def acquire(self) -> Lease | Occupied:
        """Take it when it is free, ran out, or was given back.

        Of several callers one wins, and the epoch grows by one.
        """

    def renew(self, lease: Lease) -> bool:
        """Hold it for another full time, counted from some moment during the call.

        False once somebody else has taken it.
        """

    def release(self, lease: Lease) -> None:
        """Give it back, so that others need not wait; nothing where somebody else has taken it."""


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
        """Claim the slot for one run; exactly one caller wins. None when it cannot be claimed.

        A slot that was never run, is ``running`` past its ``until`` or ``abandoned`` is claimed,
        and with ``rerun`` a finished one, which keeps its results until ``finish`` replaces them
        (``has_ok``: of an ok run). ``attempt`` grows by one."""

    def held_claim(self, comparison: str, slot: datetime) -> Claim | None:
        """The claim that is held on the slot, expired or not; None where nobody holds one."""

    def release(self, claim: Claim) -> None:
        """Give a claim back unrun: a first attempt is deleted, a rerun shows its earlier results again."""

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> int | None:
        """Store a whole result in one transaction, replacing what an earlier attempt stored for the slot; the run's number.

        Where the claim keeps the earlier attempt, that one keeps its number, which is the claim's, and the run gets a new one.
        Stores one pending delivery for each start of a firing and each of ``receivers``, also of a firing that lasts and that
        a receiver has no delivery of yet; ends are delivered to the receivers that have a delivery of the start. States are
        written only where the stored ``judged_slot`` is older and the stored state (none is quiet) is the one that they, or
        their transition, started from; the transitions of others are left out. Kept lists of earlier slots are deleted, but for
        runs that still wait for relevance. Doing it again changes nothing. None, and nothing is stored, when the claim has been
        taken over meanwhile.
        """

    def abandon(self, claim: Claim, *, reason: str, at: datetime) -> bool:
        """Take a slot from the holder of this claim, who hangs: what he stores later is refused, and the slot is free.

        A first attempt is ``abandoned``, a rerun shows its earlier results. False when the claim is not held any more.
        """

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        """Mark runs whose claim expired as abandoned, but those of the ids in ``sparing``, which the caller runs; how many."""

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        """Ok runs of this slot and later with kept lists that lack relevance, oldest first.

        None that is being run again.
        """

    def store_relevance(
        self, run: Run, *, summaries: Sequence[Summary], scores: Scores | None, at: datetime
    ) -> bool:
        """Add measures of relevance to a stored run, in place of its summaries and scores of the same metrics.

        Doing it again changes nothing but the time. False, and nothing is stored, when the run has been run anew, or is being.
        """


class History(Protocol):
    """What earlier runs left, for later runs and for people. Changes nothing."""

    def memory_of(self, request: MemoryRequest) -> Memory:
        """What a run needs of earlier ones.

        What is stored but damaged is left out and named in ``unreadable``.
        """

    def latest(
        self, comparisons: Sequence[str], *, until: datetime | None = None
    ) -> tuple[LatestRun, ...]:
        """Newest finished run (ok, insufficient, failed, abandoned) of each named comparison that has one.

        With ``until`` of slots up to then: what a clock that ran ahead has stored does not hide the present.
        """

    def changes(
        self, comparisons: Sequence[str], seen: Watermark, *, until: datetime
    ) -> tuple[frozenset[str], Watermark]:
        """Comparisons of which `latest` may show something else than at the watermark ``seen``, and the one of now.

        Found by newest runs and changes of alerts, not what was deleted or labelled of older runs.
        """

    def runs(
        self,
        *,
        comparison: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Stored runs, newest slot first, of slots from ``since`` to ``until``, both included.

        Whatever became of them.
        """

    def run_records(
        self, comparison: str, *, after: datetime | None, limit: int
    ) -> tuple[RunRecord, ...]:
        """The oldest ``limit`` finished runs (ok, insufficient, failed, abandoned) of slots after this one, oldest first."""

    def record(self, run_id: int) -> RunRecord | None:
        """One run with what it measured, but for an explanation that this version cannot read.

        None where there is none.
        """

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """Evidence of one run: the worst users first, then the representative ones, each by position."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """The lists kept with one run, None where there are none.

        DatabaseError when what is stored is damaged.
        """

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """Every user's scores of these metrics in one run, users ascending by code point, undefined ones NaN.

        A metric that the run stored no score of is left out of ``by_metric``; no users when none is left.
        """


class AlertStore(Protocol):
    """Alert states, their transitions, and silences."""

    def installation(self, *, create: bool) -> str:
        """The id of this database, random and the same for good.

        Before it has one it is made with ``create``, else empty.
        """

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        """All alerts of the comparison or of every one, quiet ones too, or those in this state, by alert and segment."""

    def firing(self) -> tuple[Transition, ...]:
        """For each state that is firing, the transition that started it, oldest first."""

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """Stored transitions in the order they were stored (the newest ``limit`` of them)."""

    def store_states(
        self,
        states: Sequence[AlertState],
        transitions: Sequence[Transition],
        *,
        receivers: Sequence[str],
    ) -> None:
        """Store states judged outside a run, their transitions and deliveries, on the terms of `RunStore.finish`."""

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """End states whose rule or comparison was removed.

        With transitions and deliveries. A state that moved is left out.
        """

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        """After a clock was set back, let ``slot`` move states judged in slots later than ``now``.

        Nothing is announced.
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
        """Acknowledge firings (alert, segment), and notify who was notified of them.

        Transitions of those that did fire.

        Nothing changes for those that the author has acknowledged already.
        """

    def resolve(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        """End firings (alert, segment) by hand, and notify who was notified of them.

        Transitions of those that did fire.
        """

    def accept(self, level: Transition) -> Transition:
        """Note that a level is normal from its slot on: a transition of ACCEPTED.

        That of the slot which is stored already.
        """

    def undo_acceptance(self, comparison: str, slot: datetime) -> Transition | None:
        """Forget that the level from this slot on was accepted.

        What was stored of that, None where nothing was.
        """

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence; returned with the number that it was given."""

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """Silences that end later than that, all that are stored for None, oldest first."""

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now; False when there is none of that number that has not ended yet."""


class Outbox(Protocol):
    """Deliveries: one for each announced transition and each receiver."""

    def claim_deliveries(
        self, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
    ) -> tuple[Delivery, ...]:
        """Lease what waits for this receiver, held or not, of the comparison whose delivery is due longest; oldest first.

        A comparison that somebody else delivers to it now is passed over; of more than ``limit`` what is due comes first.
        Exactly one caller gets a row, so that nothing overtakes an older delivery of the same alert and segment.
        """

    def firing_snapshot(
        self, comparison: str, receiver: str, changes: Sequence[Transition], *, now: datetime
    ) -> FiringSnapshot:
        """What fires in the comparison, and what the receiver was sent of it, of these changes, and of their incidents."""

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        """What is stored of the run of this slot beside its figures; empty where there is nothing.

        Lists are of users that the explanation shows, one of each leading group, else of the two
        with the lowest scores."""

    def mark_sending(
        self, sending: Sequence[Delivery], *, message_key: str, owner: str, until: datetime
    ) -> None:
        """Note that these are about to be sent in the message with this key, and may arrive.

        They may be known if nothing is recorded. The owner's leases last until then.
        """

    def record(self, *notifications: Notification) -> None:
        """Store the outcome of deliveries and move them.

        One that still waits is due again at ``next_attempt_at``.

        An attempt that ended as the one before leaves no row of its own.
        """

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        """Starts of firings that last, that nobody has acknowledged, and that this receiver is to be sent again now."""

    def schedule_repetition(
        self, repeated: Sequence[Delivery], *, at: datetime, message_key: str | None
    ) -> None:
        """Set when these are to be sent again, and the key of the repetition that may have arrived."""

    def delivered(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        """Starts of firings that last and ends since then that this receiver was sent, in the order they were stored."""

    def retry_refused(self, now: datetime, *, receivers: Sequence[str]) -> int:
        """Decide anew what these refused: starts of firings that last, and ends of the last day.

        How many deliveries.
        """

    def give_up_unknown(self, *, known: Sequence[str], now: datetime) -> int:
        """Give up deliveries to receivers that are not among the known ones.

        How many are dead now.
        """

    def deliveries(self, *, receiver: str | None, settled: int, limit: int) -> tuple[Delivery, ...]:
        """Deliveries that wait for this receiver (for all with None), the oldest ``limit`` in the order they were stored.

        Before these the newest ``settled`` that were given up or dropped, oldest first.
        """

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        """Pending deliveries by receiver, or those ``held`` back: how many, and the age of the oldest in seconds.

        Of what is held only starts: an end that waits for its incident keeps nothing from anybody.
        """

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        """Deliveries given up for good since then, by receiver.

        Those to receivers that were removed do not count.
        """


class Maintenance(Protocol):
    """Looking after the database: whether it works, how large it is, and deleting what is old."""

    def ping(self) -> None:
        """DatabaseError unless the database answers and its schema fits."""

    def probe_write(self) -> None:
        """Write what is stored already, and flush it.

        DatabaseError when the database cannot be written at this moment.
        """

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        """Delete what is older, by slot. In many small transactions.

        Refused, see ``Pruned.refused``, while neither runs nor a server's own clock confirm
        ``now``. Transitions with waiting deliveries and states stay. Days that are over are rolled
        up first. Explanations go with the evidence; before their age go kept lists, but each
        comparison's newest and those that may get relevance. PostgreSQL's scores go by whole days.
        """

    def sizes(self, *, anew: bool = True) -> Mapping[DataKind, int]:
        """Bytes on disk of each kind of data.

        Not ``anew``: as last measured here, for SQLite reads most of its file for it.
        """


class Store(Closable, Protocol):
    """One database: its six ports together, for the wiring."""

    runs: RunStore
    history: History
    alerts: AlertStore
    outbox: Outbox
    pages: PageStore

    @property
    def maintenance(self) -> Maintenance:
        """Housekeeping."""
