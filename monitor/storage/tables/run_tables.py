"""Tables of runs and what they measured, of the daily roll-up and of the lease."""

from sqlalchemy import (
    Column,
    Date,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from monitor.model.rankings import Arm, CoverageReason
from monitor.model.runs import EvidenceKind, RunStatus
from monitor.storage.column_types import (
    ArmModels,
    Count,
    Document,
    Id,
    Instant,
    Name,
    Number,
    Words,
)
from monitor.storage.tables.metadata import (
    closed,
    filled,
    index_where,
    metadata,
    numbered_table,
    optional,
    table_of_runs,
)

runs = numbered_table(
    "runs",
    Column("comparison", Name, nullable=False),
    Column("scheduled_for", Instant, nullable=False),
    *closed("status", RunStatus),
    Column("reason", Words),
    Column("config_hash", Words, nullable=False),
    Column("k", Integer),
    Column("owner", Words, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("claimed_until", Instant),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("catalogue_size", Id),
    *optional(Instant, "labels_until", "labelled_at"),
    Column("epoch", Id),
    Column("models", ArmModels),
    Column("input_hash", Words),
    UniqueConstraint("comparison", "scheduled_for"),
    Index(None, "comparison", "status", "scheduled_for", postgresql_include=["id"]),
    Index(None, "scheduled_for"),
    index_where("claimed_until IS NOT NULL", "ix_runs_claimed", "claimed_until"),
    index_where(
        "labels_until IS NOT NULL AND labelled_at IS NULL",
        "ix_runs_unlabelled",
        "comparison",
        "status",
        "scheduled_for",
    ),
)
"""``claimed_until`` is set while somebody runs the slot, also for a rerun of a finished run, whose other columns then stay.

``labels_until`` is set where measures of relevance are wanted, ``labelled_at`` once they are stored. ``epoch``: of the
lease under which a daemon claimed the slot; NULL for a command. ``models`` is NULL where no version is known."""

stages = table_of_runs(
    "stages",
    Column("stage", Name, nullable=False),
    Column("seconds", Number, nullable=False),
    key=("stage",),
)

coverage = table_of_runs(
    "coverage",
    Column("segment", Name, nullable=False),
    Column("position", Integer, nullable=False),
    *filled(Count, "asked", "paired"),
    key=("segment",),
)

coverage_reasons = Table(
    "coverage_reasons",
    metadata,
    Column("run_id", Id, nullable=False),
    Column("segment", Name, nullable=False),
    *closed("arm", Arm),
    *closed("reason", CoverageReason),
    Column("users", Count, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "arm", "reason"),
    ForeignKeyConstraint(
        ["run_id", "segment"], ["coverage.run_id", "coverage.segment"], ondelete="CASCADE"
    ),
    sqlite_with_rowid=False,
)

summaries = table_of_runs(
    "summaries",
    *filled(Name, "segment", "metric"),
    Column("position", Integer, nullable=False),
    *filled(Count, "n", "n_undefined"),
    *optional(Number, "mean", "standard_error"),
    *filled(Number, "histogram_low", "histogram_high"),
    Column("histogram_counts", Document, nullable=False),
    key=("segment", "metric"),
)

statistics = Table(
    "statistics",
    metadata,
    Column("run_id", Id, nullable=False),
    *filled(Name, "segment", "metric", "statistic"),
    Column("value", Number, nullable=False),
    PrimaryKeyConstraint("run_id", "segment", "metric", "statistic"),
    ForeignKeyConstraint(
        ["run_id", "segment", "metric"],
        ["summaries.run_id", "summaries.segment", "summaries.metric"],
        ondelete="CASCADE",
    ),
    sqlite_with_rowid=False,
)

evidence = table_of_runs(
    "evidence",
    *closed("kind", EvidenceKind),
    Column("position", Integer, nullable=False),
    Column("user_id", Words, nullable=False),
    *filled(Document, "baseline", "candidate", "scores"),
    key=("kind", "position"),
)

arm_scores = table_of_runs(
    "arm_scores",
    Column("segment", Name, nullable=False),
    *closed("arm", Arm),
    Column("metric", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("value", Number),
    Column("n", Count, nullable=False),
    key=("segment", "arm", "metric"),
)

expectations = table_of_runs(
    "expectations",
    *filled(Name, "alert", "segment"),
    Column("learned_from", Integer, nullable=False),
    *optional(Number, "expected", "bound", "z", "evidence", "evidence_bound", "opposite_bound"),
    key=("alert", "segment"),
)
"""What rules that learn what is normal expected of the run: NULL while too few runs had been seen (``learned_from``)."""

lessons = table_of_runs(
    "lessons",
    Column("about", Text, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    is_large=True,
)
"""What later runs learn from, packed: a history is then read in a tenth of the time that its summaries take, or less.

``about``: a JSON list of alert, series and segments of each rule; ``numbers``: little-endian doubles, for all of these segments
the value on the scale that is judged, then for all its sampling error, how far out it lay, the share of users without a
score, and what it added to evidence over runs; NaN for none."""

standstills = table_of_runs(
    "standstills",
    Column("alert", Name, nullable=False),
    *closed("arm", Arm),
    *filled(Integer, "missed", "longest", "changes"),
    key=("alert",),
)
"""How long an arm's lists had not changed as of the run, for each rule on standstill.

The next run counts on.
"""

splits = table_of_runs(
    "splits",
    Column("segment", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("metric", Name, nullable=False),
    *filled(Count, "asked", "n"),
    *optional(Number, "by_membership", "by_order", "by_length", "spread"),
    Column("kinds", Document),
    key=("segment",),
)
"""What later runs are held against: the mean distance of all users from identical lists by part, of one metric a run, and in
``kinds`` how much each arm's lists changed since the run before. Earlier versions stored a row a segment."""

explanations = table_of_runs(
    "explanations",
    Column("sentence", Words, nullable=False),
    Column("details", Document, nullable=False),
    is_large=True,
)
"""Why a run's mean fell; holds users and their lists, and is pruned with the evidence."""

kept_lists = table_of_runs(
    "kept_lists",
    *closed("arm", Arm),
    Column("part", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    key=("arm", "part"),
    is_large=True,
)
"""Lists of all compared users as Parquet, so many users a part.

See `monitor.storage.list_parquet`.
"""

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
"""Who leads, by the database's own clock.

``expires_at`` is NULL on SQLite, where a lock on a file beside it is the lease.

The ``holder`` under the name ``installation`` is the id of the database, see
`monitor.storage.leases.installation_of`.
"""

daily = Table(
    "daily",
    metadata,
    Column("comparison", Name, nullable=False),
    Column("day", Instant, nullable=False),
    *filled(Name, "segment", "metric"),
    Column("runs", Integer, nullable=False),
    *filled(Id, "n", "n_undefined"),
    *optional(Number, "mean", "standard_error", "lowest", "highest"),
    Column("shares_below", Document, nullable=False),
    *optional(Number, "histogram_low", "histogram_high"),
    Column("histogram_counts", Document),
    Column("built_at", Instant, nullable=False),
    PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
    Index(None, "built_at"),
    sqlite_with_rowid=False,
)
"""The daily roll-up: the ok runs of slots of one UTC day added up, kept for longer.

See `monitor.storage.prune`.

``built_at``: when the newest of these runs ended or got its labels; in the year 9999 where the sums
stay whatever becomes of them.
"""

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
    *filled(SmallInteger, "part", "place"),
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
"""One row a user for up to `PLACES` metrics, more metrics in further parts.

NULL where undefined, or where no metric stands.

No foreign keys: checking them for each of millions of rows would cost more than storing them. Rows
come in the order of the key, so they are appended, and one user of one run is one lookup. What is
measured later is a part of its own: rows that are stored are never rewritten.

``day``: the UTC day of the run's slot, by which PostgreSQL partitions, see
`monitor.storage.partitions`; SQLite has no such column.
"""
