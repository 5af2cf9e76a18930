"""The key of a message that may have arrived, so that it is repeated under the same key."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("message_key", sa.Text()))


def downgrade() -> None:
    op.drop_column("deliveries", "message_key")
