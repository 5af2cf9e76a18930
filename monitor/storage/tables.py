"""Every table of the database, made to be read by people with SQL too. What creates them is in migrations."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from monitor.model import (
    Arm,
    CoverageReason,
    DeliveryStatus,
    Direction,
    EvidenceKind,
    Outcome,
    RunStatus,
    Severity,
    State,
)
from monitor.storage.columns import Document, Id, Instant, Name, Words

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _closed(name: str, members: type[StrEnum]) -> tuple[Column[str], CheckConstraint]:
    """A column that holds only members of the enumeration."""
    listed = ", ".join(f"'{member.value}'" for member in members)
    return Column(name, String(20), nullable=False), CheckConstraint(f"{name} IN ({listed})", name=name)


def _of_run() -> Column[Any]:
    """The run a row belongs to and goes away with."""
    return Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False)


runs = Table(
    "runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("comparison", Name, nullable=False),
    Column("scheduled_for", Instant, nullable=False),
    *_closed("status", RunStatus),
    Column("reason", Words),
    Column("config_hash", Words, nullable=False),
    Column("k", Integer),
    Column("owner", Words, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("claimed_until", Instant),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("catalogue_size", Id),
    Column("labels_until", Instant),
    Column("labelled_at", Instant),
    Column("epoch", Id),
    UniqueConstraint("comparison", "scheduled_for"),
    Index(None, "comparison", "status", "scheduled_for"),
    Index(None, "scheduled_for"),
    sqlite_autoincrement=True,
)
"""``claimed_until`` is set while somebody runs the slot, also for a rerun of a finished run, whose other columns then stay.

``labels_until`` is set where measures of relevance are wanted, ``labelled_at`` once they are stored. ``epoch``: of the
lease under which a daemon claimed the slot; NULL for a command."""

stages = Table(
    "stages",
    metadata,
    _of_run(),
    Column("stage", Name, nullable=False),
    Column("seconds", Double, nullable=False),
    PrimaryKeyConstraint("run_id", "stage"),
    sqlite_with_rowid=False,
)

coverage = Table(
    "coverage",
    metadata,
    _of_run(),
    Column("segment", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("paired", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "segment"),
    sqlite_with_rowid=False,
)

coverage_reasons = Table(
    "coverage_reasons",
    metadata,
    Column("run_id", Id, nullable=False),
    Column("segment", Name, nullable=False),
    *_closed("arm", Arm),
    *_closed("reason", CoverageReason),
    Column("users", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "arm", "reason"),
    ForeignKeyConstraint(["run_id", "segment"], ["coverage.run_id", "coverage.segment"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

summaries = Table(
    "summaries",
    metadata,
    _of_run(),
    Column("segment", Name, nullable=False),
    Column("metric", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("n_undefined", Integer, nullable=False),
    Column("mean", Double),
    Column("standard_error", Double),
    Column("histogram_low", Double, nullable=False),
    Column("histogram_high", Double, nullable=False),
    Column("histogram_counts", Document, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "metric"),
    sqlite_with_rowid=False,
)

statistics = Table(
    "statistics",
    metadata,
    Column("run_id", Id, nullable=False),
    Column("segment", Name, nullable=False),
    Column("metric", Name, nullable=False),
    Column("statistic", Name, nullable=False),
    Column("value", Double, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "metric", "statistic"),
    ForeignKeyConstraint(
        ["run_id", "segment", "metric"],
        ["summaries.run_id", "summaries.segment", "summaries.metric"],
        ondelete="CASCADE",
    ),
    sqlite_with_rowid=False,
)

metrics = Table(
    "metrics",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Name, nullable=False),
    UniqueConstraint("name"),
)
"""Numbers that stand for metrics in ``scores``; everywhere else metrics go by their names."""

scores = Table(
    "scores",
    metadata,
    Column("run_id", Id, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("metric_id", Integer, nullable=False),
    Column("value", Double),
    PrimaryKeyConstraint("run_id", "user_id", "metric_id"),
    sqlite_with_rowid=False,
)
"""One row a user and metric; NULL where undefined. No foreign keys: checking them for each of millions of rows would cost
more than storing them. Rows come in the order of the key, so they are appended, and one user of one run is one lookup."""

evidence = Table(
    "evidence",
    metadata,
    _of_run(),
    *_closed("kind", EvidenceKind),
    Column("position", Integer, nullable=False),
    Column("user_id", Words, nullable=False),
    Column("baseline", Document, nullable=False),
    Column("candidate", Document, nullable=False),
    Column("scores", Document, nullable=False),
    PrimaryKeyConstraint("run_id", "kind", "position"),
    sqlite_with_rowid=False,
)

arm_scores = Table(
    "arm_scores",
    metadata,
    _of_run(),
    Column("segment", Name, nullable=False),
    *_closed("arm", Arm),
    Column("metric", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("value", Double),
    Column("n", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "arm", "metric"),
    sqlite_with_rowid=False,
)

expectations = Table(
    "expectations",
    metadata,
    _of_run(),
    Column("alert", Name, nullable=False),
    Column("segment", Name, nullable=False),
    Column("learned_from", Integer, nullable=False),
    Column("expected", Double),
    Column("bound", Double),
    Column("z", Double),
    Column("evidence", Double),
    Column("evidence_bound", Double),
    Column("opposite_bound", Double),
    PrimaryKeyConstraint("run_id", "alert", "segment"),
    sqlite_with_rowid=False,
)
"""What rules that learn what is normal expected of the run: NULL while too few runs had been seen (``learned_from``)."""

lessons = Table(
    "lessons",
    metadata,
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("about", Text, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
)
"""What later runs learn from, packed: a history is then read in a tenth of the time that its summaries take, or less.

``about``: a JSON list of alert, series and segments of each rule; ``numbers``: little-endian doubles, for all of these segments
the value on the scale that is judged, then for all its sampling error, how far out it lay, the share of users without a
score, and what it added to evidence over runs; NaN for none."""
splits = Table(
    "splits",
    metadata,
    _of_run(),
    Column("segment", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("metric", Name, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("by_membership", Double),
    Column("by_order", Double),
    Column("by_length", Double),
    Column("spread", Double),
    Column("kinds", Document),
    PrimaryKeyConstraint("run_id", "segment"),
    sqlite_with_rowid=False,
)
"""The mean distance from identical lists by part, of one metric a run, and shares of lists by kind of change: what later runs
are held against. NULL where nobody was compared."""

explanations = Table(
    "explanations",
    metadata,
    _of_run(),
    Column("sentence", Words, nullable=False),
    Column("details", Document, nullable=False),
    PrimaryKeyConstraint("run_id"),
)
"""Why a run's mean fell; holds users and their lists, and goes with the evidence."""

kept_lists = Table(
    "kept_lists",
    metadata,
    _of_run(),
    *_closed("arm", Arm),
    Column("part", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "arm", "part"),
)
"""Lists of all compared users as Parquet, so many users a part; `monitor.storage.parquet` says how they look."""

alert_states = Table(
    "alert_states",
    metadata,
    Column("comparison", Name, nullable=False),
    Column("alert", Name, nullable=False),
    Column("segment", Name, nullable=False),
    *_closed("state", State),
    Column("since", Instant, nullable=False),
    Column("streak", Integer, nullable=False),
    Column("judged_slot", Instant, nullable=False),
    *_closed("outcome", Outcome),
    Column("reason", Words, nullable=False),
    Column("value", Double),
    Column("users", Integer, nullable=False),
    Column("threshold", Double, nullable=False),
    *_closed("severity", Severity),
    Column("dedup_key", Words),
    Column("incident", Words),
    Column("acknowledged_by", Words),
    PrimaryKeyConstraint("comparison", "alert", "segment"),
    Index(None, "state"),
    sqlite_with_rowid=False,
)

transitions = Table(
    "transitions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("comparison", Name, nullable=False),
    Column("alert", Name, nullable=False),
    Column("segment", Name, nullable=False),
    Column("scheduled_for", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
    *_closed("from_state", State),
    *_closed("to_state", State),
    Column("reason", Words, nullable=False),
    Column("value", Double),
    *_closed("direction", Direction),
    Column("threshold", Double, nullable=False),
    Column("users", Integer, nullable=False),
    Column("metric", Words, nullable=False),
    Column("statistic", Words, nullable=False),
    *_closed("severity", Severity),
    Column("since", Instant, nullable=False),
    Column("dedup_key", Words),
    Column("runbook_url", Words),
    Column("labels", Document, nullable=False),
    Column("explanation", Words),
    Column("interval_low", Double),
    Column("interval_high", Double),
    Column("normal", Double),
    Column("incident", Words),
    UniqueConstraint("comparison", "alert", "segment", "scheduled_for", "to_state", name="uq_transitions_change"),
    Index(None, "scheduled_for"),
    Index(None, "incident"),
    sqlite_autoincrement=True,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("transition_id", Id, ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False),
    Column("receiver", Name, nullable=False),
    *_closed("status", DeliveryStatus),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Instant, nullable=False),
    Column("leased_by", Words),
    Column("leased_until", Instant),
    Column("may_be_known", Boolean, nullable=False, server_default=false()),
    Column("reason", Words),
    Column("settled_at", Instant),
    Column("repeat_at", Instant),
    UniqueConstraint("transition_id", "receiver"),
    Index(
        "ix_deliveries_waiting",
        "receiver",
        "next_attempt_at",
        sqlite_where=text("status IN ('pending', 'held')"),
        postgresql_where=text("status IN ('pending', 'held')"),
    ),
    Index(
        "ix_deliveries_repeated",
        "receiver",
        "repeat_at",
        sqlite_where=text("repeat_at IS NOT NULL"),
        postgresql_where=text("repeat_at IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)
"""The outbox: one row for each announced transition and each receiver.

``may_be_known``: an attempt may have arrived though nothing says so; ``reason``: why it is held, failed or was given up;
``settled_at``: when it was sent, given up or dropped; ``repeat_at``: when a start that was sent is to be told again."""

notifications = Table(
    "notifications",
    metadata,
    Column("id", Id, primary_key=True),
    Column("delivery_id", Id, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
    Column("attempted_at", Instant, nullable=False),
    *_closed("status", DeliveryStatus),
    Column("reason", Words),
    Column("next_attempt_at", Instant),
    Index(None, "delivery_id"),
    sqlite_autoincrement=True,
)
"""What became of deliveries: one row whenever an attempt ended otherwise than the one before."""

silences = Table(
    "silences",
    metadata,
    Column("id", Id, primary_key=True),
    Column("matchers", Document, nullable=False),
    Column("author", Words, nullable=False),
    Column("comment", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
"""Who wants not to be told of what, until when; ``matchers`` as they were written, all of which must match."""

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
