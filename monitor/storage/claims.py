"""Claims on slots: rows of ``runs`` taken and given back by one conditional statement each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    ScalarSelect,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)

from monitor.model import Claim, RunResult, RunStatus
from monitor.storage.dialects import insert
from monitor.storage.tables import runs

_FINISHED = (RunStatus.OK, RunStatus.INSUFFICIENT, RunStatus.FAILED)
_RELEASED = "given back unrun"
_EXPIRED = "its claim ran out: the process that ran it was stopped or hung"
_TAKEN_OVER = "the daemon that ran it was stopped, frozen or cut off: another took over under epoch {epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A claim that somebody asks for. ``epoch``: of the lease it is asked under, None for a command."""

    comparison: str
    slot: datetime
    owner: str
    now: datetime
    until: datetime
    config_hash: str
    rerun: bool
    epoch: int | None = None


def claim(connection: Connection, wanted: Wanted) -> Claim | None:
    """Take the slot, as the port says."""
    if not _take_fresh(connection, wanted) and not _take_over(connection, wanted):
        return None
    is_it = and_(runs.c.comparison == wanted.comparison, runs.c.scheduled_for == wanted.slot)
    run_id, attempt, status = connection.execute(select(runs.c.id, runs.c.attempt, runs.c.status).where(is_it)).one()
    return Claim(
        run_id=run_id,
        comparison=wanted.comparison,
        slot=wanted.slot,
        owner=wanted.owner,
        attempt=attempt,
        started_at=wanted.now,
        until=wanted.until,
        has_ok=status == RunStatus.OK,
    )


def holding(connection: Connection, comparison: str, slot: datetime) -> Claim | None:
    """The claim that is held on the slot, as the port says."""
    is_it = and_(runs.c.comparison == comparison, runs.c.scheduled_for == slot, runs.c.claimed_until.is_not(None))
    row = connection.execute(select(runs).where(is_it)).one_or_none()
    if row is None:
        return None
    return Claim(
        run_id=row.id,
        comparison=row.comparison,
        slot=row.scheduled_for,
        owner=row.owner,
        attempt=row.attempt,
        started_at=row.started_at,
        until=row.claimed_until,
        has_ok=row.status == RunStatus.OK,
    )


def _take_fresh(connection: Connection, wanted: Wanted) -> bool:
    """Take a slot that was never run; of several callers the unique key lets one through."""
    fresh = insert(connection, runs).values(
        comparison=wanted.comparison,
        scheduled_for=wanted.slot,
        status=RunStatus.RUNNING,
        config_hash=wanted.config_hash,
        owner=wanted.owner,
        attempt=1,
        claimed_until=wanted.until,
        started_at=wanted.now,
        epoch=wanted.epoch,
    )
    inserted = connection.execute(fresh.on_conflict_do_nothing(), execution_options={"preserve_rowcount": True})
    return inserted.rowcount == 1


def _take_over(connection: Connection, wanted: Wanted) -> bool:
    """Take a slot that has a row; what a finished run shows stays until ``finish`` replaces it."""
    is_it = and_(runs.c.comparison == wanted.comparison, runs.c.scheduled_for == wanted.slot)
    is_free = or_(runs.c.claimed_until.is_(None), runs.c.claimed_until <= wanted.now)
    is_finished = runs.c.status.in_(_FINISHED)
    begun = {
        "status": RunStatus.RUNNING,
        "config_hash": wanted.config_hash,
        "started_at": wanted.now,
        "finished_at": None,
        "reason": None,
    }
    values = {name: case((is_finished, runs.c[name]), else_=literal(begun[name], runs.c[name].type)) for name in begun}
    taken = update(runs).where(is_it, is_free, or_(~is_finished, literal(wanted.rerun, Boolean)))
    claimed = taken.values(
        owner=wanted.owner, attempt=runs.c.attempt + 1, claimed_until=wanted.until, epoch=wanted.epoch, **values
    )
    return connection.execute(claimed).rowcount == 1


def release(connection: Connection, claim: Claim) -> None:
    """Give the claim back, if it is still held."""
    is_mine = held(claim)
    never_run = and_(is_mine, runs.c.status == RunStatus.RUNNING, runs.c.attempt == 1)
    if connection.execute(delete(runs).where(never_run)).rowcount == 1:
        return
    left = {"status": RunStatus.ABANDONED, "reason": _RELEASED, "finished_at": claim.started_at}
    was_running = runs.c.status == RunStatus.RUNNING
    values = {name: case((was_running, literal(left[name], runs.c[name].type)), else_=runs.c[name]) for name in left}
    connection.execute(update(runs).where(is_mine).values(claimed_until=None, **values))


def abandon(connection: Connection, claim: Claim, *, reason: str, at: datetime) -> bool:
    """Take the slot from whoever holds the claim: with the attempt counted up, what he may still store is refused.

    A finished run whose rerun is abandoned shows its results as before.
    """
    left = {"status": RunStatus.ABANDONED, "reason": reason, "finished_at": at}
    was_running = runs.c.status == RunStatus.RUNNING
    values = {name: case((was_running, literal(left[name], runs.c[name].type)), else_=runs.c[name]) for name in left}
    taken = update(runs).where(held(claim), runs.c.claimed_until.is_not(None))
    return connection.execute(taken.values(claimed_until=None, attempt=runs.c.attempt + 1, **values)).rowcount == 1


def abandon_expired(connection: Connection, now: datetime, sparing: Collection[int]) -> int:
    """Mark runs whose claim ran out; finished runs whose rerun did not end show their results as before."""
    expired = and_(runs.c.claimed_until <= now, runs.c.id.not_in(list(sparing)))
    is_running = runs.c.status == RunStatus.RUNNING
    values = {"status": RunStatus.ABANDONED, "reason": _EXPIRED, "finished_at": now, "claimed_until": None}
    count: int = connection.execute(update(runs).where(expired, is_running).values(values)).rowcount
    connection.execute(update(runs).where(expired, ~is_running).values(claimed_until=None))
    return count


def abandon_before(connection: Connection, epoch: int, now: datetime) -> Mapping[str, int]:
    """Take from earlier epochs what they claimed, as `abandon` does; runs marked as abandoned by comparison."""
    of_them = and_(runs.c.epoch < epoch, runs.c.claimed_until.is_not(None))
    taken = update(runs).where(of_them).values(claimed_until=None, attempt=runs.c.attempt + 1)
    left = {"status": RunStatus.ABANDONED, "reason": _TAKEN_OVER.format(epoch=epoch), "finished_at": now}
    unfinished = taken.where(runs.c.status == RunStatus.RUNNING).values(**left).returning(runs.c.comparison)
    counts = Counter(connection.scalars(unfinished))
    connection.execute(taken)
    return dict(counts)


def conclude(connection: Connection, result: RunResult) -> bool:
    """Write the result's own row and end the claim; False when somebody else has claimed the slot since."""
    ended = connection.execute(
        update(runs)
        .where(held(result.claim))
        .values(
            status=result.status,
            reason=result.reason,
            finished_at=result.finished_at,
            started_at=result.claim.started_at,
            config_hash=result.config_hash,
            k=result.k,
            catalogue_size=result.catalogue_size,
            labels_until=result.labels_until,
            labelled_at=result.finished_at if result.is_labelled else None,
            claimed_until=None,
        )
    )
    return ended.rowcount == 1


def is_settled_before(before: datetime) -> ColumnElement[bool]:
    """Runs of older slots that nobody is at."""
    return and_(runs.c.scheduled_for < before, runs.c.status != RunStatus.RUNNING, runs.c.claimed_until.is_(None))


def is_newest() -> ColumnElement[bool]:
    """The newest ok run of its comparison; where there is none, the newest run."""
    later = runs.alias("later")

    def newest(*conditions: ColumnElement[bool]) -> ScalarSelect[datetime]:
        query = select(func.max(later.c.scheduled_for)).where(later.c.comparison == runs.c.comparison, *conditions)
        return query.correlate(runs).scalar_subquery()

    return runs.c.scheduled_for == func.coalesce(newest(later.c.status == RunStatus.OK), newest())


def held(claim: Claim) -> ColumnElement[bool]:
    """Whether nobody has claimed the slot since: owner and attempt are still those of the claim."""
    return and_(runs.c.id == claim.run_id, runs.c.owner == claim.owner, runs.c.attempt == claim.attempt)


def last_slot(connection: Connection, comparison: str) -> datetime | None:
    """Newest slot ever claimed."""
    newest: datetime | None = connection.execute(
        select(func.max(runs.c.scheduled_for)).where(runs.c.comparison == comparison)
    ).scalar()
    return newest
