"""Reasons as values, which programs had to read from sentences until now."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

REMOVED = {
    "comparison": "comparison removed from the configuration",
    "rule": "rule removed from the configuration",
    "segment": "segment removed from the rule in the configuration",
}


def upgrade() -> None:
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.add_column("runs", sa.Column("reasons", document))
    prefix = "jsonb_build" if op.get_bind().dialect.name == "postgresql" else "json"
    text = f"{prefix}_object('kind', 'left_out', 'text', reason)"
    doubt = f"{prefix}_object('kind', 'untrusted_floor')"
    op.execute(f"UPDATE runs SET reasons = {prefix}_array({text}) WHERE reason IS NOT NULL")
    op.execute(
        f"UPDATE runs SET reasons = {prefix}_array({doubt}, {text}) "
        "WHERE reason LIKE '%noise_floor is untrusted%'"
    )
    op.add_column("transitions", sa.Column("headline", sa.Text()))
    op.add_column("transitions", sa.Column("removed", sa.String(20)))
    for removed, reason in REMOVED.items():
        op.execute(
            f"UPDATE transitions SET removed = '{removed}' WHERE from_state = 'firing' "
            f"AND to_state <> 'firing' AND reason = '{reason}'"
        )
    for table in ("deliveries", "notifications"):
        op.add_column(
            table,
            sa.Column(
                "is_receiver_removed", sa.Boolean(), server_default=sa.false(), nullable=False
            ),
        )
        op.execute(
            f"UPDATE {table} SET is_receiver_removed = true "
            "WHERE reason = 'the receiver was removed from the configuration'"
        )


def downgrade() -> None:
    op.drop_column("notifications", "is_receiver_removed")
    op.drop_column("deliveries", "is_receiver_removed")
    op.drop_column("transitions", "removed")
    op.drop_column("transitions", "headline")
    op.drop_column("runs", "reasons")
