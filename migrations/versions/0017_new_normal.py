"""Whether an alert ended at a new level that nobody had accepted, which its reason said until now."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "transitions",
        sa.Column("is_new_normal", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.execute(
        "UPDATE transitions SET is_new_normal = true WHERE from_state = 'firing' "
        "AND to_state <> 'firing' AND reason LIKE '%new normal since%'"
    )


def downgrade() -> None:
    op.drop_column("transitions", "is_new_normal")
