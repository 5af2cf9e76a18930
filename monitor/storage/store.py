"""SqlStore: the port Store over one database, each method one transaction."""

# ruff: noqa: D102 - the port's docstrings are the contract

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import SecretStr

from monitor.model import (
    AlertState,
    ArmScore,
    Claim,
    Coverage,
    Delivery,
    Direction,
    Evidence,
    Explanation,
    KeptLists,
    LatestRun,
    Lease,
    Notification,
    PastRun,
    Rule,
    Run,
    RunRecord,
    RunResult,
    Scores,
    Split,
    Summary,
    Transition,
    UserScore,
)
from monitor.storage import (
    alerting,
    claiming,
    explaining,
    labelling,
    leasing,
    lists,
    outbox,
    parquet,
    past,
    pruning,
    reading,
    results,
    schema,
)
from monitor.storage import scores as per_user
from monitor.storage.address import describe, parse_url
from monitor.storage.connecting import Database, require_file
from monitor.storage.fencing import LeaseFence


def open_store(url: SecretStr | str, *, create: bool) -> SqlStore:
    """A store over a database whose schema fits.

    With ``create`` a SQLite file that is not there is made, and a database without our tables gets them; one that has older
    tables is never changed here. Else a missing file is a DatabaseError, missing or other tables a SchemaError.
    """
    store = SqlStore(Database(parse_url(url)))
    try:
        if create:
            schema.create(store.database)
        else:
            require_file(store.database.url)
        store.ping()
    except BaseException:
        store.close()
        raise
    return store


class SqlStore:
    """Port Store over SQLAlchemy Core; its docstrings are the port's."""

    def __init__(self, database: Database, *, epoch: int | None = None) -> None:
        self.database = database
        self.epoch = epoch

    def __repr__(self) -> str:
        return f"SqlStore({describe(self.database.url)})"

    def under(self, lease: Lease, *, patience: timedelta) -> SqlStore:
        """The same store for as long as the lease is held: then each write is a LeaseLostError. Not to be closed by itself.

        ``patience``: after how long the server may end a transaction in which nothing happens.
        """
        fence = LeaseFence(lease=lease, patience=patience)
        return SqlStore(self.database.fenced(fence), epoch=lease.epoch)

    def take_over(self, lease: Lease, now: datetime) -> Mapping[str, int]:
        """Give up what earlier epochs left half done, so that it can be done anew; runs abandoned by comparison."""
        leasing.end_older(self.database, lease.epoch)
        with self.database.write() as connection:
            if lease.before is not None:
                outbox.free(connection, lease.before)
            return claiming.abandon_before(connection, lease.epoch, now)

    def claim(  # noqa: PLR0913 - see the port
        self, comparison: str, slot: datetime, *, owner: str, now: datetime, until: datetime, config_hash: str, rerun: bool
    ) -> Claim | None:
        wanted = claiming.Wanted(
            comparison=comparison,
            slot=slot,
            owner=owner,
            now=now,
            until=until,
            config_hash=config_hash,
            rerun=rerun,
            epoch=self.epoch,
        )
        with self.database.write() as connection:
            return claiming.claim(connection, wanted)

    def holding(self, comparison: str, slot: datetime) -> Claim | None:
        with self.database.read() as connection:
            return claiming.holding(connection, comparison, slot)

    def release(self, claim: Claim) -> None:
        with self.database.write() as connection:
            claiming.release(connection, claim)

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> bool:
        pieces = tuple(parquet.pack(result.lists)) if result.lists else ()  # before the transaction, which others wait for
        with self.database.write() as connection:
            if not claiming.conclude(connection, result):
                return False
            results.replace(connection, result)
            explaining.store(connection, result)
            lists.store(connection, result, pieces)
            alerting.store(connection, result.states, result.transitions, receivers)
            return True

    def abandon_expired(self, now: datetime) -> int:
        with self.database.write() as connection:
            return claiming.abandon_expired(connection, now)

    def last_slot(self, comparison: str) -> datetime | None:
        with self.database.read() as connection:
            return claiming.last_slot(connection, comparison)

    def alert_states(self, comparison: str) -> tuple[AlertState, ...]:
        with self.database.read() as connection:
            return alerting.read(connection, comparison)

    def all_alert_states(self) -> tuple[AlertState, ...]:
        with self.database.read() as connection:
            return alerting.read(connection, None)

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        with self.database.write() as connection:
            alerting.retire(connection, transitions, receivers)

    def firing(self, *, only_announced: bool = False) -> tuple[Transition, ...]:
        with self.database.read() as connection:
            return alerting.firing(connection, only_announced=only_announced)

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        with self.database.read() as connection:
            return alerting.history(connection, comparison, limit)

    def latest(self, comparisons: Sequence[str]) -> tuple[LatestRun, ...]:
        with self.database.read() as connection:
            return reading.latest(connection, comparisons)

    def runs(self, *, comparison: str | None, limit: int) -> tuple[Run, ...]:
        with self.database.read() as connection:
            return reading.newest_runs(connection, comparison, limit)

    def summaries(self, run_id: int) -> tuple[Summary, ...]:
        with self.database.read() as connection:
            return results.summaries_of(connection, [run_id]).get(run_id, ())

    def past(
        self, comparison: str, *, config_hash: str, before: datetime, limit: int, rules: Sequence[Rule]
    ) -> tuple[PastRun, ...]:
        with self.database.read() as connection:
            return past.read(connection, comparison, config_hash=config_hash, before=before, limit=limit, rules=rules)

    def records(self, comparison: str, *, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
        with self.database.read() as connection:
            return reading.records(connection, comparison, after, limit)

    def splits(self, comparison: str, *, config_hash: str, before: datetime, limit: int) -> tuple[Split, ...]:
        with self.database.read() as connection:
            return explaining.read_healthy(connection, comparison, config_hash=config_hash, before=before, limit=limit)

    def explanation(self, run_id: int) -> Explanation | None:
        with self.database.read() as connection:
            return explaining.explanations_of(connection, [run_id]).get(run_id)

    def arm_scores(self, run_id: int) -> tuple[ArmScore, ...]:
        with self.database.read() as connection:
            return results.arm_scores_of(connection, [run_id]).get(run_id, ())

    def kept_lists(self, run_id: int) -> KeptLists | None:
        with self.database.read() as connection:
            pieces = lists.pieces_of(connection, run_id)
        return lists.unpacked(run_id, pieces)

    def last_lists(self, comparison: str, *, before: datetime) -> KeptLists | None:
        with self.database.read() as connection:
            run_id = lists.last_run(connection, comparison, before)
            pieces = {} if run_id is None else lists.pieces_of(connection, run_id)
        return None if run_id is None else lists.unpacked(run_id, pieces)

    def unlabelled(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        with self.database.read() as connection:
            return reading.unlabelled(connection, comparison, since)

    def label(self, run: Run, *, summaries: Sequence[Summary], scores: Scores | None, at: datetime) -> bool:
        with self.database.write() as connection:
            return labelling.label(connection, run, summaries, scores, at)

    def evidence(self, run_id: int) -> tuple[Evidence, ...]:
        with self.database.read() as connection:
            return results.evidence_of(connection, run_id)

    def user_scores(self, comparison: str, user: str, *, limit: int) -> tuple[UserScore, ...]:
        with self.database.read() as connection:
            return per_user.user_scores(connection, comparison, user, limit)

    def run_scores(self, run_id: int, metrics: Sequence[str]) -> Scores:
        with self.database.read() as connection:
            return per_user.run_scores(connection, run_id, metrics)

    def coverage(self, run_id: int) -> Coverage | None:
        with self.database.read() as connection:
            return results.coverage_of(connection, [run_id]).get(run_id)

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

    def record(self, notification: Notification) -> None:
        with self.database.write() as connection:
            outbox.record(connection, notification)

    def outbox(self, now: datetime) -> Mapping[str, tuple[int, float]]:
        with self.database.read() as connection:
            return outbox.waiting(connection, now)

    def prune(
        self, *, scores_before: datetime, evidence_before: datetime, runs_before: datetime, now: datetime
    ) -> Mapping[str, int]:
        return pruning.prune(
            self.database, scores_before=scores_before, evidence_before=evidence_before, runs_before=runs_before, now=now
        )

    def ping(self) -> None:
        with self.database.read() as connection:
            schema.require_head(connection, describe(self.database.url))

    def close(self) -> None:
        self.database.close()
