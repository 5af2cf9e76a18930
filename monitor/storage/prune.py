"""Rolls up past days, and then deletes expired rows in small steps."""

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
    settled_with,
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
    """Roll up past days, then delete expired rows and lists that nothing needs."""
    runs_before = cutoffs[DataKind.RUNS]
    # No data of a run stays longer than the run itself.
    before = {kind: max(cutoff, runs_before) for kind, cutoff in cutoffs.items()}
    daily_before = cutoffs[DataKind.DAILY]
    summaries_before = before[DataKind.SUMMARIES]
    roll_up(database, since=daily_before, complete_from=summaries_before, now=now)
    days = [day_of_slot(now + timedelta(days=ahead)) for ahead in range(_DAYS_AHEAD + 1)]
    ensure_partitions(database, days)
    scores_before = before[DataKind.SCORES]
    counts: Counter[str] = Counter()
    obstacles: tuple[str, ...] = ()
    with_scores = settled_with(scores, scores_before)
    if not database.is_sqlite:
        # Whole partitions are dropped. Only the default partition's rows are deleted run by run.
        counts["scores"], obstacles = drop_past(database, scores_before)
        with_scores = settled_with(DEFAULT_PARTITION, scores_before)
    counts += _delete_of_runs(database, with_scores, [delete(scores)])
    for selected_runs, deletions in _deletions_of_runs(before, now):
        counts += _delete_of_runs(database, selected_runs, deletions)
    while deleted := _delete_some_transitions(database, runs_before):
        counts += deleted
    with database.write() as connection:
        counts += _execute(connection, delete(silences).where(silences.c.ends_at < runs_before))
        counts += _execute(connection, delete(daily).where(daily.c.day < daily_before))
    # The plus sign drops zeros.
    return Pruned(deleted_rows=dict(+counts), put_off=obstacles)


def _deletions_of_runs(
    before: Cutoffs, now: datetime
) -> Iterator[tuple[Select[tuple[int]], list[Delete]]]:
    """Yield queries of runs, each with the deletions to apply to the rows of these runs.

    Scores are left out, because their tables depend on the database.
    """
    for table in (evidence, explanations):
        yield settled_with(table, before[DataKind.EVIDENCE]), [delete(table)]
    yield runs_with_unneeded_lists(before[DataKind.LISTS], now), [delete(kept_lists)]
    # The summaries of a day are deleted after they were rolled up.
    with_details = _with_details(min(before[DataKind.SUMMARIES], midnight(now)))
    yield with_details, [delete(table).where(table.c.segment != ALL) for table in DETAIL_TABLES]
    expired = select(runs.c.id).where(is_settled_before(before[DataKind.RUNS]))
    yield expired, [delete(table) for table in (*RUN_TABLES, runs)]


def _delete_of_runs(
    database: Database,
    selected_runs: Select[tuple[int]],
    deletions: Sequence[Delete],
) -> Counter[str]:
    """Apply the deletions to the rows of each run that the query selects, oldest slot first.

    Each run has its own transaction. Returns the number of deleted rows of each table.
    """
    counts: Counter[str] = Counter()
    for (run_id,) in database.rows(selected_runs.order_by(runs.c.slot)):
        with database.write() as connection:
            if not _lock_if_selected(connection, selected_runs, run_id):
                continue
            for deletion in deletions:
                of_this_run = of_run(connection, run_id, deletion.table)
                counts += _execute(connection, deletion.where(of_this_run))
    return counts


def _lock_if_selected(connection: Connection, query: Select[tuple[int]], run_id: int) -> bool:
    """Lock the run until the transaction ends, if the query still selects it.

    Returns whether the run was locked. It is not locked in two cases, and then its rows stay:

    - The slot was run again since the query ran, so its rows are new.
    - Another transaction has locked the run. The next pruning deletes its rows.
    """
    # With ``key_share``, other transactions may still insert rows that refer to the run.
    lock_run = (
        query.where(runs.c.id == run_id)
        .order_by(None)
        .with_for_update(of=runs, key_share=True, skip_locked=True)
    )
    return connection.scalar(lock_run) is not None


def _with_details(before: datetime) -> Select[tuple[int]]:
    """Select settled runs of older slots that have rows of segments other than ``all``."""
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
        is_of_batch = deliveries.c.transition_id.in_(ids)
        delivery_ids = select(deliveries.c.id).where(is_of_batch)
        is_of_delivery = notifications.c.delivery_id.in_(delivery_ids)
        counts = _execute(connection, delete(notifications).where(is_of_delivery))
        counts += _execute(connection, delete(deliveries).where(is_of_batch))
        counts += _execute(connection, delete(transitions).where(transitions.c.id.in_(ids)))
    return counts


def _prunable_transitions(before: datetime) -> Select[tuple[int]]:
    """Select old transitions whose firing has ended and whose deliveries no longer wait.

    The deliveries of the firing's other transitions must not wait either.
    """
    # ``of_firing`` is the transition itself, or another transition of the same firing.
    of_firing = transitions.alias()
    is_waiting = exists(
        select(deliveries.c.id)
        .join(of_firing, of_firing.c.id == deliveries.c.transition_id)
        .where(
            or_(
                of_firing.c.id == transitions.c.id,
                of_firing.c.dedup_key == transitions.c.dedup_key,
            ),
            deliveries.c.status.in_(WAITING_STATUSES),
        )
        .correlate(transitions)
    )
    is_firing = exists().where(
        alert_states.c.state == State.FIRING,
        *(alert_states.c[name] == transitions.c[name] for name in KEY_COLUMNS),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    return select(transitions.c.id).where(transitions.c.slot < before, ~or_(is_waiting, is_firing))


def _execute(connection: Connection, statement: Delete) -> Counter[str]:
    """Return the number of deleted rows, with the table's name as key."""
    # The plus sign drops zeros, so the counter is empty if nothing was deleted.
    return +Counter({str(statement.table): connection.execute(statement).rowcount})


def roll_up(
    database: Database,
    *,
    since: datetime,
    complete_from: datetime,
    now: datetime,
) -> None:
    """Add up the summaries of each past day from ``since`` on that has ok runs but no sums yet.

    All summaries of days from ``complete_from`` on are still stored. Sums of earlier days become
    final: `SqlRunStore` does not delete them if a run of their day changes, because they cannot be
    computed again.
    """
    with database.write() as connection:
        is_early = daily.c.day < complete_from
        connection.execute(update(daily).where(is_early, ~daily.c.is_final).values(is_final=True))
    with database.read() as connection:
        due = connection.execute(_days_without_sums(connection, since, now)).all()
    # A day before ``complete_from`` may have no sums yet, for example after a pause. Its summaries
    # are still stored, because `prune` deletes them only after this function.
    for comparison, day in due:
        with database.write() as connection:
            lock_names(connection, [comparison])
            is_day = and_(daily.c.comparison == comparison, daily.c.day == day)
            if connection.scalar(select(exists().where(is_day))):
                continue  # another process was faster
            common_columns = {"comparison": comparison, "day": day, "is_final": day < complete_from}
            rows = [{**common_columns, **sums} for sums in sums_of(connection, comparison, day)]
            if rows:
                connection.execute(daily.insert(), rows)


def _days_without_sums(connection: Connection, since: datetime, now: datetime) -> Select[Any]:
    """Select comparison and midnight of each past day that must be rolled up, oldest day first.

    Runs of ``NAME@ATTEMPT`` are not rolled up.
    """
    is_past = and_(
        runs.c.status == RunStatus.OK,
        runs.c.slot >= since,
        runs.c.slot < midnight(now),
        ~runs.c.comparison.contains(KEPT_MARK),
    )
    day = day_of(connection, runs.c.slot).label("day")
    days = select(runs.c.comparison, day).where(is_past).distinct().subquery()
    has_sums = exists().where(daily.c.comparison == days.c.comparison, daily.c.day == days.c.day)
    return select(days).where(days.c.day >= since, ~has_sums).order_by(days.c.day)


def sums_of(connection: Connection, comparison: str, day: datetime) -> list[dict[str, Any]]:
    """Add up the ok runs of the day by segment and metric.

    Returns rows of ``daily``. The caller adds the comparison, the day and ``is_final``.
    """
    is_of_day = and_(
        runs.c.comparison == comparison,
        runs.c.slot >= day,
        runs.c.slot < day + _DAY,
        runs.c.status == RunStatus.OK,
    )
    ids = connection.scalars(select(runs.c.id).where(is_of_day)).all()
    users = summaries.c.n
    mean = summaries.c.mean
    error = summaries.c.standard_error
    # Without the error of one run, the error of the day is not known.
    has_all_errors = func.count(error) == func.count(mean)
    query = (
        select(
            *_SERIES_COLUMNS,
            func.count().label("runs"),
            func.sum(users).label("n"),
            func.sum(summaries.c.n_undefined).label("n_undefined"),
            _over_users(mean).label("mean"),
            case((has_all_errors, _over_users(error))).label("standard_error"),
            func.min(mean).label("lowest"),
            func.max(mean).label("highest"),
        )
        .where(summaries.c.run_id.in_(ids))
        .group_by(*_SERIES_COLUMNS)
    )
    details = _shares_and_histograms(connection, ids)
    rows = connection.execute(query).mappings()
    return [{**row, **details[row["segment"], row["metric"]]} for row in rows]


def _over_users(value: ColumnElement[float]) -> ColumnElement[float]:
    """Return the mean of the value over the users of all summaries. It is NULL without users."""
    total = func.sum(value * summaries.c.n, type_=Double())
    return total / func.nullif(func.sum(summaries.c.n), 0)


def _shares_and_histograms(
    connection: Connection, ids: Sequence[int]
) -> dict[tuple[str, str], dict[str, object]]:
    """Return the shares below floors and the histogram of each segment and metric.

    They are columns of ``daily``. The histogram is None if histograms of the day have different
    bins.
    """
    # The numbers of users by series and floor: users below the floor, and all users.
    users_below: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    histograms: dict[tuple[str, str], Histogram | None] = {}
    for row in _read_summaries(connection, ids):
        series = row.segment, row.metric
        if series in histograms:
            histograms[series] = _add(histograms[series], row.histogram)
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
    """Read the summaries of these runs. Histograms are large, so only some runs are read at once."""
    columns = (*_SERIES_COLUMNS, summaries.c.n, summaries.c.statistics, summaries.c.histogram)
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        is_of_runs = summaries.c.run_id.in_(ids[start : start + _RUNS_AT_ONCE])
        yield from connection.execute(select(*columns).where(is_of_runs))


def _add(total: Histogram | None, histogram: Histogram) -> Histogram | None:
    """Return the sum of the histograms, or None if their bins differ."""
    if total is None or len(total.counts) != len(histogram.counts):
        return None
    if (total.low, total.high) != (histogram.low, histogram.high):
        return None
    return replace(total, counts=tuple(map(add, total.counts, histogram.counts)))
