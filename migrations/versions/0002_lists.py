"""Arm-wide scores, kept lists, the size of the catalogue, and when relevance was known."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")

ARM = "arm IN ('baseline', 'candidate')"

# Added and dropped in place on SQLite too: copying the table there would delete every row that
# refers to it.
OF_RUNS: dict[str, Any] = {"catalogue_size": ID, "labels_until": INSTANT, "labelled_at": INSTANT}


def upgrade() -> None:
    for name, kind in OF_RUNS.items():
        op.add_column("runs", sa.Column(name, kind))
    op.create_table(
        "arm_scores",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("arm", sa.String(20), nullable=False),
        sa.CheckConstraint(ARM, name=op.f("ck_arm_scores_arm")),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "arm", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "kept_lists",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("arm", sa.String(20), nullable=False),
        sa.CheckConstraint(ARM, name=op.f("ck_kept_lists_arm")),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "arm", "part"),
    )


def downgrade() -> None:
    op.drop_table("kept_lists")
    op.drop_table("arm_scores")
    for name in reversed(OF_RUNS):
        op.drop_column("runs", name)
