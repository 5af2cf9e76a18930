"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
WORD = sa.String(20)

VALUES = "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"
USER_SCORES = """
CREATE VIEW user_scores AS
SELECT runs.comparison, runs.slot, scores.user_id, score_places.metric,
    nullif(CASE score_places.place WHEN 1 THEN v1 WHEN 2 THEN v2 WHEN 3 THEN v3 WHEN 4 THEN v4
        WHEN 5 THEN v5 WHEN 6 THEN v6 WHEN 7 THEN v7 WHEN 8 THEN v8 END, 'NaN') AS value,
    scores.run_id
FROM runs JOIN score_places ON score_places.run_id = runs.id
JOIN scores ON scores.run_id = runs.id AND scores.part = score_places.part
"""
DAY_OF_RUN = "AND scores.day = CAST(runs.slot AT TIME ZONE 'UTC' AS date)"
TABLES = (
    "notifications",
    "summaries",
    "score_places",
    "lessons",
    "kept_lists",
    "explanations",
    "expectations",
    "evidence",
    "deliveries",
    "coverage",
    "arm_scores",
    "transitions",
    "silences",
    "scores",
    "runs",
    "leases",
    "daily",
    "alert_states",
)


def upgrade() -> None:
    _create_tables()
    _create_scores()


def downgrade() -> None:
    op.execute("DROP VIEW user_scores")
    for table in TABLES:
        op.drop_table(table)


def _create_scores() -> None:
    """On PostgreSQL scores are divided by day. SQLite has no column for the day."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    day = [sa.Column("day", sa.Date(), nullable=False)] if is_postgres else []
    op.create_table(
        "scores",
        sa.Column("run_id", ID, nullable=False),
        *day,
        sa.Column("part", sa.SmallInteger(), nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        *(sa.Column(name, sa.Double()) for name in VALUES),
        sa.PrimaryKeyConstraint("run_id", "part", "user_id", *(column.name for column in day)),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (day)",
    )
    if is_postgres:
        op.execute("CREATE TABLE scores_default PARTITION OF scores DEFAULT")
    op.execute(USER_SCORES + DAY_OF_RUN if is_postgres else USER_SCORES)


def _create_tables() -> None:
    op.create_table(
        "alert_states",
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("streak", sa.Integer(), nullable=False),
        sa.Column("judged_slot", INSTANT, nullable=False),
        sa.Column("outcome", WORD, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("severity", WORD, nullable=False),
        sa.Column("dedup_key", sa.Text()),
        sa.Column("incident", sa.Text()),
        sa.Column("acknowledged_by", sa.Text()),
        sa.CheckConstraint(
            "state IN ('quiet', 'pending', 'firing')", name=op.f("ck_alert_states_state")
        ),
        sa.CheckConstraint(
            "outcome IN ('ok', 'breach', 'no_data', 'too_few', 'error')",
            name=op.f("ck_alert_states_outcome"),
        ),
        sa.CheckConstraint(
            "severity IN ('critical', 'warning', 'info')", name=op.f("ck_alert_states_severity")
        ),
        sa.PrimaryKeyConstraint("comparison", "alert", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_alert_states_state", "alert_states", ["state"])
    op.create_table(
        "daily",
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("day", INSTANT, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("n", ID, nullable=False),
        sa.Column("n_undefined", ID, nullable=False),
        sa.Column("mean", sa.Double()),
        sa.Column("standard_error", sa.Double()),
        sa.Column("lowest", sa.Double()),
        sa.Column("highest", sa.Double()),
        sa.Column("shares_below", DOCUMENT, nullable=False),
        sa.Column("histogram", DOCUMENT),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", ID, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("acquired_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("slot", INSTANT, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("config_hash", sa.Text(), nullable=False),
        sa.Column("k", sa.Integer()),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("claimed_until", INSTANT),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.Column("catalogue_size", ID),
        sa.Column("labels_until", INSTANT),
        sa.Column("labelled_at", INSTANT),
        sa.Column("epoch", ID),
        sa.Column("models", DOCUMENT),
        sa.Column("input_hash", sa.Text()),
        sa.Column("reasons", DOCUMENT),
        sa.Column("stage_seconds", DOCUMENT),
        sa.Column("split", DOCUMENT),
        sa.Column("unpaired", DOCUMENT),
        sa.Column("standstills", DOCUMENT),
        sa.CheckConstraint(
            "status IN ('running', 'ok', 'insufficient', 'failed', 'abandoned')",
            name=op.f("ck_runs_status"),
        ),
        sa.UniqueConstraint("comparison", "slot"),
        sqlite_autoincrement=True,
    )
    _index("ix_runs_claimed", "runs", ["claimed_until"], "claimed_until IS NOT NULL")
    op.create_index(
        "ix_runs_comparison_status_slot",
        "runs",
        ["comparison", "status", "slot"],
        postgresql_include=["id"],
    )
    op.create_index("ix_runs_slot", "runs", ["slot"])
    _index(
        "ix_runs_unlabelled",
        "runs",
        ["comparison", "status", "slot"],
        "labels_until IS NOT NULL AND labelled_at IS NULL",
    )
    op.create_table(
        "silences",
        sa.Column("id", ID, primary_key=True),
        sa.Column("matchers", DOCUMENT, nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("starts_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "transitions",
        sa.Column("id", ID, primary_key=True),
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("slot", INSTANT, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("from_state", WORD, nullable=False),
        sa.Column("to_state", WORD, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("direction", WORD, nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("statistic", sa.Text(), nullable=False),
        sa.Column("severity", WORD, nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("dedup_key", sa.Text()),
        sa.Column("runbook_url", sa.Text()),
        sa.Column("labels", DOCUMENT, nullable=False),
        sa.Column("explanation", sa.Text()),
        sa.Column("interval", DOCUMENT),
        sa.Column("normal", sa.Double()),
        sa.Column("incident", sa.Text()),
        sa.Column("is_new_normal", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("headline", sa.Text()),
        sa.Column("concerned", sa.Integer()),
        sa.Column("removed", WORD),
        sa.CheckConstraint(
            "from_state IN ('quiet', 'pending', 'firing')", name=op.f("ck_transitions_from_state")
        ),
        sa.CheckConstraint(
            "to_state IN ('quiet', 'pending', 'firing')", name=op.f("ck_transitions_to_state")
        ),
        sa.CheckConstraint(
            "direction IN ('below', 'above')", name=op.f("ck_transitions_direction")
        ),
        sa.CheckConstraint(
            "severity IN ('critical', 'warning', 'info')", name=op.f("ck_transitions_severity")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_transitions_comparison_slot", "transitions", ["comparison", "slot"])
    op.create_index("ix_transitions_incident", "transitions", ["incident"])
    op.create_index("ix_transitions_slot", "transitions", ["slot"])
    op.create_table(
        "arm_scores",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("arm", WORD, nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.CheckConstraint("arm IN ('baseline', 'candidate')", name=op.f("ck_arm_scores_arm")),
        sa.PrimaryKeyConstraint("run_id", "segment", "arm", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coverage",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("paired", sa.Integer(), nullable=False),
        sa.Column("users_by_reason", DOCUMENT, nullable=False),
        sa.Column("asked_by_arm", DOCUMENT),
        sa.PrimaryKeyConstraint("run_id", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "deliveries",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "transition_id", ID, sa.ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("receiver", NAME, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", INSTANT, nullable=False),
        sa.Column("claimed_by", sa.Text()),
        sa.Column("claimed_until", INSTANT),
        sa.Column("may_be_known", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("reason", sa.Text()),
        sa.Column("settled_at", INSTANT),
        sa.Column("repeat_at", INSTANT),
        sa.Column("message_key", sa.Text()),
        sa.Column("is_receiver_removed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.CheckConstraint(
            "status IN ('pending', 'held', 'sent', 'dead', 'dropped')",
            name=op.f("ck_deliveries_status"),
        ),
        sa.UniqueConstraint("transition_id", "receiver"),
        sqlite_autoincrement=True,
    )
    _index(
        "ix_deliveries_repeated", "deliveries", ["receiver", "repeat_at"], "repeat_at IS NOT NULL"
    )
    _index(
        "ix_deliveries_waiting",
        "deliveries",
        ["receiver", "next_attempt_at"],
        "status IN ('pending', 'held')",
    )
    op.create_table(
        "evidence",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("baseline", DOCUMENT, nullable=False),
        sa.Column("candidate", DOCUMENT, nullable=False),
        sa.Column("scores", DOCUMENT, nullable=False),
        sa.CheckConstraint("kind IN ('worst', 'representative')", name=op.f("ck_evidence_kind")),
        sa.PrimaryKeyConstraint("run_id", "kind", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "expectations",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Double()),
        sa.Column("limit_value", sa.Double()),
        sa.Column("opposite", sa.Double()),
        sa.Column("z", sa.Double()),
        sa.Column("evidence", sa.Double()),
        sa.Column("evidence_limit", sa.Double()),
        sa.PrimaryKeyConstraint("run_id", "alert", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "explanations",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("details", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "kept_lists",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("arm", WORD, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("first_user", sa.LargeBinary(), nullable=False),
        sa.Column("last_user", sa.LargeBinary(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("arm IN ('baseline', 'candidate')", name=op.f("ck_kept_lists_arm")),
        sa.PrimaryKeyConstraint("run_id", "arm", "part"),
    )
    op.create_table(
        "lessons",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "score_places",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("part", sa.SmallInteger(), nullable=False),
        sa.Column("place", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "summaries",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("n_undefined", sa.Integer(), nullable=False),
        sa.Column("mean", sa.Double()),
        sa.Column("standard_error", sa.Double()),
        sa.Column("statistics", DOCUMENT, nullable=False),
        sa.Column("histogram", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "notifications",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "delivery_id", ID, sa.ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("next_attempt_at", INSTANT),
        sa.Column("is_receiver_removed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.CheckConstraint(
            "status IN ('pending', 'held', 'sent', 'dead', 'dropped')",
            name=op.f("ck_notifications_status"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notifications_delivery_id", "notifications", ["delivery_id"])


def _index(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
