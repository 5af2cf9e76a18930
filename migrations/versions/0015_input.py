"""What a run was measured of: the versions of the models that answered, and a hash of the lists."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "runs", sa.Column("models", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"))
    )
    op.add_column("runs", sa.Column("input_hash", sa.Text()))


def downgrade() -> None:
    op.drop_column("runs", "input_hash")
    op.drop_column("runs", "models")
