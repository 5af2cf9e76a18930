"""SqlRunStore: claims on slots, taken and given back by one conditional statement each, and the results of runs."""

# ruff: noqa: D102 - the port's docstrings are the contract

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Row,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)

from monitor.model.runs import Claim, Run, RunResult, RunStatus, Scores, Summary, kept_name
from monitor.storage import list_pieces
from monitor.storage.alert_states import store_alerts
from monitor.storage.partitions import day_of_slot, ensure_partitions
from monitor.storage.rows import from_row, insert, to_row
from monitor.storage.run_history import RUN_ROWS, WAITS_FOR_RELEVANCE
from monitor.storage.run_results import put_summaries, replace_results, store_explanation
from monitor.storage.tables.run_tables import runs, statistics, summaries
from monitor.storage.transactions import Database
from monitor.storage.user_scores import replace_scores

_FINISHED = (RunStatus.OK, RunStatus.INSUFFICIENT, RunStatus.FAILED)
_RELEASED = "given back unrun"
_EXPIRED = "its claim expired: the process that ran it was stopped or hung"


class SqlRunStore:
    """Port RunStore over SQLAlchemy Core."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(  # noqa: PLR0913 - see the port
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
        holder = {"owner": owner, "claimed_until": until, "epoch": self._database.epoch}
        begun = {
            "status": RunStatus.RUNNING,
            "config_hash": config_hash,
            "started_at": now,
            "finished_at": None,
            "reason": None,
        }
        # Of several callers that insert the slot the unique key lets one through.
        fresh = {"comparison": comparison, "scheduled_for": slot, "attempt": 1, **holder, **begun}
        is_free = or_(runs.c.claimed_until.is_(None), runs.c.claimed_until <= now)
        is_finished = runs.c.status.in_(_FINISHED)
        # What a finished run shows stays until `finish` replaces it.
        kept = {
            name: case((is_finished, runs.c[name]), else_=_literal(name, value))
            for name, value in begun.items()
        }
        taken = update(runs).where(
            _is_slot(comparison, slot), is_free, or_(~is_finished, literal(rerun, Boolean))
        )
        with self._database.write() as connection:
            inserted = connection.execute(
                insert(connection, runs).values(fresh).on_conflict_do_nothing(),
                execution_options={"preserve_rowcount": True},
            )
            if inserted.rowcount != 1:
                claimed = connection.execute(
                    taken.values(attempt=runs.c.attempt + 1, **holder, **kept)
                )
                if claimed.rowcount != 1:
                    return None
            row = connection.execute(select(runs).where(_is_slot(comparison, slot))).one()
        return _claim(row, started_at=now)

    def held_claim(self, comparison: str, slot: datetime) -> Claim | None:
        held = select(runs).where(_is_slot(comparison, slot), runs.c.claimed_until.is_not(None))
        return next(map(_claim, self._database.rows(held)), None)

    def release(self, claim: Claim) -> None:
        never_run = and_(_is_held(claim), runs.c.status == RunStatus.RUNNING, runs.c.attempt == 1)
        left = as_abandoned(_RELEASED, claim.started_at)
        with self._database.write() as connection:
            # A slot that was never run leaves no row.
            if connection.execute(delete(runs).where(never_run)).rowcount != 1:
                connection.execute(
                    update(runs).where(_is_held(claim)).values(claimed_until=None, **left)
                )

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> int | None:
        pieces = list_pieces.encode_lists(
            result.lists
        )  # before the transaction, which others wait for
        if result.scores is not None:
            ensure_partitions(self._database, [day_of_slot(result.claim.slot)])
            result = replace(result, scores=_begun(result.scores))
        with self._database.write() as connection:
            if result.claim.keeps_earlier:
                result = replace(result, claim=_set_earlier_aside(connection, result.claim))
            if not _finish_claim(connection, result):
                return None
            replace_results(connection, result)
            store_explanation(connection, result)
            store_alerts(connection, result.states, result.transitions, receivers)
            list_pieces.store_lists(connection, result, pieces)
            return result.claim.run_id

    def abandon(self, claim: Claim, *, reason: str, at: datetime) -> bool:
        # With the attempt counted up, what the holder may still store is refused.
        taken = update(runs).where(_is_held(claim), runs.c.claimed_until.is_not(None))
        abandoned = taken.values(
            claimed_until=None, attempt=runs.c.attempt + 1, **as_abandoned(reason, at)
        )
        with self._database.write() as connection:
            return connection.execute(abandoned).rowcount == 1

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        expired = update(runs).where(runs.c.claimed_until <= now, runs.c.id.not_in(list(sparing)))
        ended = expired.values(claimed_until=None, **as_abandoned(_EXPIRED, now)).returning(
            runs.c.status
        )
        with self._database.write() as connection:
            return connection.scalars(ended).all().count(RunStatus.ABANDONED)

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        is_wanted = and_(
            runs.c.comparison == comparison,
            runs.c.scheduled_for >= since,
            runs.c.claimed_until.is_(None),
        )
        query = RUN_ROWS.where(WAITS_FOR_RELEVANCE, is_wanted).order_by(runs.c.scheduled_for)
        return tuple(from_row(Run, row) for row in self._database.rows(query))

    def store_relevance(
        self, run: Run, *, summaries: Sequence[Summary], scores: Scores | None, at: datetime
    ) -> bool:
        if scores is not None:
            ensure_partitions(self._database, [day_of_slot(run.slot)])
        is_same = and_(
            runs.c.id == run.id, runs.c.attempt == run.attempt, runs.c.claimed_until.is_(None)
        )
        with self._database.write() as connection:
            if connection.execute(update(runs).where(is_same).values(labelled_at=at)).rowcount != 1:
                return False
            _replace_summaries(connection, run.id, summaries)
            if scores is not None:
                replace_scores(connection, run.id, run.slot, scores)
            return True


def _begun(batches: Iterable[Scores]) -> Iterable[Scores]:
    # Many are put in order before the first one comes, which is not to last while others wait for
    # the transaction.
    rest = iter(batches)
    return chain(list(islice(rest, 1)), rest)


def _is_slot(comparison: str, slot: datetime) -> ColumnElement[bool]:
    return and_(runs.c.comparison == comparison, runs.c.scheduled_for == slot)


def _is_held(claim: Claim) -> ColumnElement[bool]:
    # Whoever claims the slot anew counts the attempt up.
    return and_(
        runs.c.id == claim.run_id, runs.c.owner == claim.owner, runs.c.attempt == claim.attempt
    )


def _literal(name: str, value: object) -> ColumnElement[Any]:
    return literal(value, runs.c[name].type)


def as_abandoned(reason: str, at: datetime) -> dict[str, ColumnElement[Any]]:
    """What to set of a run whose claim ends: it is abandoned for this reason, unless it had ended before it was run again."""
    left = {"status": RunStatus.ABANDONED, "reason": reason, "finished_at": at}
    was_running = runs.c.status == RunStatus.RUNNING
    return {
        name: case((was_running, _literal(name, value)), else_=runs.c[name])
        for name, value in left.items()
    }


def _claim(row: Row[Any], **given: object) -> Claim:
    return from_row(Claim, row, has_ok=row.status == RunStatus.OK, **given)


def _set_earlier_aside(connection: Connection, claim: Claim) -> Claim:
    """Keep the finished run of the slot under a name of its own.

    The claim on a new row, or the same where there is none.
    """
    is_earlier = and_(_is_held(claim), runs.c.status.in_(_FINISHED))
    row = (
        connection.execute(select(runs).where(is_earlier).with_for_update())
        .mappings()
        .one_or_none()
    )
    if row is None:
        return claim
    # The earlier attempt keeps its id, since what it measured refers to it.
    aside = {
        "comparison": kept_name(claim.comparison, claim.attempt - 1),
        "attempt": claim.attempt - 1,
    }
    connection.execute(
        update(runs).where(runs.c.id == claim.run_id).values(claimed_until=None, **aside)
    )
    fresh = {column: value for column, value in row.items() if column != "id"}
    return replace(
        claim, run_id=connection.scalar(runs.insert().values(fresh).returning(runs.c.id))
    )


def _finish_claim(connection: Connection, result: RunResult) -> bool:
    """False when somebody else has claimed the slot since."""
    labelled_at = result.finished_at if result.is_labelled else None
    ended = to_row(
        result,
        runs,
        started_at=result.claim.started_at,
        claimed_until=None,
        labelled_at=labelled_at,
    )
    return (
        connection.execute(update(runs).where(_is_held(result.claim)).values(ended)).rowcount == 1
    )


def _replace_summaries(connection: Connection, run_id: int, found: Sequence[Summary]) -> None:
    """Store summaries in place of the run's summaries of the same metrics, after those of other metrics."""
    metrics = {summary.metric for summary in found}
    for table in (statistics, summaries):
        connection.execute(
            delete(table).where(table.c.run_id == run_id, table.c.metric.in_(metrics))
        )
    last = connection.scalar(
        select(func.max(summaries.c.position)).where(summaries.c.run_id == run_id)
    )
    put_summaries(connection, run_id, found, first=0 if last is None else int(last) + 1)
