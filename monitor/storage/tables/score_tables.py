"""Tables of users' scores."""

from __future__ import annotations

from sqlalchemy import Column, Date, Double, Integer, PrimaryKeyConstraint, SmallInteger, Table, UniqueConstraint

from monitor.storage.column_types import Id, Name
from monitor.storage.tables.metadata import metadata, table_of_runs

metrics = Table(
    "metrics",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Name, nullable=False),
    UniqueConstraint("name"),
)
"""Numbers that stand for metrics in ``score_places``; everywhere else metrics go by their names."""

PLACES = 8
"""Metrics whose values one row of ``scores`` holds."""

score_places = table_of_runs(
    "score_places",
    Column("metric_id", Integer, nullable=False),
    Column("part", SmallInteger, nullable=False),
    Column("place", SmallInteger, nullable=False),
    key=("metric_id",),
)
"""Where the run's ``scores`` hold each metric: in the rows of this ``part``, the column of this number."""

scores = Table(
    "scores",
    metadata,
    Column("run_id", Id, nullable=False),
    Column("day", Date, nullable=False, info={"only": "postgresql"}),
    Column("part", SmallInteger, nullable=False),
    Column("user_id", Name, nullable=False),
    *(Column(f"v{place}", Double) for place in range(1, PLACES + 1)),
    PrimaryKeyConstraint("run_id", "part", "user_id", "day"),
    sqlite_with_rowid=False,
    postgresql_partition_by="RANGE (day)",
)
"""One row a user for up to `PLACES` metrics, more metrics in further parts; NULL where undefined, or where no metric stands.

No foreign keys: checking them for each of millions of rows would cost more than storing them. Rows come in the order of the
key, so they are appended, and one user of one run is one lookup. What is measured later is a part of its own: rows that are
stored are never rewritten.

``day``: the UTC day of the run's slot, by which PostgreSQL partitions, see `monitor.storage.partitions`; SQLite has no such
column."""
