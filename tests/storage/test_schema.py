"""Versions of the schema: up, down, the same from both ends, and never by surprise."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from factories import DAY, SLOT
from forking import context
from monitor.errors import DatabaseError, SchemaError
from monitor.model.alerts import Removed
from monitor.storage import open_store, schema_version
from monitor.storage.tables.metadata import metadata
from storage.worked import attempt, record, run, runs_of

pytestmark = pytest.mark.early

MIGRATIONS = Path(schema_version.migrations())
VERSIONS = sorted(path.name.partition("_")[0] for path in MIGRATIONS.glob("versions/0*.py"))
HEAD = VERSIONS[-1]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def tables(url: str) -> set[str]:
    with connected(url) as connection:
        return {*inspect(connection).get_table_names(), *inspect(connection).get_view_names()}


def execute(url: str, *statements: str) -> None:
    with connected(url) as connection:
        for statement in statements:
            connection.execute(text(statement))


def catalogue(url: str) -> list[str]:
    """All that the database says of its tables, but not of partitions.

    Check constraints and collations included.
    """
    queries = {
        "sqlite": (
            "SELECT replace(replace(sql, '\t', ''), '\n', '') FROM sqlite_master WHERE sql "
            "<> '' AND type <> 'view'"
        ),
        "postgresql": """
            SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
            UNION ALL SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' '
                || coalesce(collation_name, '') || ' ' || coalesce(column_default, '') || coalesce(character_maximum_length, 0)
            FROM information_schema.columns
            WHERE table_schema = 'public' AND table_name NOT IN (SELECT viewname FROM pg_views)
        """,
    }
    with connected(url) as connection:
        lines = [str(row[0]) for row in connection.execute(text(queries[connection.dialect.name]))]
    return sorted(
        line
        for line in lines
        if not re.search("alembic_version|sqlite_|scores_default|scores_from_0", line)
    )


@pytest.mark.integration  # seconds of CPU
def test_steps_up_make_exactly_the_declared_tables_and_each_step_down_undoes_its_step_up(
    database_url, tmp_path, request
):
    """Also what Alembic does not compare: check constraints, collations, WITHOUT ROWID."""
    before: dict[str, list[str]] = {}
    for version in VERSIONS:
        schema_version.upgrade(database_url, version)
        before[version] = catalogue(database_url)
    divided = set() if database_url.startswith("sqlite") else {"scores_default"}
    assert tables(database_url) == {*metadata.tables, *divided, "user_scores", "alembic_version"}
    assert schema_version.current(database_url) == schema_version.head() == HEAD
    if database_url.startswith("sqlite"):
        _compare(before[HEAD], f"sqlite:///{tmp_path / 'declared.db'}")
    else:
        with request.getfixturevalue("postgres_server").database() as other:
            _compare(before[HEAD], other)

    for version in reversed(VERSIONS[:-1]):
        schema_version.downgrade(database_url, version)
        assert catalogue(database_url) == before[version]
    schema_version.downgrade(database_url, "base")
    assert tables(database_url) == {"alembic_version"}
    assert schema_version.current(database_url) is None

    schema_version.upgrade(database_url)
    assert schema_version.check(database_url) == []
    with closing(open_store(database_url, create=False)) as store:
        run(store, SLOT)


OLDER = """
INSERT INTO metrics (id, name) VALUES (101, 'm1'), (102, 'm2'), (103, 'm3'), (104, 'm4'),
    (105, 'm5'), (106, 'm6'), (107, 'm7'), (108, 'm8'), (109, 'm9'), (110, 'm10');
INSERT INTO runs
    (id, comparison, scheduled_for, status, config_hash, owner, attempt, started_at)
VALUES (7, 'home-feed', '2024-01-08T00:00:00.000000Z', 'ok', 'h', 'a:1', 1,
    '2024-01-08T00:00:00.000000Z'),
    (8, 'home-feed', '2024-01-09T00:00:00.000000Z', 'ok', 'h', 'a:1', 1,
    '2024-01-09T00:00:00.000000Z');
INSERT INTO scores (run_id, user_id, metric_id, value)
    SELECT 7, 'a', id, (id - 100) / 4.0 FROM metrics WHERE id > 100;
INSERT INTO scores (run_id, user_id, metric_id, value)
    SELECT 7, 'b', id, NULL FROM metrics WHERE id > 100;
INSERT INTO scores (run_id, user_id, metric_id, value)
    SELECT 8, 'a', id, (id - 100) / 4.0 FROM metrics WHERE id IN (103, 105);
INSERT INTO scores (run_id, user_id, metric_id, value)
    SELECT 8, 'b', id, NULL FROM metrics WHERE id IN (103, 105);
INSERT INTO stages (run_id, stage, seconds) VALUES (7, 'pull', 1.5);
INSERT INTO coverage (run_id, segment, position, asked, paired) VALUES (7, 'all', 0, 9, 1);
INSERT INTO coverage_reasons (run_id, segment, arm, reason, users)
    VALUES (7, 'all', 'candidate', 'timeout', 2);
INSERT INTO transitions
    (comparison, alert, segment, scheduled_for, changed_at, from_state, to_state, reason,
    direction, threshold, users, metric, statistic, severity, since, labels)
VALUES ('home-feed', 'Low', 'all', '2024-01-08T00:00:00.000000Z', '2024-01-08T00:00:00.000000Z',
    'firing', 'quiet', 'mean is 0.4; new normal since 2024',
    'below', 0.3, 9, 'rbo', 'mean', 'critical', '2024-01-07T00:00:00.000000Z', '{}'),
    ('home-feed', 'Gone', 'all', '2024-01-08T00:00:00.000000Z', '2024-01-08T00:00:00.000000Z',
    'firing', 'quiet', 'rule removed from the configuration',
    'below', 0.3, 9, 'rbo', 'mean', 'critical', '2024-01-07T00:00:00.000000Z', '{}');
UPDATE runs SET reason = 'x; noise_floor is untrusted: a' WHERE id = 7
"""
NEWER = """
INSERT INTO coverage_reasons (run_id, segment, arm, reason, users)
VALUES (7, 'all', 'candidate', 'too_slow', 4), (7, 'all', 'baseline', 'too_slow', 1)
"""


@pytest.mark.integration  # seconds of CPU
def test_what_an_older_version_stored_survives_the_way_up_and_down(database_url):
    """Runs with more metrics than a row of scores holds and with fewer, on two days.

    A view over ours stays.
    """
    schema_version.upgrade(database_url, "0001")
    execute(database_url, *OLDER.split(";\n"))
    before = shown(database_url, "user_scores")
    with pytest.raises(
        SchemaError, match=rf"version 0001, older than {HEAD} .*: run `rankwatch db upgrade`"
    ):
        open_store(database_url, create=True)

    schema_version.upgrade(database_url, "0011")
    execute(database_url, "CREATE VIEW theirs AS SELECT * FROM user_scores")
    schema_version.upgrade(database_url)

    assert (len(before), shown(database_url, "theirs"), count(database_url, "scores")) == (
        24,
        before,
        2 * 2 + 2,
    )
    with closing(open_store(database_url, create=False)) as store:
        assert store.history.run_scores(7, ["m10"]).by_metric["m10"][0] == 2.5
        (_, old) = runs_of(store)
        assert (old.id, old.slot, old.catalogue_size, old.labels_until) == (7, SLOT, None, None)
        assert (record(store, 7).arm_scores, store.history.kept_lists(7)) == ((), None)
        assert [each.kind for each in old.reasons] == ["untrusted_floor", "left_out"]
        assert old.reasons[1].text == old.reason
        ends = store.alerts.transitions(comparison=None, limit=None)
        found = {(end.alert, end.is_new_normal, end.removed) for end in ends}
        assert found == {("Low", True, None), ("Gone", False, Removed.RULE)}
        run(store, SLOT + 2 * DAY)
    execute(database_url, NEWER)
    schema_version.downgrade(database_url, "0011")
    assert [row for row in shown(database_url, "theirs") if row[0] in (7, 8)] == before
    execute(database_url, "DROP VIEW theirs")
    schema_version.downgrade(database_url, "0001")

    assert schema_version.current(database_url) == "0001"
    assert [row for row in shown(database_url, "user_scores") if row[0] in (7, 8)] == before
    with connected(database_url) as connection:
        reasons = connection.execute(
            text("SELECT arm, reason, users FROM coverage_reasons WHERE run_id = 7 ORDER BY arm")
        ).all()
    assert [tuple(row) for row in reasons] == [
        ("baseline", "timeout", 1),
        ("candidate", "timeout", 6),
    ]
    assert (count(database_url, "runs"), count(database_url, "stages")) == (3, 3)


def shown(url: str, view: str) -> list[tuple[object, ...]]:
    with connected(url) as connection:
        query = text(
            f"SELECT run_id, metric, user_id, value, comparison FROM {view} ORDER BY 1, 2, 3"
        )
        return [tuple(row) for row in connection.execute(query)]


def count(url: str, table: str) -> int:
    with connected(url) as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def _compare(migrated: list[str], declared: str) -> None:
    with connected(declared) as connection:
        metadata.create_all(connection)
    found = [
        _without_day(line) if declared.startswith("sqlite") else line
        for line in catalogue(declared)
    ]
    assert len(found) > len(metadata.tables)
    assert migrated == found


def _without_day(line: str) -> str:
    """The table of scores as SQLite has it, which does not partition."""
    return line.replace(", day DATE NOT NULL", "").replace("user_id, day)", "user_id)")


def test_a_database_without_our_tables_drifts_by_everything_and_those_of_others_are_left_alone(
    database_url,
):
    execute(database_url, "CREATE TABLE other (a INTEGER)")

    assert schema_version.check(database_url) == [
        f"the schema has version (none), this program needs {HEAD}: run `rankwatch db upgrade`"
    ]
    open_store(database_url, create=True).close()
    assert "other" in tables(database_url)


def test_opening_creates_nothing_unless_asked_to(database_url, tmp_path):
    with pytest.raises(DatabaseError, match="run `rankwatch db upgrade`"):
        open_store(database_url, create=False)

    assert schema_version.current(database_url) is None
    assert list(tmp_path.iterdir()) == []
    assert tables(database_url) == set()


def test_a_schema_that_is_lost_while_the_store_is_open_is_noticed(database_url):
    with closing(open_store(database_url, create=True)) as store:
        schema_version.downgrade(database_url, "base")

        with pytest.raises(
            SchemaError, match="holds no tables of rankwatch yet: run `rankwatch db upgrade`"
        ):
            store.maintenance.ping()
        with pytest.raises(SchemaError, match="lacks tables or columns"):
            attempt(store)


def _open(url: str) -> str | None:
    try:
        open_store(url, create=True).close()
    except DatabaseError as error:
        return str(error)
    return None


@pytest.mark.integration
def test_several_processes_that_create_at_once_do_not_collide(database_url):
    with context().Pool(2) as pool:
        assert pool.map(_open, [database_url] * 4, chunksize=1) == [None] * 4

    assert schema_version.check(database_url) == []


def test_drift_is_named(database_url):
    schema_version.upgrade(database_url)
    changes = (
        "ALTER TABLE runs ADD COLUMN mine INTEGER; DROP INDEX ix_runs_scheduled_for; DROP "
        "TABLE stages; CREATE TABLE x (a INT)"
    )
    execute(database_url, *changes.split("; "))

    differences = schema_version.check(database_url)

    for word in ("mine", "ix_runs_scheduled_for", "stages", "'x'"):
        assert len([each for each in differences if word in each]) == 1, word
    assert len(differences) == 4


def test_a_newer_schema_is_refused_and_left_alone(database_url):
    schema_version.upgrade(database_url)
    execute(database_url, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(SchemaError, match=r"9999, .* not know: install the newer rankwatch"):
        open_store(database_url, create=True)
    with pytest.raises(SchemaError, match="which this program does not know"):
        schema_version.upgrade(database_url)
    assert schema_version.current(database_url) == "9999"
