"""What later runs learn from an earlier one, packed."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "lessons",
        sa.Column(
            "run_id",
            ID,
            sa.ForeignKey("runs.id", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("lessons")
