"""What a run's mean is made of, why it fell, and what alerts say of it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
DOCUMENT = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "splits",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("by_membership", sa.Double()),
        sa.Column("by_order", sa.Double()),
        sa.Column("by_length", sa.Double()),
        sa.Column("spread", sa.Double()),
        sa.Column("kinds", DOCUMENT),
        sa.PrimaryKeyConstraint("run_id", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "explanations",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("details", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.add_column("transitions", sa.Column("explanation", sa.Text()))


def downgrade() -> None:
    op.drop_column("transitions", "explanation")
    op.drop_table("explanations")
    op.drop_table("splits")
