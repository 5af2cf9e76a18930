"""The other end of what is normal: where it ends on the side that a rule does not watch."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("expectations", sa.Column("opposite_bound", sa.Double()))


def downgrade() -> None:
    op.drop_column("expectations", "opposite_bound")
