"""Leases: who of several daemons leads, and in which epoch each run was claimed."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("epoch", ID, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("acquired_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sqlite_with_rowid=False,
    )
    op.add_column("runs", sa.Column("epoch", ID))


def downgrade() -> None:
    op.drop_column("runs", "epoch")
    op.drop_table("leases")
