"""Stores daily sums of past days, and then deletes expired rows in small steps."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import add
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Double,
    Select,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from monitor.model.alerts import State
from monitor.model.rankings import ALL
from monitor.model.retention import Cutoffs, DataKind, Pruned
from monitor.model.runs import KEPT_MARK, Histogram, RunStatus
from monitor.storage.alert_states import KEY_COLUMNS, WAITING_STATUSES
from monitor.storage.list_pieces import runs_with_unneeded_lists
from monitor.storage.partitions import (
    DEFAULT_PARTITION,
    day_of_slot,
    drop_past,
    ensure_partitions,
    is_settled_before,
    of_run,
    settled_runs_with,
)
from monitor.storage.rows import day_of, lock_names, midnight
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.alert_tables import (
    alert_states,
    deliveries,
    notifications,
    silences,
    transitions,
)
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    daily,
    evidence,
    expectations,
    explanations,
    kept_lists,
    runs,
    scores,
    summaries,
)
from monitor.storage.transactions import Database

_DAY = timedelta(days=1)
_RUNS_AT_ONCE = 20
_SERIES_COLUMNS = (summaries.c.segment, summaries.c.metric)
_SHARE = "share_below("

TRANSITIONS_AT_ONCE = 500
_DAYS_AHEAD = 2
"""Partitions are created this many days ahead, so that no run has to create one."""
DETAIL_TABLES: tuple[Table, ...] = (
    coverage,
    summaries,
    arm_scores,
    expectations,
)
"""Tables with rows for each segment.

Rows of the segment ``all`` stay as long as the run.
"""


def prune(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """Store the daily sums of past days, then delete expired rows and unneeded lists."""
    runs_before = cutoffs[DataKind.RUNS]
    # No data of a run stays longer than the run itself.
    before = {kind: max(cutoff, runs_before) for kind, cutoff in cutoffs.items()}
    daily_before = cutoffs[DataKind.DAILY]
    summaries_before = before[DataKind.SUMMARIES]
    roll_up(database, since=daily_before, summaries_from=summaries_before, now=now)
    next_days = [day_of_slot(now + timedelta(days=ahead)) for ahead in range(_DAYS_AHEAD + 1)]
    ensure_partitions(database, next_days)
    scores_before = before[DataKind.SCORES]
    counts: Counter[str] = Counter()
    # The reasons why partitions could not be dropped now. The next pruning tries again.
    reasons: tuple[str, ...] = ()
    with_scores = settled_runs_with(scores, scores_before)
    if not database.is_sqlite:
        # Whole partitions are dropped. Only the default partition's rows are deleted run by run.
        counts["scores"], reasons = drop_past(database, scores_before)
        with_scores = settled_runs_with(DEFAULT_PARTITION, scores_before)
    counts += _delete_rows_of_runs(database, with_scores, [delete(scores)])
    for selected_runs, deletions in _deletions_of_runs(before, now):
        counts += _delete_rows_of_runs(database, selected_runs, deletions)
    while True:
        deleted = _delete_some_transitions(database, runs_before)
        if not deleted:
            break
        counts += deleted
    old_silences = delete(silences).where(silences.c.ends_at < runs_before)
    old_daily = delete(daily).where(daily.c.day < daily_before)
    with database.write() as connection:
        counts += _execute_deletion(connection, old_silences)
        counts += _execute_deletion(connection, old_daily)
    # The plus sign drops zeros.
    return Pruned(deleted_rows=dict(+counts), put_off=reasons)


def _deletions_of_runs(
    before: Cutoffs, now: datetime
) -> Iterator[tuple[Select[tuple[int]], list[Delete]]]:
    """Yield queries of runs, each with the deletions that apply to these runs.

    The caller deletes scores, because their tables depend on the database.
    """
    for table in (evidence, explanations):
        yield settled_runs_with(table, before[DataKind.EVIDENCE]), [delete(table)]
    yield runs_with_unneeded_lists(before[DataKind.LISTS], now), [delete(kept_lists)]
    # The summaries of today stay, because `roll_up` has only added up past days.
    summaries_before = min(before[DataKind.SUMMARIES], midnight(now))
    delete_details = [delete(table).where(table.c.segment != ALL) for table in DETAIL_TABLES]
    yield _select_runs_with_details(summaries_before), delete_details
    expired = select(runs.c.id).where(is_settled_before(before[DataKind.RUNS]))
    yield expired, [delete(table) for table in (*RUN_TABLES, runs)]


def _delete_rows_of_runs(
    database: Database,
    selected_runs: Select[tuple[int]],
    deletions: Sequence[Delete],
) -> Counter[str]:
    """Apply the deletions to each of the selected runs, oldest slot first.

    Each run has its own transaction. Returns the number of deleted rows of each table.
    """
    counts: Counter[str] = Counter()
    for (run_id,) in database.rows(selected_runs.order_by(runs.c.slot)):
        with database.write() as connection:
            if not _lock_if_selected(connection, selected_runs, run_id):
                continue
            for deletion in deletions:
                of_this_run = of_run(connection, run_id, deletion.table)
                counts += _execute_deletion(connection, deletion.where(of_this_run))
    return counts


def _lock_if_selected(connection: Connection, query: Select[tuple[int]], run_id: int) -> bool:
    """Lock the run until the transaction ends, and return True.

    Returns False in two cases:

    - The query no longer selects the run, because the slot was run again.
    - Another transaction has locked the run. The next pruning deletes the run's rows.
    """
    # With ``key_share``, other transactions may insert rows that refer to the run meanwhile.
    lock_run = (
        query.where(runs.c.id == run_id)
        .order_by(None)
        .with_for_update(of=runs, key_share=True, skip_locked=True)
    )
    return connection.scalar(lock_run) is not None


def _select_runs_with_details(before: datetime) -> Select[tuple[int]]:
    """Select settled runs of earlier slots with rows of other segments than ``all``."""
    has_summaries = exists().where(summaries.c.run_id == runs.c.id, summaries.c.segment != ALL)
    has_coverage = exists().where(coverage.c.run_id == runs.c.id, coverage.c.segment != ALL)
    return select(runs.c.id).where(is_settled_before(before), or_(has_summaries, has_coverage))


def _delete_some_transitions(database: Database, before: datetime) -> Counter[str]:
    """Delete up to `TRANSITIONS_AT_ONCE` transitions and their deliveries.

    Returns the deleted rows by table. The counter is empty if there was nothing to delete.
    """
    prunable = _prunable_transitions(before).limit(TRANSITIONS_AT_ONCE)
    with database.write() as connection:
        ids = list(connection.scalars(prunable))
        is_of_transitions = deliveries.c.transition_id.in_(ids)
        delivery_ids = select(deliveries.c.id).where(is_of_transitions)
        is_of_deliveries = notifications.c.delivery_id.in_(delivery_ids)
        is_in_ids = transitions.c.id.in_(ids)
        counts = _execute_deletion(connection, delete(notifications).where(is_of_deliveries))
        counts += _execute_deletion(connection, delete(deliveries).where(is_of_transitions))
        counts += _execute_deletion(connection, delete(transitions).where(is_in_ids))
    return counts


def _prunable_transitions(before: datetime) -> Select[tuple[int]]:
    """Select transitions of slots before ``before`` that nothing needs any more.

    All transitions of a firing have the same dedup key. A transition is needed in two cases:

    - The alert still fires with this dedup key.
    - A delivery of the transition, or of another transition with this dedup key, still waits.
    """
    # Transitions that belong to no firing have no dedup key, so the ids are compared too.
    other = transitions.alias()
    is_same_or_of_firing = or_(
        other.c.id == transitions.c.id, other.c.dedup_key == transitions.c.dedup_key
    )
    has_waiting_delivery = exists(
        select(deliveries.c.id)
        .join(other, other.c.id == deliveries.c.transition_id)
        .where(is_same_or_of_firing, deliveries.c.status.in_(WAITING_STATUSES))
        .correlate(transitions)
    )
    still_fires = exists().where(
        alert_states.c.state == State.FIRING,
        *(alert_states.c[name] == transitions.c[name] for name in KEY_COLUMNS),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    is_needed = or_(has_waiting_delivery, still_fires)
    return select(transitions.c.id).where(transitions.c.slot < before, ~is_needed)


def _execute_deletion(connection: Connection, statement: Delete) -> Counter[str]:
    """Execute the statement. Return the number of deleted rows, with the table's name as key."""
    # The plus sign drops zeros, so the counter is empty if nothing was deleted.
    return +Counter({str(statement.table): connection.execute(statement).rowcount})


def roll_up(
    database: Database,
    *,
    since: datetime,
    summaries_from: datetime,
    now: datetime,
) -> None:
    """Store daily sums of the summaries of each past day from ``since`` on that has no sums yet.

    The caller deletes the summaries of days before ``summaries_from`` afterwards. The sums of these
    days become final, because they cannot be computed again. Other sums are deleted if a run of the
    day changes.
    """
    with database.write() as connection:
        is_before = daily.c.day < summaries_from
        connection.execute(update(daily).where(is_before, ~daily.c.is_final).values(is_final=True))
    with database.read() as connection:
        days = connection.execute(_days_without_sums(connection, since, now)).all()
    for comparison, day in days:
        with database.write() as connection:
            lock_names(connection, [comparison])
            is_day = and_(daily.c.comparison == comparison, daily.c.day == day)
            if connection.scalar(select(exists().where(is_day))):
                continue  # another process was faster
            is_final = day < summaries_from
            of_day = {"comparison": comparison, "day": day, "is_final": is_final}
            rows = [{**of_day, **sums} for sums in sums_of(connection, comparison, day)]
            if rows:
                connection.execute(daily.insert(), rows)


def _days_without_sums(connection: Connection, since: datetime, now: datetime) -> Select[Any]:
    """Select comparison and midnight of each past day with ok runs but no sums, oldest day first.

    Earlier attempts that are kept as ``NAME@ATTEMPT`` are left out.
    """
    is_counted = and_(
        runs.c.status == RunStatus.OK,
        runs.c.slot >= since,
        runs.c.slot < midnight(now),
        ~runs.c.comparison.contains(KEPT_MARK),
    )
    day = day_of(connection, runs.c.slot).label("day")
    days = select(runs.c.comparison, day).where(is_counted).distinct().subquery()
    has_sums = exists().where(daily.c.comparison == days.c.comparison, daily.c.day == days.c.day)
    # The day of ``since`` is left out if a part of the day is earlier than ``since``.
    is_whole_day = days.c.day >= since
    return select(days).where(is_whole_day, ~has_sums).order_by(days.c.day)


def sums_of(connection: Connection, comparison: str, day: datetime) -> list[dict[str, Any]]:
    """Add up the summaries of the day's ok runs by segment and metric.

    Returns rows of ``daily``. The caller adds the comparison, the day and ``is_final``.
    """
    is_of_day = and_(
        runs.c.comparison == comparison,
        runs.c.slot >= day,
        runs.c.slot < day + _DAY,
        runs.c.status == RunStatus.OK,
    )
    ids = connection.scalars(select(runs.c.id).where(is_of_day)).all()
    users = summaries.c.n  # the number of users
    mean = summaries.c.mean
    error = summaries.c.standard_error
    # If the error of one run is unknown, the error of the day is unknown too.
    has_all_errors = func.count(error) == func.count(mean)
    query = (
        select(
            *_SERIES_COLUMNS,
            func.count().label("runs"),
            func.sum(users).label("n"),
            func.sum(summaries.c.n_undefined).label("n_undefined"),
            _mean_over_users(mean).label("mean"),
            case((has_all_errors, _mean_over_users(error))).label("standard_error"),
            func.min(mean).label("lowest"),
            func.max(mean).label("highest"),
        )
        .where(summaries.c.run_id.in_(ids))
        .group_by(*_SERIES_COLUMNS)
    )
    details = _shares_and_histograms(connection, ids)
    rows = connection.execute(query).mappings()
    return [{**row, **details[row["segment"], row["metric"]]} for row in rows]


def _mean_over_users(value: ColumnElement[float]) -> ColumnElement[float]:
    """Return the mean of the value over the users of all summaries, or NULL without users."""
    total = func.sum(value * summaries.c.n, type_=Double())
    return total / func.nullif(func.sum(summaries.c.n), 0)


def _shares_and_histograms(
    connection: Connection, ids: Sequence[int]
) -> dict[tuple[str, str], dict[str, object]]:
    """Return the columns ``shares_below`` and ``histogram`` of ``daily``, by segment and metric.

    The histogram is None if the runs' histograms have different bins.
    """
    # The numbers of users by series and floor: users with lower scores, and all users.
    users_below: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    histograms: dict[tuple[str, str], Histogram | None] = {}
    for row in _read_summaries(connection, ids):
        series = row.segment, row.metric
        if series in histograms:
            histograms[series] = _add_histograms(histograms[series], row.histogram)
        else:
            histograms[series] = row.histogram
        for name, share in row.statistics.items():
            # The name is, for example, ``share_below(0.5)``. The floor is then ``0.5``.
            if name.startswith(_SHARE):
                floor = name.removeprefix(_SHARE).removesuffix(")")
                users_below[series][floor] += share * row.n
                users[series][floor] += row.n
    details: dict[tuple[str, str], dict[str, object]] = {}
    for series, histogram in histograms.items():
        shares = {}
        for floor, below in users_below[series].items():
            shares[floor] = below / users[series][floor]
        details[series] = {"shares_below": shares, "histogram": histogram}
    return details


def _read_summaries(connection: Connection, ids: Sequence[int]) -> Iterator[Any]:
    """Yield the summaries of these runs. Only some runs are read at once, to save memory."""
    columns = (*_SERIES_COLUMNS, summaries.c.n, summaries.c.statistics, summaries.c.histogram)
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        is_of_runs = summaries.c.run_id.in_(ids[start : start + _RUNS_AT_ONCE])
        yield from connection.execute(select(*columns).where(is_of_runs))


def _add_histograms(total: Histogram | None, histogram: Histogram) -> Histogram | None:
    """Return the sum of the histograms, or None if their bins differ."""
    if total is None or len(total.counts) != len(histogram.counts):
        return None
    if (total.low, total.high) != (histogram.low, histogram.high):
        return None
    return replace(total, counts=tuple(map(add, total.counts, histogram.counts)))
