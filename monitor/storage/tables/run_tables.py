"""Tables of runs and their results, of the daily roll-up and of the lease."""

from sqlalchemy import (
    Boolean,
    Column,
    Date,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from monitor.model.alerts import Standstill
from monitor.model.explanation import Explanation, Split
from monitor.model.model_versions import Models
from monitor.model.rankings import Arm
from monitor.model.run_reasons import RunReasons
from monitor.model.runs import EvidenceKind, Histogram, RunStatus
from monitor.model.unpaired import UnpairedResults
from monitor.storage.column_types import (
    Document,
    Id,
    Instant,
    IntegerColumn,
    Name,
    Number,
    Numbers,
    UsersByReason,
    Values,
    Words,
)
from monitor.storage.tables.metadata import (
    enum_column,
    index_where,
    metadata,
    numbered_table,
    optional_columns,
    required_columns,
    table_of_runs,
)

runs = numbered_table(
    "runs",
    *required_columns(Name, "comparison"),
    *required_columns(Instant, "slot"),
    *enum_column("status", RunStatus),
    Column("reason", Words),
    *required_columns(Words, "config_hash"),
    Column("k", Integer),
    *required_columns(Words, "owner"),
    *required_columns(Integer, "attempt"),
    Column("claimed_until", Instant),
    *required_columns(Instant, "started_at"),
    Column("finished_at", Instant),
    Column("catalogue_size", Id),
    *optional_columns(Instant, "labels_until", "labelled_at"),
    Column("epoch", Id),
    Column("models", Values(Models)),
    Column("input_hash", Words),
    Column("reasons", Values(RunReasons, absent=())),
    Column("stage_seconds", Document),
    Column("split", Values(Split)),
    Column("unpaired", Values(UnpairedResults)),
    Column("standstills", Values(tuple[Standstill, ...], absent=())),
    UniqueConstraint("comparison", "slot"),
    Index(None, "comparison", "status", "slot", postgresql_include=["id"]),
    Index(None, "slot"),
    index_where("claimed_until IS NOT NULL", "ix_runs_claimed", "claimed_until"),
    index_where(
        "labels_until IS NOT NULL AND labelled_at IS NULL",
        "ix_runs_unlabelled",
        "comparison",
        "status",
        "slot",
    ),
)
"""One row for each run. ``claimed_until`` is set while a process runs the slot.

During a rerun, the row still shows the results of the earlier attempt. ``labels_until`` is set if
metrics of relevance are wanted. ``labelled_at`` is set when they are stored. ``epoch`` is the epoch
of the lease under which a daemon claimed the slot. It is NULL if a command claimed the slot.
``models`` is NULL if no version is known. ``reason`` is the text for the values in ``reasons``.
Later runs are compared with ``split``, and continue the counts in ``standstills``. ``unpaired`` is
what a run of an unpaired comparison found in addition to its summaries.
"""

coverage = table_of_runs(
    "coverage",
    *required_columns(Name, "segment"),
    *required_columns(Integer, "position"),
    *required_columns(IntegerColumn, "asked", "paired"),
    *required_columns(UsersByReason, "users_by_reason"),
    Column("asked_by_arm", Values(dict[Arm, int])),
    key=("segment",),
)
"""``users_by_reason`` has the number of users by arm and reason.

``asked_by_arm`` is NULL unless each user belongs to one arm.
"""

summaries = table_of_runs(
    "summaries",
    *required_columns(Name, "segment", "metric"),
    *required_columns(Integer, "position"),
    *required_columns(IntegerColumn, "n", "n_undefined"),
    *optional_columns(Number, "mean", "standard_error"),
    *required_columns(Numbers, "statistics"),
    *required_columns(Values(Histogram), "histogram"),
    key=("segment", "metric"),
)

evidence = table_of_runs(
    "evidence",
    *enum_column("kind", EvidenceKind),
    *required_columns(Integer, "position"),
    # In PostgreSQL an unquoted column "user" would be the name of the session's role.
    Column("user_id", Words, key="user", nullable=False),
    *required_columns(Values(tuple[str, ...]), "baseline", "candidate"),
    *required_columns(Document, "scores"),
    key=("kind", "position"),
)

arm_scores = table_of_runs(
    "arm_scores",
    *required_columns(Name, "segment"),
    *enum_column("arm", Arm),
    *required_columns(Name, "metric"),
    *required_columns(Integer, "position"),
    Column("value", Number),
    *required_columns(IntegerColumn, "n"),
    key=("segment", "arm", "metric"),
)

expectations = table_of_runs(
    "expectations",
    *required_columns(Name, "alert", "segment"),
    *required_columns(Integer, "runs"),
    Column("expected", Number),
    # LIMIT is a reserved word of SQL.
    Column("limit_value", Number, key="limit"),
    *optional_columns(Number, "opposite", "z", "evidence", "evidence_limit"),
    key=("alert", "segment"),
)
"""The values that learning rules expected of the run.

The values are NULL if the rule had learned from too few ``runs``.
"""

lessons = table_of_runs(
    "lessons",
    *required_columns(Text, "about"),
    *required_columns(LargeBinary, "numbers"),
    is_large=True,
)
"""Packed numbers that later runs learn from.

Reading them takes at most a tenth of the time that reading the summaries takes. ``about`` is a JSON
list of the alert, series and segments of each rule. ``numbers`` has little-endian doubles in five
groups. Each group has one number for each segment:

- the value, on the scale on which the rule judges
- the sampling error of the value, on the same scale
- z, the distance of the value from normal
- the share of users without a score
- what the run added to the evidence for a trend

NaN means that there is no value.
"""

explanations = table_of_runs(
    "explanations",
    *required_columns(Words, "sentence"),
    *required_columns(Values(Explanation), "details"),
    is_large=True,
)
"""Why a run's mean fell.

An explanation contains lists of users, so it is pruned together with the evidence.
"""

kept_lists = table_of_runs(
    "kept_lists",
    *enum_column("arm", Arm),
    *required_columns(Integer, "part"),
    *required_columns(LargeBinary, "first_user", "last_user", "payload"),
    key=("arm", "part"),
    is_large=True,
)
"""Lists of all compared users as Parquet, see `monitor.storage.list_parquet`.

``first_user`` and ``last_user`` are the first and the last user id of the piece, in UTF-8 and
ordered by code point.
"""

leases = Table(
    "leases",
    metadata,
    Column("name", Name, primary_key=True),
    *required_columns(Id, "epoch"),
    *required_columns(Words, "holder"),
    *required_columns(Instant, "acquired_at"),
    Column("expires_at", Instant),
    sqlite_with_rowid=False,
)
"""The lease of the daemon that leads. Its times come from the database's own clock.

``expires_at`` is NULL if the daemon has released the lease. On SQLite it is always NULL, because the
lock of a file next to the database is the lease.

Two kinds of rows are no leases. The ``holder`` of the row ``installation`` is the database's id, see
`monitor.storage.leases.installation_of`. A row ``outage since …`` has the begin and the end of an
outage of the database.
"""

daily = Table(
    "daily",
    metadata,
    *required_columns(Name, "comparison"),
    *required_columns(Instant, "day"),
    *required_columns(Name, "segment", "metric"),
    *required_columns(Integer, "runs"),
    *required_columns(Id, "n", "n_undefined"),
    *optional_columns(Number, "mean", "standard_error", "lowest", "highest"),
    *required_columns(Document, "shares_below"),
    Column("histogram", Values(Histogram)),
    *required_columns(Boolean, "is_final"),
    PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
    sqlite_with_rowid=False,
)
"""The daily roll-up: sums over the ok runs of one UTC day. `monitor.storage.prune` adds them up.

If a run of the day changes, its sums are deleted and added up again, unless they are final.
"""

SCORE_COLUMNS = 8
"""The number of metrics in one row of ``scores``."""

score_places = table_of_runs(
    "score_places",
    *required_columns(Name, "metric"),
    *required_columns(SmallInteger, "part", "place"),
    key=("metric",),
)
"""Where ``scores`` has each metric's scores: in rows with this ``part``, in column ``v<place>``."""

scores = Table(
    "scores",
    metadata,
    *required_columns(Id, "run_id"),
    Column("day", Date, nullable=False, info={"only": "postgresql"}),
    *required_columns(SmallInteger, "part"),
    *required_columns(Name, "user_id"),
    *(Column(f"v{number}", Double) for number in range(1, SCORE_COLUMNS + 1)),
    PrimaryKeyConstraint("run_id", "part", "user_id", "day"),
    sqlite_with_rowid=False,
    postgresql_partition_by="RANGE (day)",
)
"""One row has the scores of one user in one run, for at most `SCORE_COLUMNS` metrics.

If a run has more metrics, they are in rows of further parts. An undefined score is NULL on SQLite
and NaN on PostgreSQL. The view ``user_scores`` shows NULL for both. There are no foreign keys,
because checking them would take longer than storing the rows. Rows are stored in the order of the
key, so new rows are appended. Reading one user of one run takes one look-up for each part. Metrics
that are measured later get new parts, so that rows are never rewritten.

``day`` is the UTC day of the run's slot. PostgreSQL partitions the table by this day, see
`monitor.storage.partitions`. SQLite has no such column.
"""
