"""SqlRunStore stores claims on slots, and the results of runs.

Each change of a claim is one conditional statement, so that only one of several callers succeeds.
"""

# ruff: noqa: D102 - the methods of the port have their docstrings there

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import chain, islice
from typing import Any

from sqlalchemy import (
    Boolean,
    Case,
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from monitor.model.runs import Claim, Run, RunResult, RunStatus, Scores, Summary, kept_name
from monitor.storage import list_pieces
from monitor.storage.alert_states import store_alerts
from monitor.storage.partitions import day_of_slot, ensure_partitions
from monitor.storage.rows import from_row, from_rows, insert_in, lock_names, midnight, to_row
from monitor.storage.run_history import WAITS_FOR_RELEVANCE
from monitor.storage.run_results import RUN_ROWS, delete_results, insert_results, store_results
from monitor.storage.tables.run_tables import daily, runs, summaries
from monitor.storage.transactions import DatabasePart
from monitor.storage.user_scores import replace_scores

_STATUSES_AT_END = (RunStatus.OK, RunStatus.INSUFFICIENT, RunStatus.FAILED)
_NOT_IN_RUNS = frozenset(
    {"coverage", "summaries", "scores", "evidence", "arm_scores", "lists", "explanation"}
    | {"is_labelled", "pull_seconds", "gap_s", "id_mismatches", "claim"}
    | {"states", "transitions", "expectations"}
)
"""Fields of a result that are stored in other tables, or not at all."""

_IS_HELD = and_(
    runs.c.id == bindparam("held_id"),
    runs.c.owner == bindparam("holder"),
    # If another process has claimed the slot, ``attempt`` is higher.
    runs.c.attempt == bindparam("held_attempt"),
)
"""Whether a run is still held by the claim whose values are `_held_by`."""

# Each run executes these statements, and building a statement takes longer than executing it.
_FINISH = update(runs).where(_IS_HELD)
_FINISHED_ATTEMPT = (
    select(runs).where(_IS_HELD, runs.c.status.in_(_STATUSES_AT_END)).with_for_update()
)
_DELETE_DAILY_SUMS = delete(daily).where(
    daily.c.comparison == bindparam("name"), daily.c.day == bindparam("midnight"), ~daily.c.is_final
)

_RELEASED = "the slot was given back before the run began"
_EXPIRED = "its claim expired: the process that ran it was stopped or hung"


class SqlRunStore(DatabasePart):
    """Implements the port RunStore, with claims and results that only the service uses."""

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
        """Claim the slot for one run. Return None if the slot cannot be claimed.

        If several callers try, exactly one gets the claim. A slot can be claimed if it was never
        run, if its run is ``abandoned``, or if it is still ``running`` after the claim's ``until``.
        With ``rerun``, a finished slot can be claimed too. The earlier status and results stay
        until ``finish`` replaces them.
        """
        # The epoch is the number of the daemon's lease.
        claimed = {"owner": owner, "claimed_until": until, "epoch": self._database.epoch}
        begun = {
            "status": RunStatus.RUNNING,
            "config_hash": config_hash,
            "started_at": now,
            "finished_at": None,
            "reason": None,
            "reasons": None,
        }
        first_attempt = {"comparison": comparison, "slot": slot, "attempt": 1, **claimed, **begun}
        with self._database.write() as connection:
            # The unique key lets only one of several callers insert the slot.
            insert_slot = _insert_slot(connection.dialect.name)
            row = connection.execute(insert_slot, first_attempt).one_or_none()
            if row is None:
                is_free = or_(runs.c.claimed_until.is_(None), runs.c.claimed_until <= now)
                is_finished = runs.c.status.in_(_STATUSES_AT_END)
                may_run = or_(~is_finished, literal(rerun, Boolean))
                take_over = update(runs).where(_is_slot(comparison, slot), is_free, may_run)
                # People see the earlier result of a finished slot until `finish` replaces it.
                begun_if_unfinished = _new_values_unless(is_finished, begun)
                new_attempt = take_over.values(
                    attempt=runs.c.attempt + 1, **claimed, **begun_if_unfinished
                )
                row = connection.execute(new_attempt.returning(runs)).one_or_none()
        return None if row is None else _to_claim(row, started_at=now)

    def held_claim(self, comparison: str, slot: datetime) -> Claim | None:
        """Return the claim on the slot, even if it has expired. Return None without a claim."""
        query = select(runs).where(_is_slot(comparison, slot), runs.c.claimed_until.is_not(None))
        rows = self._database.rows(query)
        return _to_claim(rows[0]) if rows else None

    def release(self, claim: Claim) -> None:
        """Give up a claim without having run the slot.

        - If this is the first attempt, the run's row is deleted.
        - If an earlier attempt has finished, the run keeps the earlier status and results.
        - Otherwise the run becomes abandoned.
        """
        is_first_attempt = and_(runs.c.status == RunStatus.RUNNING, runs.c.attempt == 1)
        delete_first_attempt = delete(runs).where(_IS_HELD, is_first_attempt)
        abandoned_if_running = abandoned_unless_finished(_RELEASED, claim.started_at)
        give_up = update(runs).where(_IS_HELD).values(claimed_until=None, **abandoned_if_running)
        with self._database.write() as connection:
            connection.execute(delete_first_attempt, _held_by(claim))
            # If the row was deleted, this finds no row.
            connection.execute(give_up, _held_by(claim))

    def finish(self, result: RunResult, *, receivers: Sequence[str]) -> int | None:
        """Store a complete result in one transaction, and return the run's number.

        - Replaces the result of an earlier attempt for the slot. If the claim keeps the earlier
          attempt, this run gets a new number.
        - Stores a delivery to each of ``receivers`` for each alert that begins. A new receiver also
          gets a delivery for each alert that already fires. The end of an alert is delivered to the
          receivers that have a delivery of the start.
        - Stores only the alert states and transitions that `admit_states` allows.
        - Deletes stored lists of earlier slots that are no longer needed.

        A second call changes nothing. If another process has taken over the claim, nothing is
        stored, and None is returned.
        """
        # Slow steps come before the transaction, because other writers wait until it ends.
        pieces = list_pieces.encode_lists(result.lists)
        if result.scores is not None:
            ensure_partitions(self._database, [day_of_slot(result.claim.slot)])
            result = replace(result, scores=_sort_before_transaction(result.scores))
        with self._database.write() as connection:
            claim = _remove_earlier_results(connection, result.claim)
            result = replace(result, claim=claim)
            if not _finish_claim(connection, result):
                return None
            _delete_daily_sums(connection, claim.comparison, claim.slot)
            store_results(connection, result)
            store_alerts(connection, result.states, result.transitions, receivers)
            # The stored alert states decide which lists are still needed.
            list_pieces.store_lists(connection, result, pieces)
            return claim.run_id

    def abandon_expired(self, now: datetime, *, sparing: Collection[int] = ()) -> int:
        """Mark runs with expired claims as abandoned, except runs with ids in ``sparing``.

        Returns the number of marked runs.
        """
        end_claims = (
            update(runs)
            .where(runs.c.claimed_until <= now, runs.c.id.not_in(list(sparing)))
            .values(claimed_until=None, **abandoned_unless_finished(_EXPIRED, now))
            .returning(runs.c.status)
        )
        with self._database.write() as connection:
            statuses = connection.scalars(end_claims).all()
        # A finished slot that was run again has kept the status of its earlier result.
        return statuses.count(RunStatus.ABANDONED)

    def awaiting_relevance(self, comparison: str, *, since: datetime) -> tuple[Run, ...]:
        is_wanted = and_(
            runs.c.comparison == comparison,
            runs.c.slot >= since,
            runs.c.claimed_until.is_(None),
        )
        query = RUN_ROWS.where(WAITS_FOR_RELEVANCE, is_wanted).order_by(runs.c.slot)
        return from_rows(Run, self._database.rows(query))

    def store_relevance(
        self,
        run: Run,
        *,
        summaries: Sequence[Summary],
        scores: Scores | None,
        at: datetime,
    ) -> bool:
        if scores is not None:
            ensure_partitions(self._database, [day_of_slot(run.slot)])
        # If the slot is run again, the attempt's number is higher, or the slot is claimed.
        is_same_attempt = and_(
            runs.c.id == run.id, runs.c.attempt == run.attempt, runs.c.claimed_until.is_(None)
        )
        set_labelled = update(runs).where(is_same_attempt).values(labelled_at=at)
        with self._database.write() as connection:
            if connection.execute(set_labelled).rowcount != 1:
                return False
            _delete_daily_sums(connection, run.comparison, run.slot)
            _replace_summaries(connection, run.id, summaries)
            if scores is not None:
                replace_scores(connection, run.id, run.slot, scores)
            return True


@cache
def _insert_slot(dialect: str) -> ReturningInsert[Any]:
    return insert_in(dialect, runs).on_conflict_do_nothing().returning(runs)


def _sort_before_transaction(blocks: Iterable[Scores]) -> Iterable[Scores]:
    """Return the same blocks, and compute the first block now.

    Computing the first block may sort all users. This is slow, so it must not be a part of a
    transaction.
    """
    remaining = iter(blocks)
    first = list(islice(remaining, 1))
    return chain(first, remaining)


def _is_slot(comparison: str, slot: datetime) -> ColumnElement[bool]:
    return and_(runs.c.comparison == comparison, runs.c.slot == slot)


def _held_by(claim: Claim) -> dict[str, object]:
    """Return the parameters of `_IS_HELD`."""
    return {"held_id": claim.run_id, "holder": claim.owner, "held_attempt": claim.attempt}


def _new_values_unless(
    condition: ColumnElement[bool], new: Mapping[str, object]
) -> dict[str, Case[Any]]:
    """Return SQL for the new values of columns of ``runs``, by the columns' names.

    In rows that meet the condition, the columns keep the old values.
    """
    values = {}
    for name, value in new.items():
        column = runs.c[name]
        values[name] = case((condition, column), else_=literal(value, column.type))
    return values


def abandoned_unless_finished(reason: str, at: datetime) -> dict[str, Case[Any]]:
    """Return SQL for the new values of a run whose claim ends before the run has finished.

    A run with the status ``running`` becomes abandoned. If a finished slot was run again, the run
    has another status, and keeps the values of the earlier result.
    """
    abandoned = {"status": RunStatus.ABANDONED, "reason": reason, "finished_at": at}
    return _new_values_unless(runs.c.status != RunStatus.RUNNING, abandoned)


def _to_claim(row: Row[Any], **others: object) -> Claim:
    """Return the claim in a row of ``runs``. ``others`` replace values of the row."""
    # If a finished slot is run again, the row still has the status of the earlier attempt.
    return from_row(
        Claim,
        row,
        run_id=row.id,
        until=row.claimed_until,
        has_ok_run=row.status == RunStatus.OK,
        **others,
    )


def _remove_earlier_results(connection: Connection, claim: Claim) -> Claim:
    """Delete the results of an earlier finished attempt, or keep them as another run.

    Returns the claim. If the earlier attempt is kept, the claim has the id of a new row.
    """
    earlier = connection.execute(_FINISHED_ATTEMPT, _held_by(claim)).mappings().one_or_none()
    if earlier is None:
        # Only finished runs have results.
        return claim
    if claim.keeps_earlier:
        return _keep_earlier_attempt(connection, claim, earlier)
    delete_results(connection, claim.run_id)
    return claim


def _keep_earlier_attempt(connection: Connection, claim: Claim, row: RowMapping) -> Claim:
    """Rename the finished run in ``row``, and insert a new row for the claim.

    Returns the claim with the id of the new row.
    """
    # The earlier attempt keeps its id, because the rows of its results contain this id.
    attempt = claim.attempt - 1
    earlier_values = {
        "claimed_until": None,
        "attempt": attempt,
        "comparison": kept_name(claim.comparison, attempt),
    }
    connection.execute(update(runs).where(runs.c.id == claim.run_id).values(earlier_values))
    # The other values, including the claim, are copied.
    new_row = dict(row)
    del new_row["id"]
    run_id = connection.scalar(runs.insert().values(new_row).returning(runs.c.id))
    return replace(claim, run_id=run_id)


def _finish_claim(connection: Connection, result: RunResult) -> bool:
    """Store the run's row and end the claim. Return False if another process has the claim."""
    values = to_row(
        result,
        runs,
        without=_NOT_IN_RUNS,
        started_at=result.claim.started_at,
        claimed_until=None,
        labelled_at=result.finished_at if result.is_labelled else None,
    )
    finished = connection.execute(_FINISH, {**values, **_held_by(result.claim)})
    return finished.rowcount == 1


def _delete_daily_sums(connection: Connection, comparison: str, slot: datetime) -> None:
    """Delete the daily sums of the slot's day, unless they are final. `roll_up` adds up again."""
    lock_names(connection, [comparison])
    connection.execute(_DELETE_DAILY_SUMS, {"name": comparison, "midnight": midnight(slot)})


def _replace_summaries(connection: Connection, run_id: int, measured: Sequence[Summary]) -> None:
    """Replace the run's summaries of the same metrics.

    The new summaries get positions after the summaries of other metrics.
    """
    metrics = {summary.metric for summary in measured}
    is_of_run = summaries.c.run_id == run_id
    connection.execute(delete(summaries).where(is_of_run, summaries.c.metric.in_(metrics)))
    last_position = connection.scalar(select(func.max(summaries.c.position)).where(is_of_run))
    first_position = 0 if last_position is None else last_position + 1
    insert_results(connection, run_id, Summary, measured, first_position=first_position)
