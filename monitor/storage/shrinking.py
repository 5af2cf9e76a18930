"""Deleting before its age what the database has no room for: scores first, runs and alerts never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import Select, Table, func, select, true

from monitor.model import ALL, Cutoffs, DataKind, Pruned
from monitor.storage import daily as days
from monitor.storage import partitions, pruning, sizes
from monitor.storage.connecting import Database
from monitor.storage.tables import evidence, explanations, kept_lists, runs, scores

FILL = 0.9
"""Room is made down to this part of the largest size, so that what is stored until the next time does not go beyond it."""

_EVER = timedelta(days=36500)
_Step = tuple[Counter[str], int]
"""Rows deleted by table, and about how many bytes that freed (where the database itself cannot tell)."""


def prune(database: Database, cutoffs: Cutoffs, now: datetime, told: pruning.Told = str) -> Pruned:
    """Delete what its age lets go, then what there is no room for."""
    aged = pruning.prune(database, cutoffs, now, told)
    if cutoffs.max_bytes is None:
        return Pruned(rows=dict(aged), aged=_by_kind(aged))
    early, used = _make_room(database, cutoffs.max_bytes, now, told)
    return Pruned(
        rows=dict(aged + early),
        aged=_by_kind(aged),
        early=_by_kind(early),
        used_bytes=used,
        excess_bytes=max(0, used - cutoffs.max_bytes),
    )


def _by_kind(rows: Counter[str]) -> dict[DataKind, int]:
    found: Counter[DataKind] = Counter()
    for table, number in rows.items():
        found[sizes.KIND_OF[table]] += number
    return dict(found)


def _make_room(database: Database, max_bytes: int, now: datetime, told: pruning.Told) -> _Step:
    """Delete the oldest scores, then lists and evidence, then summaries of segments, until the database is small enough.

    The newest run of each comparison keeps all it has. Returns rows deleted by table, and the bytes used then.
    """
    told("size")
    early: Counter[str] = Counter()
    used = _used(database)
    for kind in (_scores, _lists, _evidence, _details):
        for rows, freed in kind(database, now) if used > FILL * max_bytes else ():
            early += rows
            used = _used(database) if database.is_sqlite else used - freed
            if used <= FILL * max_bytes:
                break
    return early, used


def foresee(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """What would be deleted for its age, and by how much the database is too large now; nothing is changed."""
    used = _used(database)
    excess = 0 if cutoffs.max_bytes is None else max(0, used - cutoffs.max_bytes)
    aged = pruning.count(database, cutoffs, now)
    return Pruned(rows=dict(aged), aged=_by_kind(aged), used_bytes=used, excess_bytes=excess)


def _used(database: Database) -> int:
    with database.read() as connection:
        return sizes.used_bytes(connection)


def _scores(database: Database, now: datetime) -> Iterator[_Step]:
    """On PostgreSQL whole partitions, the oldest first: deleting rows would free no room of the file."""
    if database.is_sqlite:
        yield from _by_run(database, scores, now, pruning.delete_scores)
        return
    with database.read() as connection:
        whole = partitions.past(connection, now + _EVER)
    for partition in whole:
        with database.read() as connection:
            rows, used = partitions.rows_of(connection, partition), partitions.bytes_of(connection, partition)
        if not partitions.drop(database, partition):
            return  # somebody uses the table for long: the next time
        yield Counter(scores=rows), used


def _lists(database: Database, now: datetime) -> Iterator[_Step]:
    yield from _by_run(database, kept_lists, now, _deleting(kept_lists))


def _evidence(database: Database, now: datetime) -> Iterator[_Step]:
    for table in (evidence, explanations):
        yield from _by_run(database, table, now, _deleting(table))


def _details(database: Database, now: datetime) -> Iterator[_Step]:
    """Of days that were added up."""
    before = days.midnight(now)
    for run_id in pruning.read_ids(database, _oldest_first(pruning.with_details(before))):
        freed = sum(_bytes_of(database, table, run_id, is_detail=True) for table in pruning.DETAILS)
        yield pruning.delete_details(database, run_id), freed


def _deleting(table: Table) -> Callable[[Database, int], Counter[str]]:
    return lambda database, run_id: pruning.delete_of_run(database, table, run_id)


def _by_run(
    database: Database, table: Table, now: datetime, delete: Callable[[Database, int], Counter[str]]
) -> Iterator[_Step]:
    for run_id in pruning.read_ids(database, _oldest_first(pruning.settled_with(table, now))):
        freed = _bytes_of(database, table, run_id)
        yield delete(database, run_id), freed


def _oldest_first(query: Select[tuple[int]]) -> Select[tuple[int]]:
    """Without the newest run of each comparison."""
    later = runs.alias("later")
    newest = select(func.max(later.c.scheduled_for)).where(later.c.comparison == runs.c.comparison).correlate(runs)
    return query.where(runs.c.scheduled_for < newest.scalar_subquery()).order_by(runs.c.scheduled_for)


def _bytes_of(database: Database, table: Table, run_id: int, *, is_detail: bool = False) -> int:
    """About what the run's rows take on PostgreSQL, keys included; SQLite tells by itself what is free."""
    if database.is_sqlite:
        return 0
    with database.read() as connection:
        condition = table.c.segment != ALL if is_detail else true()
        return sizes.bytes_of_run(connection, table, run_id, condition)
