"""Stores the lists of runs in ``kept_lists``. Each row contains a piece of one arm's lists."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
)

from monitor.model.alerts import State
from monitor.model.errors import DatabaseError
from monitor.model.pages import UserLists
from monitor.model.rankings import Arm
from monitor.model.rules import RuleKind
from monitor.model.runs import KeptLists, RunResult, RunStatus
from monitor.storage.rows import to_row
from monitor.storage.tables.alert_tables import alert_states, transitions
from monitor.storage.tables.run_tables import kept_lists, runs
from monitor.storage.transactions import Database

HAS_LISTS = exists().where(kept_lists.c.run_id == runs.c.id)
"""Whether a run's lists are stored."""

# Each run executes these statements, and building a statement takes longer than executing it.
_LAST_WITH_LISTS = (
    select(runs.c.id, runs.c.slot)
    .where(
        runs.c.comparison == bindparam("comparison"),
        runs.c.status == RunStatus.OK,
        runs.c.slot < bindparam("before"),
        runs.c.k >= bindparam("least_k"),
        HAS_LISTS,
    )
    .order_by(runs.c.slot.desc())
    .limit(1)
)
_PIECES = (
    select(kept_lists.c.arm, kept_lists.c.payload)
    .where(kept_lists.c.run_id == bindparam("run_id"))
    .order_by(kept_lists.c.part)
)


def encode_lists(lists: KeptLists | None) -> list[dict[str, Any]]:
    """Return a row of ``kept_lists``, without ``run_id``, for each piece of the lists.

    Returns no rows if ``lists`` is None.
    """
    if lists is None:
        return []
    # Importing pyarrow is slow, so only functions that read or write lists import it.
    from monitor.storage import list_parquet

    return [to_row(piece, kept_lists) for piece in list_parquet.pack(lists)]


def store_lists(
    connection: Connection,
    result: RunResult,
    pieces: Sequence[dict[str, Any]],
) -> None:
    """Insert a run's lists, and delete earlier lists of the comparison that are no longer needed.

    ``pieces`` are the rows that `encode_lists` returns. The caller stores the alert states first,
    because the states decide which lists are needed.
    """
    # Without new lists, the lists of the last run with lists are still needed.
    if not pieces:
        return
    claim = result.claim
    rows = [{"run_id": claim.run_id, **piece} for piece in pieces]
    connection.execute(kept_lists.insert(), rows)
    new_run = {"comparison": claim.comparison, "slot": claim.slot, "now": result.finished_at}
    connection.execute(_DELETE_SUPERSEDED, new_run)


def load_lists(database: Database, run_id: int) -> KeptLists | None:
    """Return the run's lists, or None if no lists of the run are stored.

    Raises DatabaseError if the lists are damaged.
    """
    pieces: dict[Arm, list[bytes]] = defaultdict(list)
    for arm, payload in database.rows(_PIECES, {"run_id": run_id}):
        pieces[arm].append(payload)
    if not pieces:
        return None
    # Importing pyarrow is slow, so only functions that read or write lists import it.
    from monitor.storage import list_parquet

    try:
        return list_parquet.unpack(pieces)
    except (ValueError, OSError) as error:
        raise DatabaseError(
            f"the stored lists of run {run_id} are damaged ({error}): delete its rows in "
            "kept_lists, or run its slot again"
        ) from None


def lists_of_user(connection: Connection, run_id: int, user: str) -> UserLists | None:
    """Return both lists of one user of the run, or None if the lists are not stored."""
    from monitor.storage import list_parquet

    user_key = list_parquet.encode_user(user)
    # Pieces are large, so only pieces that may contain the user are read.
    may_have_user = and_(kept_lists.c.first_user <= user_key, kept_lists.c.last_user >= user_key)
    query = select(kept_lists.c.arm, kept_lists.c.payload).where(
        kept_lists.c.run_id == run_id, may_have_user
    )
    items_by_arm: dict[str, tuple[str, ...]] = {}
    for arm, payload in connection.execute(query):
        items = list_parquet.find_items(payload, user)
        if items is not None:
            items_by_arm[arm] = items
    if len(items_by_arm) < len(Arm):
        return None
    # The fields of `UserLists` are named like the arms.
    return UserLists(**items_by_arm)


class RunWithLists(NamedTuple):
    """An ok run whose lists are stored."""

    id: int
    slot: datetime


def last_run_with_lists(
    connection: Connection, comparison: str, before: datetime, *, least_k: int = 0
) -> RunWithLists | None:
    """Return the newest run with an earlier slot, status ok and stored lists, or None.

    Runs with a smaller k than ``least_k`` are left out, because the ends of their lists are
    unknown.
    """
    parameters = {"comparison": comparison, "before": before, "least_k": least_k}
    row = connection.execute(_LAST_WITH_LISTS, parameters).first()
    return None if row is None else RunWithLists(*row)


def onset_of(connection: Connection, comparison: str) -> datetime | None:
    """Return when the oldest current drift alert of the comparison began.

    Returns None if all drift alerts are quiet.
    """
    query = _select_onset().where(alert_states.c.comparison == comparison)
    onset: datetime | None = connection.scalar(query)
    return onset


def _select_onset() -> Select[Any]:
    """Select when the oldest current drift alert of all comparisons began."""
    # Alerts on conditions, such as missing users, are not drift. They may last for months.
    conditions = select(transitions.c.alert).where(transitions.c.kind == RuleKind.CONDITION)
    is_drift = and_(alert_states.c.state != State.QUIET, alert_states.c.alert.not_in(conditions))
    return select(func.min(alert_states.c.since)).where(is_drift)


def runs_with_unneeded_lists(
    before: datetime | None, now: datetime | BindParameter[datetime]
) -> Select[tuple[int]]:
    """Select finished runs whose lists can be deleted.

    Lists of slots before ``before`` can always be deleted. For other slots, the lists of these runs
    must stay:

    - the comparison's newest run with status ok and stored lists
    - the newest such run from before the current alerts began
    - runs that wait for relevance
    """
    # ``runs`` is the run that may be selected. ``other`` is any run of the same comparison.
    other = runs.alias()
    newest_slot = select(func.max(other.c.slot)).where(
        other.c.comparison == runs.c.comparison,
        other.c.status == RunStatus.OK,
        exists().where(kept_lists.c.run_id == other.c.id),
    )
    onset = (
        _select_onset()
        .where(alert_states.c.comparison == runs.c.comparison)
        .correlate(runs)
        .scalar_subquery()
    )
    newest_before_onset = newest_slot.where(other.c.slot < onset).correlate(runs).scalar_subquery()
    is_superseded = and_(
        runs.c.slot < newest_slot.correlate(runs).scalar_subquery(),
        runs.c.slot.is_distinct_from(newest_before_onset),
    )
    # Runs that have relevance wait too, because their slots may be run again.
    waits_for_relevance = and_(runs.c.labels_until.is_not(None), runs.c.labels_until > now)
    is_unneeded = and_(is_superseded, ~waits_for_relevance)
    if before is not None:
        is_unneeded = or_(runs.c.slot < before, is_unneeded)
    is_finished = and_(runs.c.status != RunStatus.RUNNING, runs.c.claimed_until.is_(None))
    return select(runs.c.id).where(is_finished, HAS_LISTS, is_unneeded)


_SUPERSEDED = runs_with_unneeded_lists(None, bindparam("now")).where(
    runs.c.comparison == bindparam("comparison"), runs.c.slot < bindparam("slot")
)
_DELETE_SUPERSEDED = delete(kept_lists).where(kept_lists.c.run_id.in_(_SUPERSEDED))
