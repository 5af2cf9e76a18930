"""What rules that learn what is normal expected of each run."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "expectations",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("learned_from", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Double()),
        sa.Column("bound", sa.Double()),
        sa.Column("z", sa.Double()),
        sa.Column("evidence", sa.Double()),
        sa.Column("evidence_bound", sa.Double()),
        sa.PrimaryKeyConstraint("run_id", "alert", "segment"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("expectations")
