"""The first tables."""

from typing import Any

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

STATUS = ("running", "ok", "insufficient", "failed", "abandoned")
ARM = ("baseline", "candidate")
REASON = (
    "missing",
    "empty",
    "short",
    "duplicated",
    "timeout",
    "unreachable",
    "rate_limited",
    "http_error",
    "server_error",
    "too_large",
    "malformed",
    "wrong_user",
    "duplicate_user",
    "unavailable",
)
KIND = ("worst", "representative")
STATE = ("quiet", "pending", "firing")
OUTCOME = ("ok", "breach", "no_data", "too_few", "error")
SEVERITY = ("critical", "warning", "info")
DIRECTION = ("below", "above")
DELIVERY = ("pending", "sent", "dead")

USER_SCORES = """
CREATE VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, scores.value, scores.run_id
FROM runs JOIN scores ON scores.run_id = runs.id JOIN metrics ON metrics.id = scores.metric_id
"""


def closed(
    table: str, column: str, values: tuple[str, ...]
) -> tuple[sa.Column[Any], sa.CheckConstraint]:
    listed = ", ".join(f"'{value}'" for value in values)
    check = sa.CheckConstraint(f"{column} IN ({listed})", name=op.f(f"ck_{table}_{column}"))
    return sa.Column(column, sa.String(20), nullable=False), check


def upgrade() -> None:
    _create_runs()
    _create_alerts()
    op.execute(USER_SCORES)


def downgrade() -> None:
    op.execute("DROP VIEW user_scores")
    for table in (
        "notifications",
        "deliveries",
        "transitions",
        "alert_states",
        "evidence",
        "scores",
        "metrics",
        "statistics",
        "summaries",
        "coverage_reasons",
        "coverage",
        "stages",
        "runs",
    ):
        op.drop_table(table)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("scheduled_for", INSTANT, nullable=False),
        *closed("runs", "status", STATUS),
        sa.Column("reason", sa.Text()),
        sa.Column("config_hash", sa.Text(), nullable=False),
        sa.Column("k", sa.Integer()),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("claimed_until", INSTANT),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.UniqueConstraint("comparison", "scheduled_for"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_runs_comparison_status_scheduled_for", "runs", ["comparison", "status", "scheduled_for"]
    )
    op.create_index("ix_runs_scheduled_for", "runs", ["scheduled_for"])
    op.create_table(
        "stages",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("stage", NAME, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "stage"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coverage",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("paired", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coverage_reasons",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        *closed("coverage_reasons", "arm", ARM),
        *closed("coverage_reasons", "reason", REASON),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "arm", "reason"),
        sa.ForeignKeyConstraint(
            ["run_id", "segment"], ["coverage.run_id", "coverage.segment"], ondelete="CASCADE"
        ),
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
        sa.Column("histogram_low", sa.Double(), nullable=False),
        sa.Column("histogram_high", sa.Double(), nullable=False),
        sa.Column("histogram_counts", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "statistics",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("statistic", NAME, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "metric", "statistic"),
        sa.ForeignKeyConstraint(
            ["run_id", "segment", "metric"],
            ["summaries.run_id", "summaries.segment", "summaries.metric"],
            ondelete="CASCADE",
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "metrics",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "scores",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.PrimaryKeyConstraint("run_id", "user_id", "metric_id"),
        sqlite_with_rowid=False,
    )


def _create_alerts() -> None:
    op.create_table(
        "evidence",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        *closed("evidence", "kind", KIND),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("baseline", DOCUMENT, nullable=False),
        sa.Column("candidate", DOCUMENT, nullable=False),
        sa.Column("scores", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "kind", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alert_states",
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        *closed("alert_states", "state", STATE),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("streak", sa.Integer(), nullable=False),
        sa.Column("judged_slot", INSTANT, nullable=False),
        *closed("alert_states", "outcome", OUTCOME),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        *closed("alert_states", "severity", SEVERITY),
        sa.Column("dedup_key", sa.Text()),
        sa.PrimaryKeyConstraint("comparison", "alert", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_alert_states_state", "alert_states", ["state"])
    op.create_table(
        "transitions",
        sa.Column("id", ID, primary_key=True),
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("scheduled_for", INSTANT, nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        *closed("transitions", "from_state", STATE),
        *closed("transitions", "to_state", STATE),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        *closed("transitions", "direction", DIRECTION),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("statistic", sa.Text(), nullable=False),
        *closed("transitions", "severity", SEVERITY),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("dedup_key", sa.Text()),
        sa.Column("runbook_url", sa.Text()),
        sa.Column("labels", DOCUMENT, nullable=False),
        sa.UniqueConstraint(
            "comparison",
            "alert",
            "segment",
            "scheduled_for",
            "to_state",
            name="uq_transitions_change",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_transitions_scheduled_for", "transitions", ["scheduled_for"])
    op.create_table(
        "deliveries",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "transition_id", ID, sa.ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("receiver", NAME, nullable=False),
        *closed("deliveries", "status", DELIVERY),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", INSTANT, nullable=False),
        sa.Column("leased_by", sa.Text()),
        sa.Column("leased_until", INSTANT),
        sa.UniqueConstraint("transition_id", "receiver"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_deliveries_pending",
        "deliveries",
        ["receiver", "next_attempt_at"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_table(
        "notifications",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "delivery_id", ID, sa.ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("attempted_at", INSTANT, nullable=False),
        *closed("notifications", "status", DELIVERY),
        sa.Column("reason", sa.Text()),
        sa.Column("next_attempt_at", INSTANT),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notifications_delivery_id", "notifications", ["delivery_id"])
