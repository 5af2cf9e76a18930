"""A reason for users whom rankwatch itself had no time to ask."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
REASONS = (
    *(
        "missing",
        "empty",
        "short",
        "duplicated",
        "timeout",
        "unreachable",
        "rate_limited",
        "http_error",
        "server_error",
    ),
    *("too_large", "malformed", "wrong_user", "duplicate_user", "unavailable"),
)
COLUMNS = "run_id, segment, arm, reason, users"


def upgrade() -> None:
    _allow([*REASONS, "too_slow"])


def downgrade() -> None:
    """What was too slow by itself becomes a time-out, as versions of before counted it."""
    same = " AND ".join(
        f"late.{name} = coverage_reasons.{name}" for name in ("run_id", "segment", "arm")
    )
    slow = (
        f"SELECT late.users FROM coverage_reasons AS late WHERE {same} AND late.reason = 'too_slow'"
    )
    op.execute(
        (
            f"UPDATE coverage_reasons SET users = users + ({slow}) WHERE reason = 'timeout' AND "
            f"EXISTS ({slow})"
        )
    )
    timed_out = f"SELECT 1 FROM coverage_reasons AS late WHERE {same} AND late.reason = 'timeout'"
    op.execute(f"DELETE FROM coverage_reasons WHERE reason = 'too_slow' AND EXISTS ({timed_out})")
    op.execute("UPDATE coverage_reasons SET reason = 'timeout' WHERE reason = 'too_slow'")
    _allow(REASONS)


def _allow(reasons: Sequence[str]) -> None:
    allowed, name = _one_of("reason", reasons), op.f("ck_coverage_reasons_reason")
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(name, "coverage_reasons", type_="check")
        op.create_check_constraint(name, "coverage_reasons", allowed)
        return
    # SQLite changes no constraint: every row is copied once.
    op.execute("ALTER TABLE coverage_reasons RENAME TO coverage_reasons_before")
    op.create_table(
        "coverage_reasons",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("arm", sa.String(20), nullable=False),
        sa.CheckConstraint(
            _one_of("arm", ("baseline", "candidate")), name=op.f("ck_coverage_reasons_arm")
        ),
        sa.Column("reason", sa.String(20), nullable=False),
        sa.CheckConstraint(allowed, name=name),
        sa.Column("users", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "segment", "arm", "reason"),
        sa.ForeignKeyConstraint(
            ["run_id", "segment"], ["coverage.run_id", "coverage.segment"], ondelete="CASCADE"
        ),
        sqlite_with_rowid=False,
    )
    op.execute(
        f"INSERT INTO coverage_reasons ({COLUMNS}) SELECT {COLUMNS} FROM coverage_reasons_before"
    )
    op.execute("DROP TABLE coverage_reasons_before")


def _one_of(column: str, members: Sequence[str]) -> str:
    return f"{column} IN ({', '.join(repr(member) for member in members)})"
