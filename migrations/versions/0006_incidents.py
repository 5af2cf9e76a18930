"""Incidents, acknowledgements, silences, and an outbox that holds back and repeats."""

from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

BEFORE = ("pending", "sent", "dead")
STATUS = ("pending", "held", "sent", "dead", "dropped")
WAITING = {"before": "status = 'pending'", "after": "status IN ('pending', 'held')"}


def upgrade() -> None:
    op.add_column("alert_states", sa.Column("incident", sa.Text()))
    op.add_column("alert_states", sa.Column("acknowledged_by", sa.Text()))
    op.add_column("transitions", sa.Column("interval_low", sa.Double()))
    op.add_column("transitions", sa.Column("interval_high", sa.Double()))
    op.add_column("transitions", sa.Column("normal", sa.Double()))
    op.add_column("transitions", sa.Column("incident", sa.Text()))
    op.create_index("ix_transitions_incident", "transitions", ["incident"])
    op.create_table(
        "silences",
        sa.Column("id", ID, primary_key=True),
        sa.Column("matchers", DOCUMENT, nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("starts_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sqlite_autoincrement=True,
    )
    # What was sent under the earlier version has no incident: each firing is one of its own.
    for table in ("transitions", "alert_states"):
        op.execute(f"UPDATE {table} SET incident = dedup_key")
    # While an alert fires the streak counts recovered runs now, not the breaches that led to it.
    op.execute("UPDATE alert_states SET streak = 0 WHERE state = 'firing'")
    if op.get_bind().dialect.name == "sqlite":
        _copy_outbox(STATUS, is_new=True)
        return
    for table in ("deliveries", "notifications"):
        _permit(table, STATUS)
    for column in _of_deliveries():
        op.add_column("deliveries", column)
    op.drop_index("ix_deliveries_pending", "deliveries")
    _index_deliveries(is_new=True)


def downgrade() -> None:
    for table in ("deliveries", "notifications"):
        op.execute(f"UPDATE {table} SET status = 'pending' WHERE status = 'held'")
        op.execute(f"UPDATE {table} SET status = 'dead' WHERE status = 'dropped'")
    if op.get_bind().dialect.name == "sqlite":
        _copy_outbox(BEFORE, is_new=False)
    else:
        op.drop_index("ix_deliveries_waiting", "deliveries")
        op.drop_index("ix_deliveries_repeated", "deliveries")
        _index_deliveries(is_new=False)
        for column in _of_deliveries():
            op.drop_column("deliveries", column.name)
        for table in ("deliveries", "notifications"):
            _permit(table, BEFORE)
    op.drop_table("silences")
    op.drop_index("ix_transitions_incident", "transitions")
    for name in ("incident", "normal", "interval_high", "interval_low"):
        op.drop_column("transitions", name)
    op.drop_column("alert_states", "acknowledged_by")
    op.drop_column("alert_states", "incident")


def _of_deliveries() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("may_be_known", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("reason", sa.Text()),
        sa.Column("settled_at", INSTANT),
        sa.Column("repeat_at", INSTANT),
    )


def _is_one_of(status: Iterable[str]) -> str:
    listed = ", ".join(f"'{each}'" for each in status)
    return f"status IN ({listed})"


def _permit(table: str, status: Iterable[str]) -> None:
    op.drop_constraint(op.f(f"ck_{table}_status"), table, type_="check")
    op.create_check_constraint(op.f(f"ck_{table}_status"), table, _is_one_of(status))


def _index_deliveries(*, is_new: bool) -> None:
    if not is_new:
        pending = sa.text(WAITING["before"])
        columns = ["receiver", "next_attempt_at"]
        op.create_index(
            "ix_deliveries_pending",
            "deliveries",
            columns,
            sqlite_where=pending,
            postgresql_where=pending,
        )
        return
    waiting, repeated = sa.text(WAITING["after"]), sa.text("repeat_at IS NOT NULL")
    columns = ["receiver", "next_attempt_at"]
    op.create_index(
        "ix_deliveries_waiting",
        "deliveries",
        columns,
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    columns = ["receiver", "repeat_at"]
    op.create_index(
        "ix_deliveries_repeated",
        "deliveries",
        columns,
        sqlite_where=repeated,
        postgresql_where=repeated,
    )


def _copy_outbox(status: tuple[str, ...], *, is_new: bool) -> None:
    """Recreate both tables, as SQLite cannot change a constraint; the referring one is the last."""
    for table in ("notifications", "deliveries"):
        op.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        op.drop_table(table)
    op.create_table(
        "deliveries",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "transition_id", ID, sa.ForeignKey("transitions.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("receiver", NAME, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.CheckConstraint(_is_one_of(status), name=op.f("ck_deliveries_status")),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", INSTANT, nullable=False),
        sa.Column("leased_by", sa.Text()),
        sa.Column("leased_until", INSTANT),
        *(_of_deliveries() if is_new else ()),
        sa.UniqueConstraint("transition_id", "receiver"),
        sqlite_autoincrement=True,
    )
    _index_deliveries(is_new=is_new)
    op.create_table(
        "notifications",
        sa.Column("id", ID, primary_key=True),
        sa.Column(
            "delivery_id", ID, sa.ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("attempted_at", INSTANT, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.CheckConstraint(_is_one_of(status), name=op.f("ck_notifications_status")),
        sa.Column("reason", sa.Text()),
        sa.Column("next_attempt_at", INSTANT),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notifications_delivery_id", "notifications", ["delivery_id"])
    columns = {
        "deliveries": (
            "id, transition_id, receiver, status, attempts, next_attempt_at, "
            "leased_by, leased_until"
        ),
        "notifications": "id, delivery_id, attempted_at, status, reason, next_attempt_at",
    }
    for table, names in columns.items():
        op.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM kept_{table}")
        op.drop_table(f"kept_{table}")
