"""Tables of what lasts beyond runs: who leads, and what each day came to."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, PrimaryKeyConstraint, Table

from monitor.storage.columns import Document, Id, Instant, Name, Words
from monitor.storage.tables.declaring import metadata

leases = Table(
    "leases",
    metadata,
    Column("name", Name, primary_key=True),
    Column("epoch", Id, nullable=False),
    Column("holder", Words, nullable=False),
    Column("acquired_at", Instant, nullable=False),
    Column("expires_at", Instant),
    sqlite_with_rowid=False,
)
"""Who leads, by the database's own clock; ``expires_at`` is NULL on SQLite, where a lock on a file beside it is the lease."""

daily = Table(
    "daily",
    metadata,
    Column("comparison", Name, nullable=False),
    Column("day", Instant, nullable=False),
    Column("segment", Name, nullable=False),
    Column("metric", Name, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("n", Id, nullable=False),
    Column("n_undefined", Id, nullable=False),
    Column("mean", Double),
    Column("standard_error", Double),
    Column("lowest", Double),
    Column("highest", Double),
    Column("shares_below", Document, nullable=False),
    Column("histogram_low", Double),
    Column("histogram_high", Double),
    Column("histogram_counts", Document),
    Column("built_at", Instant, nullable=False),
    PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
    Index(None, "built_at"),
    sqlite_with_rowid=False,
)
"""What the ok runs of slots of one UTC day came to together; stays when they are gone. `monitor.storage.daily` says how.

``built_at``: when the newest of these runs ended or got its labels."""
