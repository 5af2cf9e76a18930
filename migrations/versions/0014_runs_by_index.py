"""An index with ids of runs, from which PostgreSQL finds the runs of a chart."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_index("id")


def downgrade() -> None:
    _make_index()


def _make_index(*included: str) -> None:
    if op.get_bind().dialect.name == "postgresql":  # an index of SQLite always holds the id
        op.drop_index("ix_runs_comparison_status_scheduled_for", "runs")
        columns = ["comparison", "status", "scheduled_for"]
        op.create_index(
            "ix_runs_comparison_status_scheduled_for", "runs", columns, postgresql_include=included
        )
