"""The size of the database by kind of data.

SQLite counts the pages that its tables fill (``dbstat``); scores, which fill most of them, are what is left over, so that they
need not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, Table, text

from monitor.model import DataKind
from monitor.storage.dialects import is_sqlite
from monitor.storage.partitions import bytes_of, score_tables
from monitor.storage.tables import metadata

_NAMES = {
    DataKind.SCORES: ("scores",),
    DataKind.LISTS: ("kept_lists",),
    DataKind.EVIDENCE: ("evidence", "explanations"),
    DataKind.SUMMARIES: ("summaries", "statistics", "coverage", "coverage_reasons", "arm_scores", "expectations"),
    DataKind.RUNS: ("runs", "stages", "lessons", "standstills", "splits", "metrics", "score_places", "leases"),
    DataKind.ALERTS: ("alert_states", "transitions", "deliveries", "notifications", "silences"),
}
TABLES: Mapping[DataKind, tuple[Table, ...]] = {
    kind: tuple(metadata.tables[name] for name in names) for kind, names in _NAMES.items()
}
"""The tables of each kind."""


def bytes_by_kind(connection: Connection) -> dict[DataKind, int]:
    """Bytes on disk of each kind, indexes included; on SQLite without the room that is free inside the file."""
    if is_sqlite(connection):
        return _sqlite_bytes(connection)
    names = {kind: [table.name for table in tables] for kind, tables in TABLES.items()}
    names[DataKind.SCORES] = score_tables(connection)
    return {kind: sum(bytes_of(connection, name) for name in found) for kind, found in names.items()}


def rows_by_kind(rows: Mapping[str, int]) -> dict[DataKind, int]:
    """Rows by table, added up by kind."""
    kinds = {table.name: kind for kind, tables in TABLES.items() for table in tables}
    found: Counter[DataKind] = Counter()
    for table, count in rows.items():
        found[kinds[table]] += count
    return dict(found)


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _sqlite_bytes(connection: Connection) -> dict[DataKind, int]:
    pages = text(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE"
        " AND name IN (SELECT name FROM sqlite_master WHERE tbl_name = :table)"
    )
    found = {
        kind: sum(int(connection.execute(pages, {"table": table.name}).scalar_one()) for table in tables)
        for kind, tables in TABLES.items()
        if kind is not DataKind.SCORES
    }
    # Scores have the pages that no other table fills: counting their own would read most of the file.
    pages_used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return {DataKind.SCORES: max(0, pages_used * _pragma(connection, "page_size") - sum(found.values()))} | found
