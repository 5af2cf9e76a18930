"""SqlStore: the port Store over one database, each method one transaction."""

# ruff: noqa: D102 - the port's docstrings are the contract

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import SecretStr

from monitor.errors import DatabaseError
from monitor.model import (
    AlertState,
    ArmScore,
    Briefing,
    Claim,
    Coverage,
    Cutoffs,
    DatabaseSize,
    DataKind,
    Delivery,
    DeliveryRecord,
    DeliveryStatus,
    Direction,
    Evidence,
    Explanation,
    FiringSnapshot,
    KeptLists,
    LatestRun,
    Lease,
    Memory,
    MemoryRequest,
    Notification,
    PastRun,
    Pruned,
    Run,
    RunRecord,
    RunResult,
    Scores,
    Silence,
    Split,
    Summary,
    Transition,
    UserScore,
)
from monitor.storage import (
    alert_states,
    alert_store,
    claims,
    clock_trust,
    database_size,
    explanations,
    leases,
    list_pieces,
    outbox,
    room,
    run_history,
    run_results,
    run_store,
    schema_version,
    shrinking,
)
from monitor.storage import user_scores as per_user
from monitor.storage.database_url import describe, parse_url
from monitor.storage.leases import LeaseFence, StandbyFence
from monitor.storage.transactions import Database, require_file

T = TypeVar("T")


def open_store(url: SecretStr | str, *, create: bool) -> SqlStore:
    """A store over a database whose schema fits.

    With ``create`` a SQLite file that is not there is made, and a database without our tables gets them; one that has older
    tables is never changed here. Else a missing file is a DatabaseError, missing or other tables a SchemaError.
    """
    store = unopened_store(url)
    try:
        if not create:
            require_file(store.database.url)
        store.prepare(create=create)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def opened_store(url: SecretStr | str) -> Iterator[SqlStore]:
    """A store over a database that is there, closed at the end."""
    with closing(open_store(url, create=False)) as store:
        yield store


def unopened_store(url: SecretStr | str) -> SqlStore:
    """A store that has not asked its database for anything yet; `SqlStore.prepare` must have ended well before it is used."""
    return SqlStore(Database(parse_url(url)))


class SqlStore:
    """Port Store over SQLAlchemy Core; its docstrings are the port's."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._epoch: int | None = None

    def __repr__(self) -> str:
        return f"SqlStore({describe(self.database.url)})"

    @property
    def place(self) -> str:
        """The database as messages name it; no secret."""
        return describe(self.database.url)

    def prepare(self, *, create: bool) -> None:
        """Require a schema that fits; with ``create`` a database without our tables gets them first."""
        if create:
            schema_version.create(self.database)
        self.ping()

    def probe(self) -> None:
        """Write what stands there already, and flush it; DatabaseError when the database cannot be written at this moment.

        A transaction that changes nothing would succeed on a full disk.
        """
        with self.database.write(is_fenced=False) as connection:
            schema_version.rewrite(connection)

    def stand_by(self) -> None:
        """Write nothing from now on: each attempt is a LeaseLostError."""
        self._epoch, self.database.fence = None, StandbyFence()

    def lead(self, lease: Lease, *, patience: timedelta, now: datetime) -> Mapping[str, int]:
        """Write under this lease from now on, each time only if it is held still, else it is a LeaseLostError.

        First what earlier epochs left half done is taken from them, so that it can be done anew; runs abandoned by comparison.
        ``patience``: after how long the server may end a transaction in which nothing happens.
        """
        self.database.pin()
        self._epoch, self.database.fence = lease.epoch, LeaseFence(lease=lease, patience=patience)
        leases.end_older(self.database, lease.epoch)
        with self.database.write() as connection:
            if lease.before is not None:
                outbox.free(connection, lease.before)
            return claims.abandon_before(connection, lease.epoch, now)

    def claim(  # noqa: PLR0913 - see the port
        self, comparison: str, slot: datetime, *, owner: str, now: datetime, until: datetime, config_hash: str, rerun: bool
    ) -> Claim | None:
        wanted = claims.Wanted(
            comparison=comparison,
            slot=slot,
            owner=owner,
            now=now,
            until=until,
            config_hash=config_hash,
            rerun=rerun,
            epoch=self._epoch,
        )
        with self.database.write() as connection:
            return claims.claim(connection, wanted)

    def holding(self, comparison: str, slot: datetime) -> Claim | None:
        with self.database.read() as connection:
            return claims.holding(connection, comparison, slot)

    def release(self, claim: Claim) -> None:
        with self.database.write() as connection:
            claims.release(connection, claim)

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> bool:
        pieces = list_pieces.packed(result.lists)  # before the transaction, which others wait for
        if result.scores is not None:
            room.make_room(self.database, result.claim.run_id, result.finished_at)
        with self.database.write() as connection:
            if not claims.conclude(connection, result):
                return False
            run_results.replace(connection, result)
            explanations.store(connection, result)
            list_pieces.store(connection, result, pieces)
            alert_states.store(connection, result.states, result.transitions, receivers)
            return True

    def abandon(self, claim: Claim, *, reason: str, at: datetime) -> bool:
        with self.database.write() as connection:
            return claims.abandon(connection, claim, reason=reason, at=at)

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        with self.database.write() as connection:
            return claims.abandon_expired(connection, now, sparing)

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        with self.database.write() as connection:
            alert_store.rewind(connection, comparison, slot=slot, now=now)

    def last_slot(self, comparison: str) -> datetime | None:
        with self.database.read() as connection:
            return claims.last_slot(connection, comparison)

    def alert_states(self, comparison: str) -> tuple[AlertState, ...]:
        with self.database.read() as connection:
            return alert_states.read(connection, comparison)

    def all_alert_states(self) -> tuple[AlertState, ...]:
        with self.database.read() as connection:
            return alert_states.read(connection, None)

    def judge(self, states: Sequence[AlertState], transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        with self.database.write() as connection:
            alert_states.store(connection, states, transitions, receivers)

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        with self.database.write() as connection:
            alert_states.retire(connection, transitions, receivers)

    def firing(self) -> tuple[Transition, ...]:
        with self.database.read() as connection:
            return alert_states.firing(connection)

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        with self.database.read() as connection:
            return alert_states.history(connection, comparison, limit)

    def latest(self, comparisons: Sequence[str], *, until: datetime | None = None) -> tuple[LatestRun, ...]:
        with self.database.read() as connection:
            return run_store.latest(connection, comparisons, until)

    def runs(self, *, comparison: str | None, limit: int) -> tuple[Run, ...]:
        with self.database.read() as connection:
            return run_store.newest_runs(connection, comparison, limit)

    def summaries(self, run_id: int) -> tuple[Summary, ...]:
        with self.database.read() as connection:
            return run_results.summaries_of(connection, [run_id]).get(run_id, ())

    def memory(self, request: MemoryRequest) -> Memory:
        unreadable: list[str] = []
        with self.database.read() as connection:
            states = alert_states.read(connection, request.comparison)
            past = run_history.read(connection, request) if request.runs else ()
        last_lists = self._readable(lambda: self._last_lists(request), "lists of the last run", unreadable)
        splits = self._readable(lambda: self._splits(request), "splits of earlier runs", unreadable)
        return Memory(states=states, past=past, last_lists=last_lists, splits=splits or (), unreadable=tuple(unreadable))

    @staticmethod
    def _readable(read: Callable[[], T], what: str, unreadable: list[str]) -> T | None:
        """What is read, None where it is damaged: a run can do without it."""
        try:
            return read()
        except DatabaseError as error:
            if not error.permanent:
                raise
            unreadable.append(f"{what}: {error}")
            return None

    def _last_lists(self, request: MemoryRequest) -> KeptLists | None:
        return self.last_lists(request.comparison, before=request.before) if request.wants_last_lists else None

    def _splits(self, request: MemoryRequest) -> tuple[Split, ...]:
        return self.splits(request.comparison, config_hash=request.config_hash, before=request.before, limit=request.splits)

    def past(self, request: MemoryRequest) -> tuple[PastRun, ...]:
        with self.database.read() as connection:
            return run_history.read(connection, request)

    def records(self, comparison: str, *, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
        with self.database.read() as connection:
            return run_store.records(connection, comparison, after, limit)

    def splits(self, comparison: str, *, config_hash: str, before: datetime, limit: int) -> tuple[Split, ...]:
        with self.database.read() as connection:
            return explanations.read_healthy(connection, comparison, config_hash=config_hash, before=before, limit=limit)

    def explanation(self, run_id: int) -> Explanation | None:
        with self.database.read() as connection:
            return explanations.explanations_of(connection, [run_id]).get(run_id)

    def arm_scores(self, run_id: int) -> tuple[ArmScore, ...]:
        with self.database.read() as connection:
            return run_results.arm_scores_of(connection, [run_id]).get(run_id, ())

    def kept_lists(self, run_id: int) -> KeptLists | None:
        with self.database.read() as connection:
            pieces = list_pieces.pieces_of(connection, run_id)
        return list_pieces.unpacked(run_id, pieces)

    def last_lists(self, comparison: str, *, before: datetime) -> KeptLists | None:
        with self.database.read() as connection:
            run_id = list_pieces.last_run(connection, comparison, before)
            pieces = {} if run_id is None else list_pieces.pieces_of(connection, run_id)
        return None if run_id is None else list_pieces.unpacked(run_id, pieces)

    def unlabelled(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        with self.database.read() as connection:
            return run_store.unlabelled(connection, comparison, since)

    def label(self, run: Run, *, summaries: Sequence[Summary], scores: Scores | None, at: datetime) -> bool:
        if scores is not None:
            room.make_room(self.database, run.id, at)
        with self.database.write() as connection:
            return run_store.label(connection, run, summaries, scores, at)

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        with self.database.read() as connection:
            return run_results.evidence_of(connection, run_id)

    def user_scores(self, comparison: str, user: str, *, limit: int) -> tuple[UserScore, ...]:
        with self.database.read() as connection:
            return per_user.user_scores(connection, comparison, user, limit)

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        with self.database.read() as connection:
            return per_user.run_scores(connection, run_id, metrics)

    def coverage(self, run_id: int) -> Coverage | None:
        with self.database.read() as connection:
            return run_results.coverage_of(connection, [run_id]).get(run_id)

    def worst_users(self, run_id: int, metric: str, n: int, *, direction: Direction = Direction.BELOW) -> tuple[UserScore, ...]:
        with self.database.read() as connection:
            return per_user.worst_users(connection, run_id, metric, n, direction)

    def claim_deliveries(
        self, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
    ) -> tuple[Delivery, ...]:
        with self.database.write() as connection:
            return outbox.lease(connection, receiver, owner=owner, now=now, until=until, limit=limit)

    def forget_receivers(self, *, known: Sequence[str], now: datetime) -> int:
        with self.database.write() as connection:
            return outbox.forget(connection, known, now)

    def situation(self, comparison: str, receiver: str, keys: Sequence[str | None], *, now: datetime) -> FiringSnapshot:
        with self.database.read() as connection:
            firing = alert_states.firing(connection, comparison=comparison)
            states = alert_states.lasting_states(connection, comparison)
            asked = [*keys, *(start.dedup_key for start in firing)]
            active = alert_store.read(connection, ending_after=now)
            return FiringSnapshot(
                firing=firing,
                told=outbox.keys_told(connection, receiver, comparison, asked),
                acknowledged=frozenset(each.dedup_key for each in states if each.dedup_key and each.acknowledged_by),
                silences=tuple(silence for silence in active if silence.is_active(now)),
                refused=outbox.refused(connection, comparison, asked),
            )

    def begin(self, sending: Sequence[Delivery], *, owner: str, until: datetime) -> None:
        with self.database.write() as connection:
            outbox.begin(connection, sending, owner=owner, until=until)

    def record(self, *notifications: Notification) -> None:
        with self.database.write() as connection:
            outbox.record(connection, notifications)

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        with self.database.read() as connection:
            return outbox.due_repetitions(connection, receiver, now, limit)

    def repeat(self, repeated: Sequence[Delivery], *, at: datetime) -> None:
        with self.database.write() as connection:
            outbox.repeat(connection, repeated, at)

    def told(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        with self.database.read() as connection:
            return outbox.told(connection, receiver, ended_since=ended_since)

    def revive(self, now: datetime, *, receivers: Sequence[str]) -> int:
        with self.database.write() as connection:
            return outbox.revive(connection, receivers, now)

    def deliveries(self, *, receiver: str | None, settled: int, limit: int) -> tuple[DeliveryRecord, ...]:
        with self.database.read() as connection:
            return outbox.records(connection, receiver, settled=settled, limit=limit)

    def outbox(self, now: datetime) -> Mapping[str, tuple[int, float]]:
        with self.database.read() as connection:
            return outbox.waiting(connection, now, DeliveryStatus.PENDING)

    def held(self, now: datetime) -> Mapping[str, tuple[int, float]]:
        with self.database.read() as connection:
            return outbox.waiting(connection, now, DeliveryStatus.HELD)

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        with self.database.read() as connection:
            return outbox.given_up(connection, since)

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        with self.database.read() as connection:
            return explanations.of_slot(connection, comparison, slot)

    def acknowledge(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, author: str, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        with self.database.write() as connection:
            return alert_store.acknowledge(connection, comparison, alerts, author=author, reason=reason, at=at)

    def resolve(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        with self.database.write() as connection:
            return alert_store.resolve(connection, comparison, alerts, reason=reason, at=at)

    def add_silence(self, silence: Silence) -> Silence:
        with self.database.write() as connection:
            return alert_store.add(connection, silence)

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        with self.database.read() as connection:
            return alert_store.read(connection, ending_after=ending_after)

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        with self.database.write() as connection:
            return alert_store.expire(connection, number, now)

    def prune(self, cutoffs: Cutoffs, *, now: datetime, told: Callable[[str], object] = str) -> Pruned:
        present = clock_trust.believed(self.database, now)
        pruned = shrinking.prune(self.database, clock_trust.moved_back(cutoffs, now - present), present, told)
        return clock_trust.told(pruned, now, present)

    def prunable(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        present = clock_trust.believed(self.database, now)
        foreseen = shrinking.foresee(self.database, clock_trust.moved_back(cutoffs, now - present), present)
        return clock_trust.told(foreseen, now, present)

    def sizes(self) -> Mapping[DataKind, int]:
        with self.database.read() as connection:
            return database_size.bytes_by_kind(connection)

    def measure(self) -> DatabaseSize:
        return database_size.measure(self.database)

    def vacuum(self) -> None:
        database_size.vacuum(self.database)

    def ping(self) -> None:
        with self.database.read() as connection:
            schema_version.require_head(connection, describe(self.database.url))

    def close(self) -> None:
        self.database.close()
