"""The size of the database by kind of data, and VACUUM."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, Table, exists, func, literal, literal_column, select, text

from monitor.errors import DatabaseError
from monitor.model import DatabaseSize, DataKind, KindSize
from monitor.storage import partitions
from monitor.storage.database_url import describe, file_of
from monitor.storage.dialects import is_sqlite, quoted
from monitor.storage.tables import (
    alert_states,
    arm_scores,
    coverage,
    coverage_reasons,
    daily,
    deliveries,
    evidence,
    expectations,
    explanations,
    kept_lists,
    leases,
    lessons,
    metrics,
    notifications,
    runs,
    scores,
    silences,
    splits,
    stages,
    standstills,
    statistics,
    summaries,
    transitions,
)
from monitor.storage.transactions import Database

TABLES: Mapping[DataKind, tuple[Table, ...]] = {
    DataKind.SCORES: (scores,),
    DataKind.LISTS: (kept_lists,),
    DataKind.EVIDENCE: (evidence, explanations),
    DataKind.SUMMARIES: (summaries, statistics, coverage, coverage_reasons, arm_scores, expectations),
    DataKind.DAILY: (daily,),
    DataKind.RUNS: (runs, stages, lessons, standstills, splits, metrics, leases),
    DataKind.ALERTS: (alert_states, transitions, deliveries, notifications, silences),
}
"""The tables of each kind; the first tells how many runs hold any."""
KIND_OF: Mapping[str, DataKind] = {str(table): kind for kind, tables in TABLES.items() for table in tables}

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_COUNTED_BYTES = 1 << 26
"""Up to this size rows are counted."""
_SAMPLED_PAGES = 50
_SEED = 7
"""The same pages each time: what did not change measures the same."""
_REFRESH_S = 900.0
"""How long counting a table anew may take, beside which everybody goes on."""
_ROW_OVERHEAD = 28
"""Bytes of a row of PostgreSQL beside its columns."""


def used_bytes(connection: Connection) -> int:
    """Bytes that hold data, room that is free inside the files not counted."""
    if is_sqlite(connection):
        return (_pragma(connection, "page_count") - _pragma(connection, "freelist_count")) * _pragma(connection, "page_size")
    return sum(bytes_by_kind(connection).values())


def bytes_by_kind(connection: Connection) -> dict[DataKind, int]:
    """Used bytes of each kind."""
    if is_sqlite(connection):
        return _sqlite_bytes(connection)
    return {kind: sum(_postgres_used(connection, table) for table in tables) for kind, tables in TABLES.items()}


def file_bytes(connection: Connection) -> int:
    """Bytes on disk, free room inside the files included; the log of SQLite or PostgreSQL is not."""
    if is_sqlite(connection):
        return _pragma(connection, "page_count") * _pragma(connection, "page_size")
    return sum(_postgres_file(connection, table) for tables in TABLES.values() for table in tables)


def measure(database: Database) -> DatabaseSize:
    """Everything that `rankwatch db size` tells."""
    with database.read() as connection:
        found = bytes_by_kind(connection)
        kinds = tuple(_kind(connection, kind, found[kind]) for kind in DataKind)
        return DatabaseSize(
            used_bytes=used_bytes(connection),
            file_bytes=file_bytes(connection),
            kinds=kinds,
            runs_per_day=_runs_per_day(connection),
            lasting_bytes=partitions.lasting_bytes(connection, datetime.now(UTC)),
        )


def refresh(database: Database, changed: Iterable[str]) -> list[str]:
    """Have PostgreSQL count anew the rows of large tables that rows were deleted from; where it did not, in words.

    It believes otherwise in what was there before, until autovacuum comes by; VACUUM lets the room be used again besides.
    """
    if database.is_sqlite:
        return []
    with database.read() as connection:
        tables = [table for tables in TABLES.values() for table in tables if table.name in changed and table is not scores]
        large = [table.name for table in tables if _postgres_file(connection, table) > _COUNTED_BYTES]
    given_up = [name for name in large if not database.alone(f"VACUUM (ANALYZE) {quoted(name)}", patience_s=_REFRESH_S)]
    return [f"{name} was not counted anew: VACUUM took longer than {_REFRESH_S:.0f} s" for name in given_up]


def _kind(connection: Connection, kind: DataKind, used: int) -> KindSize:
    tables = TABLES[kind]
    holding, oldest = _holding(connection, tables[0])
    counted = [_rows(connection, table, holding) for table in tables]
    return KindSize(
        kind=kind,
        used_bytes=used,
        rows=sum(rows for rows, _ in counted),
        is_estimate=any(is_estimate for _, is_estimate in counted),
        runs=holding,
        oldest=oldest,
        grows=kind is not DataKind.LISTS or holding > _comparisons(connection),
    )


def _comparisons(connection: Connection) -> int:
    return int(connection.scalar(select(func.count(runs.c.comparison.distinct()))) or 0)


def _holding(connection: Connection, table: Table) -> tuple[int, datetime | None]:
    """How many runs hold rows of the table, and the slot of the oldest; of days likewise, of alerts the oldest transition."""
    if table is alert_states:
        return 0, connection.scalar(select(func.min(transitions.c.scheduled_for)))
    if table is daily:
        return 0, connection.scalar(select(func.min(daily.c.day)))
    query = select(func.count(), func.min(runs.c.scheduled_for))
    if table is not runs:
        query = query.where(exists(select(table.c.run_id).where(table.c.run_id == runs.c.id)))
    count, oldest = connection.execute(query).one()
    return count, oldest


def _runs_per_day(connection: Connection) -> float:
    """What comparisons come to that had slots in the week before the newest: each as often as its slots follow each other.

    One that has but one run counts as daily.
    """
    newest = connection.scalar(select(func.max(runs.c.scheduled_for)))
    if newest is None:
        return 0.0
    slots = func.count(), func.min(runs.c.scheduled_for), func.max(runs.c.scheduled_for)
    late = select(*slots).where(runs.c.scheduled_for > newest - _WEEK).group_by(runs.c.comparison)
    day = timedelta(days=1)
    return float(
        sum((count - 1) * day / (last - first) if count > 1 else 1.0 for count, first, last in connection.execute(late))
    )


def _rows(connection: Connection, table: Table, holding: int) -> tuple[int, bool]:
    """Rows of the table, and whether they are estimated: of scores in SQLite from some runs, in PostgreSQL by the server."""
    if is_sqlite(connection):
        return _sampled_scores(connection, holding) if table is scores else (_count(connection, table), False)
    if table is scores:
        found = partitions.read(connection)
        return sum(partitions.rows_of(connection, each) for each in found), partitions.is_estimated(connection, found)
    if _postgres_file(connection, table) <= _COUNTED_BYTES or (believed := _believed(connection, table)) < 0:
        return _count(connection, table), False
    return believed, True


def _sampled_scores(connection: Connection, holding: int) -> tuple[int, bool]:
    has_scores = exists(select(scores.c.run_id).where(scores.c.run_id == runs.c.id))
    step = max(1, holding // 10)
    ids = list(connection.scalars(select(runs.c.id).where(has_scores).order_by(runs.c.id)))[::step]
    counted = sum(connection.scalar(select(func.count()).where(scores.c.run_id == run_id)) or 0 for run_id in ids)
    return (round(counted / len(ids) * holding), step > 1) if ids else (0, False)


def _count(connection: Connection, table: Table) -> int:
    return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _sqlite_bytes(connection: Connection) -> dict[DataKind, int]:
    """Pages of tables and their indexes; of scores those that nobody else fills."""
    pages = text(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE"
        " AND name IN (SELECT name FROM sqlite_master WHERE tbl_name = :table)"
    )
    found = {
        kind: sum(int(connection.execute(pages, {"table": table.name}).scalar_one()) for table in tables)
        for kind, tables in TABLES.items()
        if kind is not DataKind.SCORES
    }
    return {DataKind.SCORES: max(0, used_bytes(connection) - sum(found.values()))} | found


def _postgres_file(connection: Connection, table: Table) -> int:
    """Bytes on disk with indexes and what is stored out of line; of scores all partitions, those too that are to be dropped."""
    tree = text("SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_partition_tree(to_regclass(:name))")
    whole = text("SELECT pg_total_relation_size(to_regclass(:name))")
    found = int(connection.execute(tree if table is scores else whole, {"name": table.name}).scalar_one() or 0)
    left = [each.partition for each in partitions.leavers(connection)] if table is scores else []
    return found + sum(partitions.bytes_of(connection, each) for each in left)


def _postgres_used(connection: Connection, table: Table) -> int:
    """Bytes on disk, less what seems to be free inside: rows times the mean size of some of them say how full it is."""
    if table is scores:
        return _postgres_file(connection, table)
    size = text(
        "SELECT pg_total_relation_size(oid), pg_table_size(oid), pg_relation_size(oid) / 8192, reltuples"
        " FROM pg_class WHERE oid = to_regclass(:name)"
    )
    total, heap, pages, believed = connection.execute(size, {"name": table.name}).one()
    is_small = total <= _COUNTED_BYTES or believed < 0
    filled = _filled_bytes(connection, table) if is_small else believed * _row_bytes(connection, table, int(pages))
    return int(total * min(1.0, filled / max(1, int(heap))))


def bytes_of_run(connection: Connection, table: Table, run_id: int, condition: ColumnElement[bool]) -> int:
    """About what the run's rows of this condition take on PostgreSQL, their share of the keys included."""
    query = select(func.sum(_widths(table) + _ROW_OVERHEAD)).where(table.c.run_id == run_id, condition)
    size = text("SELECT pg_total_relation_size(to_regclass(:name)), pg_table_size(to_regclass(:name))")
    whole, heap = connection.execute(size, {"name": table.name}).one()
    return int((connection.scalar(query) or 0) * whole / max(1, heap))


def _row_bytes(connection: Connection, table: Table, pages: int) -> float:
    """Mean bytes of a row as it is stored, of some pages."""
    sample = table.tablesample(func.system(min(100.0, 100.0 * _SAMPLED_PAGES / max(1, pages))), seed=literal(_SEED))
    return float(connection.scalar(select(func.avg(_widths(sample) + _ROW_OVERHEAD)).select_from(sample)) or 0.0)


def _filled_bytes(connection: Connection, table: Table) -> float:
    found: int | None = connection.execute(_filled(table)).scalar_one()
    return float(found or 0)


@cache
def _filled(table: Table) -> Select[Any]:
    return select(func.sum(_widths(table) + _ROW_OVERHEAD)).select_from(table)


def _widths(table: FromClause) -> ColumnElement[Any]:
    widths: ColumnElement[Any] = literal_column("0")
    for column in table.c:
        widths += func.coalesce(func.pg_column_size(column), 0)
    return widths


def _believed(connection: Connection, table: Table) -> int:
    known = text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
    return int(connection.execute(known, {"name": table.name}).scalar_one())


def vacuum(database: Database) -> None:
    """Write a SQLite file anew without its free pages; nobody else can write meanwhile, and it takes its size once more.

    On PostgreSQL the ordinary VACUUM, which holds nobody up: it makes room usable again, and partitions are dropped with their
    files. DatabaseError where the disk has no room for it.
    """
    file = file_of(database.url)
    if file is not None and (free := shutil.disk_usage(file.parent).free) < 2 * file.stat().st_size:
        msg = (
            f"{describe(database.url)} cannot be written anew: that takes twice its size for a while, "
            f"{2 * file.stat().st_size:,} bytes, and {free:,} are free: free some space"
        )
        raise DatabaseError(msg)
    database.alone("VACUUM", patience_s=86_400.0)
