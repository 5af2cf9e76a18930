"""The sums of each day are gone: whoever wants long series keeps runs for longer."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.drop_table("daily")


def downgrade() -> None:
    """The table as versions of before fill it anew: from the runs that are stored."""
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
        sa.Column("histogram_low", sa.Double()),
        sa.Column("histogram_high", sa.Double()),
        sa.Column("histogram_counts", DOCUMENT),
        sa.Column("built_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_daily_built_at", "daily", ["built_at"])
