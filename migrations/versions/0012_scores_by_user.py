"""One row of scores a user for several metrics, in place of one row a metric.

The few runs that wait are found by an index.
"""

from collections.abc import Callable
from datetime import date

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
PLACES = 8
FEW_RUNS = {
    "ix_runs_claimed": (["claimed_until"], "claimed_until IS NOT NULL"),
    "ix_runs_unlabelled": (
        ["comparison", "status", "scheduled_for"],
        "labels_until IS NOT NULL AND labelled_at IS NULL",
    ),
}

NEW_COLUMNS = f"""
    run_id BIGINT NOT NULL, day DATE NOT NULL, part SMALLINT NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    {", ".join(f"v{place} DOUBLE PRECISION" for place in range(1, PLACES + 1))}
"""
OLD_COLUMNS = """
    run_id BIGINT NOT NULL, day DATE NOT NULL, metric_id INTEGER NOT NULL, value DOUBLE PRECISION,
    user_id TEXT COLLATE "C" NOT NULL
"""
NEW_KEY = ["run_id", "part", "user_id"]
OLD_KEY = ["run_id", "user_id", "metric_id"]
DAY_OF_RUN = "AND scores.day = CAST(runs.scheduled_for AT TIME ZONE 'UTC' AS date)"
PLACED = (
    "CASE score_places.place "
    f"{' '.join(f'WHEN {place} THEN v{place}' for place in range(1, PLACES + 1))} END"
)
NEW_VIEW = f"""
VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, {PLACED} AS value, scores.run_id
FROM runs JOIN score_places ON score_places.run_id = runs.id
JOIN metrics ON metrics.id = score_places.metric_id
JOIN scores ON scores.run_id = runs.id AND scores.part = score_places.part %s
"""
OLD_VIEW = """
VIEW user_scores AS
SELECT runs.comparison, runs.scheduled_for, scores.user_id,
    metrics.name AS metric, scores.value, scores.run_id
FROM runs JOIN scores ON scores.run_id = runs.id %s JOIN metrics ON metrics.id = scores.metric_id
"""
PARTITIONS = """
SELECT c.relname AS name, quote_ident(c.relname) AS spelled,
    pg_get_expr(c.relpartbound, c.oid) AS bounds
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'scores_before'::regclass ORDER BY c.relname
"""


def upgrade() -> None:
    """Every score is copied once, run by run.

    Scores of runs that are gone, which nothing shows, are left behind.
    """
    op.create_table(
        "score_places",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.SmallInteger(), nullable=False),
        sa.Column("place", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "metric_id"),
        sqlite_with_rowid=False,
    )
    _set_aside(OLD_VIEW, _index_few_runs)
    if _is_sqlite():
        op.create_table(
            "scores",
            sa.Column("run_id", ID, nullable=False),
            sa.Column("part", sa.SmallInteger(), nullable=False),
            sa.Column("user_id", NAME, nullable=False),
            *(sa.Column(f"v{place}", sa.Double()) for place in range(1, PLACES + 1)),
            sa.PrimaryKeyConstraint(*NEW_KEY),
            sqlite_with_rowid=False,
        )
    else:
        _divide(NEW_COLUMNS)
    for run_id, day in _runs():
        _join_metrics(run_id, day)
    _finish(NEW_KEY, NEW_VIEW)


def downgrade() -> None:
    """Every score is copied once, run by run."""
    _set_aside(NEW_VIEW, _drop_indexes)
    if _is_sqlite():
        op.create_table(
            "scores",
            sa.Column("run_id", ID, nullable=False),
            sa.Column("user_id", NAME, nullable=False),
            sa.Column("metric_id", sa.Integer(), nullable=False),
            sa.Column("value", sa.Double()),
            sa.PrimaryKeyConstraint(*OLD_KEY),
            sqlite_with_rowid=False,
        )
    else:
        _divide(OLD_COLUMNS)
    for run_id, day in _runs():
        _split_metrics(run_id, day)
    _finish(OLD_KEY, OLD_VIEW)
    op.drop_table("score_places")


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _index_few_runs() -> None:
    for name, (columns, which) in FEW_RUNS.items():
        op.create_index(
            name, "runs", columns, sqlite_where=sa.text(which), postgresql_where=sa.text(which)
        )


def _drop_indexes() -> None:
    for name in FEW_RUNS:
        op.drop_index(name, "runs")


def _set_aside(view: str, change_runs: Callable[[], None]) -> None:
    """Rename the table. All users of it or of the view ``view`` wait from now on."""
    if _is_sqlite():
        change_runs()
        op.execute("DROP VIEW user_scores")
        op.execute(
            "PRAGMA legacy_alter_table = ON"
        )  # views of others over ours do not matter meanwhile
        op.execute("ALTER TABLE scores RENAME TO scores_before")
        op.execute("PRAGMA legacy_alter_table = OFF")
        return
    # Replaced by itself, the view is locked before the table, in the order in which its readers
    # lock. It is never dropped: what others were granted on it, and what they built on it, stays.
    op.execute(f"CREATE OR REPLACE {view % DAY_OF_RUN}")
    change_runs()  # read after the view and written before scores, so locked between them
    # Before anything is read: what runs store until then is copied. In the order in which runs
    # write.
    op.execute("LOCK TABLE score_places, scores IN ACCESS EXCLUSIVE MODE")
    op.execute("ALTER INDEX pk_scores RENAME TO pk_scores_before")
    op.execute("ALTER TABLE scores RENAME TO scores_before")


def _divide(columns: str) -> None:
    """A table with the partitions that the one of before has, by the same names."""
    op.execute(f"CREATE TABLE scores ({columns}) PARTITION BY RANGE (day)")
    for number, partition in enumerate(op.get_bind().execute(sa.text(PARTITIONS)).all()):
        op.execute(f"ALTER TABLE {partition.spelled} RENAME TO scores_before_{number}")
        op.execute(f"CREATE TABLE {partition.spelled} PARTITION OF scores {partition.bounds}")
    op.execute(
        "SET LOCAL enable_seqscan = off"
    )  # run by run by the key, whatever the server has counted of the table


def _runs() -> list[tuple[int, date | None]]:
    day = "NULL" if _is_sqlite() else "CAST(scheduled_for AT TIME ZONE 'UTC' AS date)"
    return [
        (row[0], row[1])
        for row in op.get_bind().execute(
            sa.text(f"SELECT id, {day} FROM runs ORDER BY scheduled_for")
        )
    ]


def _of_run(day: date | None) -> str:
    return "scores_before.run_id = :run" + ("" if day is None else " AND scores_before.day = :day")


def _join_metrics(run_id: int, day: date | None) -> None:
    connection, given = op.get_bind(), {"run": run_id} | ({} if day is None else {"day": day})
    numbers = connection.scalars(
        sa.text(f"SELECT DISTINCT metric_id FROM scores_before WHERE {_of_run(day)}"), given
    ).all()
    days = "" if day is None else "day, "
    placed = sorted(numbers)
    for part, start in enumerate(range(0, len(placed), PLACES)):
        metrics = dict(enumerate(placed[start : start + PLACES], start=1))
        for place, metric in metrics.items():
            op.execute(
                f"INSERT INTO score_places VALUES ({run_id:d}, {metric:d}, {part:d}, {place:d})"
            )
        values = [
            f"max(CASE WHEN metric_id = {metric:d} THEN value END)" for metric in metrics.values()
        ]
        connection.execute(
            sa.text(
                f"INSERT INTO scores (run_id, {days}part, user_id, "
                f"{', '.join(f'v{place}' for place in metrics)})"
                f" SELECT run_id, {days}{part:d}, user_id,"
                " "
                f"{', '.join(values)}"
                f" FROM scores_before WHERE {_of_run(day)} AND metric_id IN "
                f"({', '.join(map(str, metrics.values()))})"
                f" GROUP BY run_id, {days}user_id"
            ),
            given,
        )


def _split_metrics(run_id: int, day: date | None) -> None:
    days, given = ("", {}) if day is None else ("day, ", {"day": day})
    op.get_bind().execute(
        sa.text(
            f"INSERT INTO scores (run_id, {days}user_id, metric_id, value) SELECT "
            f"scores_before.run_id, {days}user_id, metric_id, {PLACED} FROM scores_before JOIN "
            "score_places ON score_places.run_id = scores_before.run_id AND score_places.part = "
            f"scores_before.part WHERE {_of_run(day)}"
        ),
        {"run": run_id, **given},
    )


def _finish(key: list[str], view: str) -> None:
    if _is_sqlite():
        op.execute("DROP TABLE scores_before")
        op.execute(f"CREATE {view % ''}")
        return
    op.execute(
        f"ALTER TABLE scores ADD CONSTRAINT pk_scores PRIMARY KEY ({', '.join([*key, 'day'])})"
    )
    op.execute(f"CREATE OR REPLACE {view % DAY_OF_RUN}")
    op.execute("DROP TABLE scores_before")
