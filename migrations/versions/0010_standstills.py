"""What rules on standstill count has columns of its own.

It was packed with what other rules learn.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # What was counted until now is not carried over: rules on standstill see two changes of the arm
    # and know again.
    op.create_table(
        "standstills",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("alert", NAME, nullable=False),
        sa.Column("arm", sa.String(20), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("longest", sa.Integer(), nullable=False),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.CheckConstraint("arm IN ('baseline', 'candidate')", name=op.f("ck_standstills_arm")),
        sa.PrimaryKeyConstraint("run_id", "alert"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("standstills")
