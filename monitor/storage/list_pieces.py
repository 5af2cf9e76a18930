"""Kept lists as rows of ``kept_lists``, each a piece of one arm's lists: storing, reading, and which are still needed."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    Connection,
    LargeBinary,
    Select,
    and_,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    type_coerce,
)

from monitor.errors import DatabaseError
from monitor.model.alerts import State
from monitor.model.pages import UserLists
from monitor.model.rankings import Arm
from monitor.model.rules import METRIC_LABELS, RuleKind
from monitor.model.runs import KeptLists, RunResult, RunStatus
from monitor.storage.run_results import newest_ok
from monitor.storage.tables.alert_tables import alert_states, transitions
from monitor.storage.tables.run_tables import kept_lists, runs
from monitor.storage.transactions import Database

HAS_LISTS = exists(select(kept_lists.c.run_id).where(kept_lists.c.run_id == runs.c.id))
"""Whether a run's lists are stored."""


def encode_lists(lists: KeptLists | None) -> tuple[tuple[Arm, int, bytes], ...]:
    """Arm, number and bytes of every piece; none without lists."""
    if lists is None:
        return ()
    from monitor.storage import list_parquet

    return tuple(list_parquet.pack(lists))


def store_lists(
    connection: Connection, result: RunResult, pieces: Sequence[tuple[Arm, int, bytes]]
) -> None:
    """Insert a run's lists, and delete earlier ones that neither alerts nor labels wait for.

    Call it once states are stored.
    """
    for arm, part, payload in pieces:
        connection.execute(
            kept_lists.insert().values(
                run_id=result.claim.run_id, arm=arm, part=part, payload=payload
            )
        )
    # Without pieces the last run looked back at is an earlier one.
    if pieces:
        is_earlier = and_(
            runs.c.comparison == result.claim.comparison, runs.c.scheduled_for < result.claim.slot
        )
        superseded = runs_with_unneeded_lists(None, result.finished_at).where(is_earlier)
        connection.execute(delete(kept_lists).where(kept_lists.c.run_id.in_(superseded)))


def read_lists(database: Database, run_id: int) -> KeptLists | None:
    """The lists of the run, None when it kept none; DatabaseError when they cannot be read."""
    query = (
        select(kept_lists.c.arm, kept_lists.c.payload)
        .where(kept_lists.c.run_id == run_id)
        .order_by(kept_lists.c.part)
    )
    pieces: dict[Arm, list[bytes]] = defaultdict(list)
    for arm, payload in database.rows(query):
        pieces[arm].append(payload)
    if not pieces:
        return None
    from monitor.storage import list_parquet

    try:
        return list_parquet.unpack(pieces)
    except ValueError as error:
        msg = (
            f"the lists kept with run {run_id} are damaged ({error}): delete its rows in "
            "kept_lists, or run its slot again"
        )
        raise DatabaseError(msg) from None


def lists_of_user(connection: Connection, run_id: int, user: str) -> UserLists | None:
    """Both lists of one user of the run.

    None where they were not kept. Of the pieces, which are large, few are read whole.
    """
    from monitor.storage import list_parquet

    of_run, arm, part = kept_lists.c.run_id == run_id, kept_lists.c.arm, kept_lists.c.part
    end = func.substr(
        kept_lists.c.payload, func.length(kept_lists.c.payload) - list_parquet.END_BYTES + 1
    )
    ends = connection.execute(
        select(arm, part, type_coerce(end, LargeBinary)).where(of_run).order_by(part)
    ).all()
    found: dict[Arm, tuple[str, ...]] = {}
    for of_arm, number, its_end in ends:
        if of_arm in found or not list_parquet.may_hold(its_end, user):
            continue
        payload = connection.scalar(
            select(kept_lists.c.payload).where(of_run, arm == of_arm, part == number)
        )
        if payload is not None and (items := list_parquet.find_user(payload, user)) is not None:
            found[of_arm] = items
    return (
        UserLists(baseline=found[Arm.BASELINE], candidate=found[Arm.CANDIDATE])
        if len(found) == len(Arm)
        else None
    )


def last_run_with_lists(connection: Connection, comparison: str, before: datetime) -> int | None:
    """The newest ok run of an earlier slot that kept its lists."""
    found: int | None = connection.scalar(
        newest_ok(comparison, runs.c.scheduled_for < before, HAS_LISTS).limit(1)
    )
    return found


def onset_of(connection: Connection, comparison: str) -> datetime | None:
    """Since when alerts on drift of the comparison have been in breach.

    None while all are quiet.
    """
    return cast(
        "datetime | None",
        connection.scalar(_onset().where(alert_states.c.comparison == comparison)),
    )


def _onset() -> Select[Any]:
    # A condition, such as missing users, may last for months and says nothing against the lists.
    conditions = select(transitions.c.alert).where(
        transitions.c.metric == METRIC_LABELS[RuleKind.CONDITION]
    )
    is_drift = and_(alert_states.c.state != State.QUIET, alert_states.c.alert.not_in(conditions))
    return select(func.min(alert_states.c.since)).where(is_drift)


def runs_with_unneeded_lists(before: datetime | None, now: datetime) -> Select[tuple[int]]:
    """Settled runs whose lists can be deleted.

    Those older than ``before``, and those that are neither a comparison's newest ok run, nor the
    newest one from before its alerts that last, nor wait for relevance."""
    later = runs.alias("later")
    newest = select(func.max(later.c.scheduled_for)).where(
        later.c.comparison == runs.c.comparison,
        later.c.status == RunStatus.OK,
        exists(select(kept_lists.c.run_id).where(kept_lists.c.run_id == later.c.id)),
    )
    onset = (
        _onset()
        .where(alert_states.c.comparison == runs.c.comparison)
        .correlate(runs)
        .scalar_subquery()
    )
    former = newest.where(later.c.scheduled_for < onset).correlate(runs).scalar_subquery()
    is_superseded = and_(
        runs.c.scheduled_for < newest.correlate(runs).scalar_subquery(),
        runs.c.scheduled_for.is_distinct_from(former),
    )
    # Relevance may still arrive, or arrive again where the slot is run again.
    waits = and_(runs.c.labels_until.is_not(None), runs.c.labels_until > now)
    is_past = or_(
        false() if before is None else runs.c.scheduled_for < before, and_(is_superseded, ~waits)
    )
    is_settled = and_(runs.c.status != RunStatus.RUNNING, runs.c.claimed_until.is_(None))
    return select(runs.c.id).where(is_settled, HAS_LISTS, is_past)
