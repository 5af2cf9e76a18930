"""Scores on PostgreSQL in partitions of one UTC day of slots each, with a default partition."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

OLD_COLUMNS = (
    'run_id BIGINT NOT NULL, user_id TEXT COLLATE "C" NOT NULL, metric_id INTEGER NOT '
    "NULL, value DOUBLE PRECISION"
)
NEW_COLUMNS = """
    run_id BIGINT NOT NULL, day DATE NOT NULL, metric_id INTEGER NOT NULL, value DOUBLE PRECISION,
    user_id TEXT COLLATE "C" NOT NULL
"""
OLD_KEY = "CONSTRAINT pk_scores PRIMARY KEY (run_id, user_id, metric_id)"
NEW_KEY = "CONSTRAINT pk_scores PRIMARY KEY (run_id, user_id, metric_id, day)"
OLD_VIEW = """
CREATE VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, scores.value, scores.run_id
FROM runs JOIN scores ON scores.run_id = runs.id JOIN metrics ON metrics.id = scores.metric_id
"""
NEW_VIEW = """
CREATE VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, scores.value, scores.run_id
FROM runs JOIN scores ON scores.run_id = runs.id
    AND scores.day = CAST(runs.scheduled_for AT TIME ZONE 'UTC' AS date)
JOIN metrics ON metrics.id = scores.metric_id
"""
DETACHED = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition
    AND relname ~ '^scores_from_[0-9]+(_[0-9]+)?$'
    AND obj_description(oid, 'pg_class') LIKE 'rankwatch: leaves scores,%'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'scores'::regclass)
"""
DAYS = """
SELECT DISTINCT CAST(scheduled_for AT TIME ZONE 'UTC' AS date) FROM runs
WHERE EXISTS (SELECT 1 FROM scores_by_run WHERE scores_by_run.run_id = runs.id) ORDER BY 1
"""
NEXT_RUN = """
SELECT 1 + greatest((SELECT max(run_id) FROM scores_by_day),
    (SELECT last_value FROM pg_sequences
        WHERE quote_ident(schemaname) || '.' || quote_ident(sequencename)
        = pg_get_serial_sequence('runs', 'id')), (SELECT max(id) FROM runs), 0)
"""


def upgrade() -> None:
    """Every score is copied once.

    Scores of runs that are gone, which nothing shows, go to the default partition.
    """
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("DROP VIEW user_scores")
    op.execute(
        "LOCK TABLE scores IN ACCESS EXCLUSIVE MODE"
    )  # before anything is read: what runs store until then is copied
    for name in op.get_bind().scalars(sa.text(DETACHED)).all():
        op.execute(f"DROP TABLE {name}")
    op.execute("ALTER TABLE scores RENAME TO scores_by_run")
    op.execute("ALTER INDEX pk_scores RENAME TO pk_scores_by_run")
    op.execute(f"CREATE TABLE scores ({NEW_COLUMNS}) PARTITION BY RANGE (day)")
    op.execute("CREATE TABLE scores_default PARTITION OF scores DEFAULT")
    for day in op.get_bind().scalars(sa.text(DAYS)).all():
        name = f"scores_{day.isoformat().replace('-', '_')}"
        op.execute(
            f"CREATE TABLE {name} PARTITION OF scores FOR VALUES FROM (DATE '{day}') TO (DATE "
            f"'{day}' + 1)"
        )
    op.execute(
        "INSERT INTO scores (run_id, day, user_id, metric_id, value) SELECT run_id, "
        "coalesce(CAST(scheduled_for AT TIME ZONE 'UTC' AS date), DATE 'epoch'), user_id, "
        "metric_id, value FROM scores_by_run LEFT JOIN runs ON runs.id = scores_by_run.run_id"
    )
    op.execute(f"ALTER TABLE scores ADD {NEW_KEY}")
    op.execute("DROP TABLE scores_by_run")
    op.execute(NEW_VIEW)


def downgrade() -> None:
    """Everything is copied into one partition of runs."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("DROP VIEW user_scores")
    op.execute("LOCK TABLE scores IN ACCESS EXCLUSIVE MODE")
    op.execute("ALTER TABLE scores RENAME TO scores_by_day")
    op.execute("ALTER INDEX pk_scores RENAME TO pk_scores_by_day")
    end = int(op.get_bind().scalar(sa.text(NEXT_RUN)))
    op.execute(f"CREATE TABLE scores ({OLD_COLUMNS}, {OLD_KEY}) PARTITION BY RANGE (run_id)")
    op.execute(
        f"CREATE TABLE scores_from_0 PARTITION OF scores FOR VALUES FROM (MINVALUE) TO ({end:d})"
    )
    op.execute("INSERT INTO scores SELECT run_id, user_id, metric_id, value FROM scores_by_day")
    op.execute("DROP TABLE scores_by_day")
    op.execute(OLD_VIEW)
