"""Scores in partitions of runs on PostgreSQL, and what each day came to."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

USER_COLUMNS = """
    run_id BIGINT NOT NULL, user_id TEXT COLLATE "C" NOT NULL, metric_id INTEGER NOT NULL,
    value DOUBLE PRECISION
"""
KEY = "CONSTRAINT pk_scores PRIMARY KEY (run_id, user_id, metric_id)"
USER_SCORES = """
CREATE VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, scores.value, scores.run_id
FROM runs JOIN scores ON scores.run_id = runs.id JOIN metrics ON metrics.id = scores.metric_id
"""
COLUMNS = (
    'run_id BIGINT NOT NULL, user_id TEXT COLLATE "C" NOT NULL, metric_id INTEGER NOT '
    "NULL, value DOUBLE PRECISION"
)
KEY = "CONSTRAINT pk_scores PRIMARY KEY (run_id, user_id, metric_id)"
NEXT_RUN = """
SELECT 1 + greatest((SELECT max(run_id) FROM scores),
    (SELECT last_value FROM pg_sequences
        WHERE quote_ident(schemaname) || '.' || quote_ident(sequencename)
        = pg_get_serial_sequence('runs', 'id')), (SELECT max(id) FROM runs), 0)
"""
DETACHED = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition
    AND relname ~ '^scores_from_[0-9]+(_[0-9]+)?$'
    AND obj_description(oid, 'pg_class') LIKE 'rankwatch: leaves scores,%'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'scores'::regclass)
"""


def upgrade() -> None:
    op.create_table(
        "daily",
        sa.Column("comparison", NAME, nullable=False),
        sa.Column("day", INSTANT, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("metric", NAME, nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("n", ID, nullable=False),
        sa.Column("n_undefined", ID, nullable=False),
        sa.Column("mean", sa.Double()),
        sa.Column("standard_error", sa.Double()),
        sa.Column("lowest", sa.Double()),
        sa.Column("highest", sa.Double()),
        sa.Column("shares_below", DOCUMENT, nullable=False),
        sa.Column("histogram_low", sa.Double()),
        sa.Column("histogram_high", sa.Double()),
        sa.Column("histogram_counts", DOCUMENT),
        sa.Column("built_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("comparison", "day", "segment", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_daily_built_at", "daily", ["built_at"])
    if op.get_bind().dialect.name == "postgresql":
        _divide()


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _join()
    op.drop_table("daily")


def _divide() -> None:
    """The table becomes the first partition: PostgreSQL reads it once, and does not rewrite it.

    The table is locked before it is read: it has what runs stored until then, and later runs wait.
    The view is locked first, in the order of those who read it.
    """
    connection = op.get_bind()
    op.execute("DROP VIEW user_scores")
    op.execute("LOCK TABLE scores IN ACCESS EXCLUSIVE MODE")
    is_filled = connection.scalar(sa.text("SELECT EXISTS (SELECT 1 FROM scores)"))
    end = int(connection.scalar(sa.text(NEXT_RUN)))
    op.execute("ALTER TABLE scores RENAME TO scores_from_0")
    op.execute("ALTER INDEX pk_scores RENAME TO scores_from_0_pkey")
    op.execute(f"CREATE TABLE scores ({COLUMNS}, {KEY}) PARTITION BY RANGE (run_id)")
    if is_filled:
        op.execute(
            "ALTER TABLE scores ATTACH PARTITION scores_from_0 FOR VALUES FROM (MINVALUE) TO "
            f"({end:d})"
        )
    else:
        op.execute("DROP TABLE scores_from_0")
    op.execute(USER_SCORES)


def _join() -> None:
    """Everything is copied into one table, its key made last."""
    op.execute("DROP VIEW user_scores")
    op.execute("LOCK TABLE scores IN ACCESS EXCLUSIVE MODE")
    for name in op.get_bind().scalars(sa.text(DETACHED)).all():
        op.execute(f"DROP TABLE {name}")
    op.execute("ALTER TABLE scores RENAME TO scores_divided")
    op.execute("ALTER INDEX pk_scores RENAME TO pk_scores_divided")
    op.execute(f"CREATE TABLE scores ({COLUMNS})")
    op.execute("INSERT INTO scores SELECT run_id, user_id, metric_id, value FROM scores_divided")
    op.execute(f"ALTER TABLE scores ADD {KEY}")
    op.execute("DROP TABLE scores_divided")
    op.execute(USER_SCORES)
