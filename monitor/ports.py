"""What the pipeline asks of the world, as Protocols. The docstrings are the contract that every implementation keeps.

All instants are aware UTC datetimes. Implementations translate their vendor's errors into `monitor.errors` at their edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.model import (
    AlertState,
    ArmScore,
    Briefing,
    Claim,
    Coverage,
    Cutoffs,
    DataKind,
    Delivery,
    DeliveryRecord,
    Direction,
    Evidence,
    Explanation,
    FiringSnapshot,
    ItemWeights,
    KeptLists,
    LatestRun,
    Lease,
    Memory,
    MemoryRequest,
    Message,
    Notification,
    Occupied,
    PastRun,
    Pruned,
    Pull,
    PullRequest,
    RelevanceTable,
    Run,
    RunRecord,
    RunResult,
    Scores,
    Silence,
    Split,
    Summary,
    Transition,
    Treatment,
    UserScore,
    UserTable,
)


class Clock(Protocol):
    """Time from outside, so that a test may hold it."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow; for durations and deadlines."""


class Source(Protocol):
    """Where one arm's lists come from."""

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users, in any order; never a user that was not asked for, never one twice.

        Returns within about ``request.timeout_s`` and with bounded memory, whatever the other side does. What goes wrong for
        one user is a reason in ``failures``; SourceError only when nothing can be read at all (file or column missing,
        query refused). Safe to call from several threads.
        """

    def close(self) -> None:
        """Release what is held; may be called twice."""


class UserSource(Protocol):
    """Where the users of a panel come from."""

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users that may be asked for this slot with the named segment dimensions; a user listed twice counts once.

        SourceError when it cannot be read, when a dimension is missing, or when there is not one user.
        """

    def close(self) -> None:
        """Release what is held; may be called twice."""


class ItemWeightSource(Protocol):
    """Where the weights of items come from."""

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights as of this slot. SourceError when they cannot be read, or when one is missing, not above zero or infinite."""

    def close(self) -> None:
        """Release what is held; may be called twice."""


class ItemTitleSource(Protocol):
    """Where the titles of items come from."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles as of this slot of those of the items that have one, for people to read. SourceError when not readable."""

    def close(self) -> None:
        """Release what is held; may be called twice."""


class RelevanceSource(Protocol):
    """Where it is known what users found relevant."""

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What is known of this slot's users; None when nothing has arrived yet, such as a file that is not there.

        SourceError when what is there cannot be read.
        """

    def close(self) -> None:
        """Release what is held; may be called twice."""


class Leases(Protocol):
    """The right to lead, for one daemon among those that share a database. Called from one thread.

    DatabaseError when the database cannot be asked: then nothing is known, and what was held may be held still.
    """

    def acquire(self) -> Lease | Occupied:
        """Take it when it is free, ran out, or was given back; of several callers one wins, and the epoch grows by one."""

    def renew(self, lease: Lease) -> bool:
        """Hold it for another full time, counted from some moment during the call; False once somebody else has taken it."""

    def release(self, lease: Lease) -> None:
        """Give it back, so that others need not wait; nothing where somebody else has taken it."""

    def close(self) -> None:
        """Release what is held; may be called twice."""


class Receiver(Protocol):
    """Somebody who is notified. Sending the same message twice must be harmless there (same incident, same dedup keys)."""

    @property
    def name(self) -> str:
        """Name from configuration, unique, free of secrets; a metric label and a key of the outbox."""

    @property
    def treatment(self) -> Treatment:
        """How it wants to be treated; the same for as long as it is open."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError when it was not accepted.

        ``permanent`` if it never will be, ``of_message`` if that is due to what it says, ``may_be_known`` if it may have
        arrived all the same.
        """

    def close(self) -> None:
        """Release what is held; may be called twice."""


class RunWatcher(Protocol):
    """Somebody who hears of each run, and raises the alarm when he hears nothing. Never raises, never holds up a run."""

    def run_started(self, claim: Claim) -> None:
        """A run has begun."""

    def run_finished(self, claim: Claim, failure: str | None) -> None:
        """It has ended: well for None, else why not; a run that is ``insufficient`` has not ended well."""

    def close(self, timeout_s: float) -> None:
        """Tell what is still to be told, for so long at most, and release what is held; may be called twice."""


class Publisher(Protocol):
    """Shows the state of the world to whoever watches the daemon. Never raises, never blocks on I/O."""

    def publish(self, latest: Sequence[LatestRun]) -> None:
        """Replace everything shown about comparisons by these; a comparison that is not among them disappears."""

    def run_finished(self, result: RunResult) -> None:
        """Count a run by status and observe how long it and its stages took."""

    def slots_skipped(self, comparison: str, reason: str, count: int = 1) -> None:
        """Count slots that did not run. Reasons: ``missed`` (nobody was there), ``overlap`` (the last run was still at it)."""

    def notified(self, receiver: str, outcome: str) -> None:
        """Count one attempt to deliver: ``sent``, ``retry`` or ``dead``."""

    def delivery_failed(self, receiver: str, trouble: DeliveryTrouble) -> None:
        """Count an attempt to deliver that failed, by what kept it from arriving."""

    def outbox(
        self,
        pending: Mapping[str, int],
        oldest_s: Mapping[str, float],
        held: Mapping[str, int],
        given_up: Mapping[str, int],
    ) -> None:
        """Deliveries waiting, the age of the oldest, deliveries held back and those lately given up, by receiver."""

    def run_abandoned(self, comparison: str) -> None:
        """Count a run that hung and was given up."""

    def database(self, *, is_up: bool) -> None:
        """Tell whether the database can be read and written."""

    def database_failed(self, trouble: DatabaseTrouble) -> None:
        """Count an error of the database by its kind."""

    def clock_jumped(self) -> None:
        """Count a jump of the wall clock."""

    def restarted(self, part: str) -> None:
        """Count what the watchdog began anew: ``run``, ``scheduler``, ``delivery`` or ``housekeeping``."""

    def database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """Tell what each kind of data takes."""

    def pruned(self, pruned: Pruned, *, at: datetime) -> None:
        """Count what was deleted, and tell that this was when it was last done."""

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """Tell whether the configuration file last read is the one in force."""


class Store(Protocol):
    """The database. Every method is one transaction; DatabaseError when it cannot be done, and then nothing was changed.

    Safe to share between threads; several processes may work on one database.
    """

    def claim(  # noqa: PLR0913 - a claim is all of this
        self, comparison: str, slot: datetime, *, owner: str, now: datetime, until: datetime, config_hash: str, rerun: bool
    ) -> Claim | None:
        """Take the slot for one run, exactly one caller wins. None when it is not to be had.

        A slot never run is taken; one that is ``running`` past its ``until`` or ``abandoned`` is taken over; one that is
        finished is taken only with ``rerun``, and keeps its status and results until ``finish`` replaces them; ``has_ok``
        tells whether these are of an ok run.
        ``attempt`` grows by one each time.
        """

    def holding(self, comparison: str, slot: datetime) -> Claim | None:
        """The claim that is held on the slot, whether or not it ran out; None where nobody holds one."""

    def release(self, claim: Claim) -> None:
        """Give a claim back unrun: a first attempt vanishes, a rerun shows its earlier results again."""

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> bool:
        """Store a whole result in one transaction, replacing what an earlier attempt stored for the slot.

        Also stores one pending delivery for each start of a firing and each of ``receivers``, also of one that lasts and that a
        receiver was never owed; ends are owed to those who are owed the start. States are written only where
        the stored ``judged_slot`` is older and the stored state (none is quiet) is the one that they, or their transition,
        started from; the transitions of others are left out. Doing it again with the same result changes nothing. False,
        and nothing is stored, when the claim has been taken over meanwhile.

        A result with lists ends the keeping of those of earlier slots, but for runs that wait for relevance still.
        """

    def abandon(self, claim: Claim, *, reason: str, at: datetime) -> bool:
        """Take a slot from whoever holds this claim and hangs: what he stores later is refused, and the slot is free.

        A first attempt is ``abandoned`` with the reason, a rerun shows its earlier results again. False when the claim is not
        held any more.
        """

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        """Mark runs whose claim ran out as abandoned, but those of the ids in ``sparing``, whose owner asks; how many."""

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        """After a clock was set back: let ``slot`` move states that were judged in slots later than ``now``.

        Deliveries of the comparison that wait for a time after ``now`` are due. No state changes, nothing is announced.
        """

    def alert_states(self, comparison: str) -> tuple[AlertState, ...]:
        """All alert states of the comparison, quiet ones too, ordered by alert and segment."""

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """End states outside a run, because rule or comparison are gone from the configuration.

        Removes the states these transitions end, stores the transitions and their deliveries. One whose state is gone, or
        has moved meanwhile, is left out.
        """

    def judge(self, states: Sequence[AlertState], transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """Store what was judged outside a run: states, their transitions, and what these owe to ``receivers``.

        As in `finish`: states are written only where the stored ``judged_slot`` is older and the stored state is the one that
        they, or their transition, started from; the transitions of others are left out.
        """

    def all_alert_states(self) -> tuple[AlertState, ...]:
        """Alert states of every comparison ever run."""

    def firing(self) -> tuple[Transition, ...]:
        """For each state that is firing, the transition that started it, oldest first."""

    def latest(self, comparisons: Sequence[str], *, until: datetime | None = None) -> tuple[LatestRun, ...]:
        """Newest finished run (ok, insufficient, failed, abandoned) of each named comparison that has one.

        With ``until`` of slots up to then: what a clock that ran ahead has left behind does not hide the present.
        """

    def last_slot(self, comparison: str) -> datetime | None:
        """Newest slot that was ever claimed, whatever became of it."""

    def runs(self, *, comparison: str | None, limit: int) -> tuple[Run, ...]:
        """Stored runs, newest slot first."""

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """Stored transitions in the order they were stored (the newest ``limit`` of them)."""

    def claim_deliveries(
        self, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
    ) -> tuple[Delivery, ...]:
        """Lease what waits for this receiver, held back or not, of the comparison that has been due longest; oldest first.

        A comparison of which somebody else is telling it now is passed over. Of more than ``limit`` what is due comes first.
        Exactly one caller gets a row. So nothing overtakes an older delivery of the same alert and segment.
        """

    def situation(self, comparison: str, receiver: str, keys: Sequence[str | None], *, now: datetime) -> FiringSnapshot:
        """What stands in the comparison, and which of the firings of these keys, and of those that last, the receiver knows."""

    def begin(self, sending: Sequence[Delivery], *, owner: str, until: datetime) -> None:
        """Remember that these are about to be sent: should nothing be recorded of them, they may be known.

        What the owner has leased for the same receiver stays leased until then.
        """

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        """Starts of firings that last, that nobody looks after, and that are to be told this receiver again now."""

    def repeat(self, repeated: Sequence[Delivery], *, at: datetime) -> None:
        """Set the time at which they are to be told again."""

    def told(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        """Starts of firings that last and ends since then, as far as this receiver was told them, in the order stored."""

    def revive(self, now: datetime, *, receivers: Sequence[str]) -> int:
        """Let what these refused be decided anew: starts of firings that last, and ends of the last day; how many."""

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        """What is stored of the run of this slot beside its figures; empty where there is nothing."""

    def acknowledge(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, author: str, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        """Mark firings (alert, segment) as looked after, and owe that to who was owed their start; those that did fire."""

    def resolve(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        """End firings (alert, segment) by hand, and owe that to who was owed their start; those that did fire."""

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence; returned with the number that it was given."""

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """Silences that end later than that, all that are stored for None, oldest first."""

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now; False when there is none of that number that has not ended yet."""

    def forget_receivers(self, *, known: Sequence[str], now: datetime) -> int:
        """Give up what is owed to receivers that are not among the known ones; how many deliveries are dead now."""

    def record(self, *notifications: Notification) -> None:
        """Store what became of deliveries and move them; one that waits on is due again at ``next_attempt_at``.

        An attempt that ended as the one before leaves no row of its own.
        """

    def deliveries(self, *, receiver: str | None, settled: int, limit: int) -> tuple[DeliveryRecord, ...]:
        """What waits for this receiver (for all with None), the oldest ``limit`` in the order in which it was stored.

        Before that the newest ``settled`` that were given up or dropped, oldest first.
        """

    def outbox(self, now: datetime) -> Mapping[str, tuple[int, float]]:
        """Pending deliveries by receiver: how many, and the age of the oldest in seconds."""

    def held(self, now: datetime) -> Mapping[str, tuple[int, float]]:
        """Deliveries that are held back, likewise."""

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        """Deliveries given up for good since then, by receiver; what was owed to receivers that are gone does not count."""

    def prune(self, cutoffs: Cutoffs, *, now: datetime, told: Callable[[str], object] = str) -> Pruned:
        """Delete what is older, by slot; ``told`` hears what it is at. Transitions still owed and states are never deleted.

        Ages count back from ``now`` only as far as runs, and a server's own clock, bear it out: see ``Pruned.reckoned_from``.
        Days that are over are added up first, so that what each came to outlives its runs. Explanations go with the evidence;
        before their age go kept lists, but each comparison's newest and those that ``now`` may still get labels. Scores may
        outlive their age by two days. With ``max_bytes`` the oldest scores, lists, evidence and summaries of segments go early,
        but those of each comparison's newest ok run. In many small transactions, so that runs can be stored meanwhile.
        """

    def prunable(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        """What `prune` would delete for its age; of what goes early only by how much the database is too large."""

    def sizes(self) -> Mapping[DataKind, int]:
        """Bytes that each kind of data takes."""

    def summaries(self, run_id: int) -> tuple[Summary, ...]:
        """Summaries of one run as they were stored; none for a run that is not there or measured nothing."""

    def memory(self, request: MemoryRequest) -> Memory:
        """What a run needs of earlier ones; what is stored but damaged is left out and named in ``unreadable``."""

    def past(self, request: MemoryRequest) -> tuple[PastRun, ...]:
        """The newest ok runs of this configuration and of slots before this one, as many as requested, oldest first.

        With the lessons that they hold; summaries only of runs that lack a lesson of any of the requested series.
        """

    def records(self, comparison: str, *, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
        """The oldest ``limit`` finished runs (ok, insufficient, failed, abandoned) of slots after this one, oldest first."""

    def splits(self, comparison: str, *, config_hash: str, before: datetime, limit: int) -> tuple[Split, ...]:
        """What the newest ``limit`` healthy runs left for later ones, oldest first: of this configuration, of earlier slots.

        Healthy is an ok run after which no alert on drift of the comparison was pending or firing, and in which no expectation
        was suspicious. One that left nothing is passed over.
        """

    def explanation(self, run_id: int) -> Explanation | None:
        """The explanation of one run as it was stored; None where there is none, or one that this version cannot read."""

    def arm_scores(self, run_id: int) -> tuple[ArmScore, ...]:
        """Arm-wide scores of one run as they were stored."""

    def kept_lists(self, run_id: int) -> KeptLists | None:
        """The lists kept with one run, None where there are none; DatabaseError when what is stored is damaged."""

    def last_lists(self, comparison: str, *, before: datetime) -> KeptLists | None:
        """The lists of the newest ok run of a slot before this one that kept any."""

    def unlabelled(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        """Ok runs of this slot and later ones with kept lists whose measures of relevance are wanted and missing, oldest first.

        A run that somebody measures anew at this moment is not among them.
        """

    def label(self, run: Run, *, summaries: Sequence[Summary], scores: Scores | None, at: datetime) -> bool:
        """Add measures of relevance to a stored run, in place of its summaries and scores of the same metrics.

        Doing it again changes nothing but the time. False, and nothing is stored, when the run has been measured anew since it
        was read, or is being.
        """

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        """Evidence of one run: the worst users first, then the representative ones, each by position."""

    def user_scores(self, comparison: str, user: str, *, limit: int) -> tuple[UserScore, ...]:
        """One user's scores in the newest ``limit`` runs that scored them, newest slot first, then by metric."""

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        """Every user's scores of these metrics in one run, users ascending by code point, undefined ones NaN.

        Metrics that the run stored no score of are left out of ``by_metric``; no users when that leaves none. A user who has
        a score of one metric only is NaN in the others.
        """

    def coverage(self, run_id: int) -> Coverage | None:
        """Coverage of one run by segment as it was stored; None where there is none."""

    def worst_users(self, run_id: int, metric: str, n: int, *, direction: Direction = Direction.BELOW) -> tuple[UserScore, ...]:
        """The ``n`` users of the run with the lowest scores (``above``: the highest), worst first, then by name."""

    def ping(self) -> None:
        """DatabaseError unless the database answers and its schema fits."""

    def close(self) -> None:
        """Close every connection."""
