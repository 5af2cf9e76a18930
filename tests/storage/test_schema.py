"""Versions of the schema: up, down, the same from both ends, and never by surprise."""

# ruff: noqa: S608 - statements are put together from names of ours

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from factories import SLOT
from forking import context
from monitor.errors import DatabaseError, SchemaError
from monitor.storage import open_store, schema_version
from monitor.storage.tables import metadata
from storage.worked import attempt, run

pytestmark = pytest.mark.early

MIGRATIONS = sorted(Path(schema_version.migrations(), "versions").glob("0*.py"))
VERSIONS = [path.name.partition("_")[0] for path in MIGRATIONS]
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


def execute(url: str, statement: str) -> None:
    with connected(url) as connection:
        connection.execute(text(statement))


def catalogue(url: str) -> list[str]:
    """All that the database says of its tables, but not of partitions; check constraints and collations included."""
    queries = {
        "sqlite": "SELECT replace(replace(sql, '\t', ''), '\n', '') FROM sqlite_master WHERE sql <> '' AND type <> 'view'",
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
    return sorted(line for line in lines if not re.search("alembic_version|sqlite_|scores_default|scores_from_0", line))


def test_up_down_and_up_again_and_each_step_down_undoes_its_step_up(database_url: str) -> None:
    before: dict[str, list[str]] = {}
    for version in VERSIONS:
        schema_version.upgrade(database_url, version)
        before[version] = catalogue(database_url)
    divided = set() if database_url.startswith("sqlite") else {"scores_default"}
    assert tables(database_url) == {*metadata.tables, *divided, "user_scores", "alembic_version"}
    assert schema_version.current(database_url) == schema_version.head() == HEAD

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


def test_what_an_older_version_stored_survives_the_way_up_and_down(database_url: str) -> None:
    schema_version.upgrade(database_url, "0001")
    execute(
        database_url,
        "INSERT INTO runs (id, comparison, scheduled_for, status, config_hash, owner, attempt, started_at) VALUES "
        "(7, 'home-feed', '2024-01-08T00:00:00.000000Z', 'ok', 'h', 'a:1', 1, '2024-01-08T00:00:00.000000Z')",
    )
    execute(database_url, "INSERT INTO stages (run_id, stage, seconds) VALUES (7, 'pull', 1.5)")
    execute(database_url, "INSERT INTO coverage (run_id, segment, position, asked, paired) VALUES (7, 'all', 0, 9, 1)")
    lacks = "INSERT INTO coverage_reasons (run_id, segment, arm, reason, users) VALUES "
    execute(database_url, f"{lacks} (7, 'all', 'candidate', 'timeout', 2)")
    with pytest.raises(SchemaError, match=rf"version 0001, older than {HEAD} .*: run `rankwatch db upgrade`"):
        open_store(database_url, create=True)

    schema_version.upgrade(database_url)
    with closing(open_store(database_url, create=False)) as store:
        (old,) = store.history.runs(comparison=None, limit=9)
        assert (old.id, old.slot, old.catalogue_size, old.labels_until) == (7, SLOT, None, None)
        assert (store.history.arm_scores(7), store.history.kept_lists(7)) == ((), None)
        run(store, SLOT + timedelta(days=1))
    execute(database_url, f"{lacks} (7, 'all', 'candidate', 'too_slow', 4), (7, 'all', 'baseline', 'too_slow', 1)")
    schema_version.downgrade(database_url, "0001")
    with connected(database_url) as connection:
        found = connection.execute(text("SELECT arm, reason, users FROM coverage_reasons WHERE run_id = 7 ORDER BY arm"))
        assert [tuple(row) for row in found] == [("baseline", "timeout", 1), ("candidate", "timeout", 6)]

    assert schema_version.current(database_url) == "0001"
    assert count(database_url, "runs") == 2
    assert count(database_url, "stages") == 3


def test_scores_are_carried_over_to_one_row_a_user_and_back(database_url: str) -> None:
    """Of a run with more metrics than a row holds, of one with fewer, in a partition or none; a view over ours stays."""
    schema_version.upgrade(database_url, "0011")
    slots = {7: "2024-01-08T00:00:00.000000Z", 8: "2024-01-09T00:00:00.000000Z"}
    is_divided = database_url.startswith("postgresql")
    if is_divided:
        execute(database_url, "CREATE TABLE mine PARTITION OF scores FOR VALUES FROM ('2024-01-09') TO ('2024-01-11')")
    for metric in range(1, 11):
        execute(database_url, f"INSERT INTO metrics (id, name) VALUES ({metric}, 'm{metric}')")
    for run_id, slot in slots.items():
        execute(
            database_url,
            "INSERT INTO runs (id, comparison, scheduled_for, status, config_hash, owner, attempt, started_at)"
            f" VALUES ({run_id}, 'home-feed', '{slot}', 'ok', 'h', 'a:1', 1, '{slot}')",
        )
        day, of_day = ("day, ", f"'{slot[:10]}', ") if is_divided else ("", "")
        for metric in range(1, 11) if run_id == 7 else (3, 5):
            rows = ", ".join(f"({run_id}, {of_day}'{u}', {metric}, {metric / 4 if u == 'a' else 'NULL'})" for u in "ab")
            execute(database_url, f"INSERT INTO scores (run_id, {day}user_id, metric_id, value) VALUES {rows}")
    execute(database_url, "CREATE VIEW theirs AS SELECT * FROM user_scores")
    before = shown(database_url)

    schema_version.upgrade(database_url)

    assert (len(before), shown(database_url), count(database_url, "scores")) == (24, before, 2 * 2 + 2)
    with closing(open_store(database_url, create=False)) as store:
        assert store.history.run_scores(7, ["m10"]).by_metric["m10"][0] == 2.5
    schema_version.downgrade(database_url, "0011")
    assert (shown(database_url), count(database_url, "scores")) == (before, 24)


def shown(url: str) -> list[tuple[object, ...]]:
    with connected(url) as connection:
        query = text("SELECT run_id, metric, user_id, value, comparison FROM theirs ORDER BY 1, 2, 3")
        return [tuple(row) for row in connection.execute(query)]


def count(url: str, table: str) -> int:
    with connected(url) as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_migrations_make_exactly_the_tables_that_the_program_declares(
    database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also what Alembic does not compare: check constraints, collations, WITHOUT ROWID."""
    schema_version.upgrade(database_url)
    if database_url.startswith("sqlite"):
        _compare(database_url, f"sqlite:///{tmp_path / 'declared.db'}")
    else:
        with request.getfixturevalue("postgres_server").database() as other:
            _compare(database_url, other)


def _compare(migrated: str, declared: str) -> None:
    with connected(declared) as connection:
        metadata.create_all(connection)
    found = [_without_day(line) if declared.startswith("sqlite") else line for line in catalogue(declared)]
    assert len(found) > len(metadata.tables)
    assert catalogue(migrated) == found


def _without_day(line: str) -> str:
    """The table of scores as SQLite has it, which does not partition."""
    return line.replace(", day DATE NOT NULL", "").replace("user_id, day)", "user_id)")


def test_a_database_without_our_tables_drifts_by_everything_and_those_of_others_are_left_alone(database_url: str) -> None:
    execute(database_url, "CREATE TABLE other (a INTEGER)")

    assert schema_version.check(database_url) == [
        f"the schema has version (none), this program needs {HEAD}: run `rankwatch db upgrade`"
    ]
    open_store(database_url, create=True).close()
    assert "other" in tables(database_url)


def test_opening_creates_nothing_unless_asked_to(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="run `rankwatch db upgrade`"):
        open_store(database_url, create=False)

    assert list(tmp_path.iterdir()) == []
    assert tables(database_url) == set()


def test_a_missing_file_has_no_version_and_is_not_made_by_asking(tmp_path: Path) -> None:
    assert schema_version.current(f"sqlite:///{tmp_path / 'none.db'}") is None
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_revision_is_refused_with_the_known_ones(database_url: str) -> None:
    with pytest.raises(SchemaError, match="known versions are base, " + ", ".join(VERSIONS)):
        schema_version.upgrade(database_url, "0815")

    assert schema_version.current(database_url) is None


def test_a_schema_that_is_lost_while_the_store_is_open_is_noticed(database_url: str) -> None:
    with closing(open_store(database_url, create=True)) as store:
        schema_version.downgrade(database_url, "base")

        with pytest.raises(SchemaError, match="holds no tables of rankwatch yet: run `rankwatch db upgrade`"):
            store.maintenance.ping()
        with pytest.raises(SchemaError, match="lacks tables or columns"):
            attempt(store)


def _open(url: str) -> str | None:
    try:
        open_store(url, create=True).close()
    except DatabaseError as error:
        return str(error)
    return None


def test_several_processes_that_create_at_once_do_not_collide(database_url: str) -> None:
    with context().Pool(2) as pool:
        assert pool.map(_open, [database_url] * 4, chunksize=1) == [None] * 4

    assert schema_version.check(database_url) == []


def test_a_new_migration_is_drafted_from_the_tables(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema_version.upgrade(database_url)
    execute(database_url, "DROP TABLE stages")
    copy = tmp_path / "migrations"
    (copy / "versions").mkdir(parents=True)
    for name in ("env.py", "script.py.mako", *(f"versions/{path.name}" for path in MIGRATIONS)):
        (copy / name).write_bytes((schema_version.migrations() / name).read_bytes())
    monkeypatch.setattr(schema_version, "migrations", lambda: copy)

    schema_version.draft(database_url, "bring stages back")

    (drafted,) = {path for path in (copy / "versions").glob("*.py") if path.name not in [each.name for each in MIGRATIONS]}
    written = drafted.read_text(encoding="utf-8")
    assert "create_table('stages'" in written
    assert 'sa.Text().with_variant(sa.Text(collation="C"), "postgresql")' in written
    assert "monitor" not in written


def test_drift_is_named(database_url: str) -> None:
    schema_version.upgrade(database_url)
    execute(database_url, "ALTER TABLE runs ADD COLUMN mine INTEGER")
    execute(database_url, "DROP INDEX ix_runs_scheduled_for")
    execute(database_url, "DROP TABLE stages")
    execute(database_url, "CREATE TABLE x (a INTEGER)")

    differences = schema_version.check(database_url)

    for word in ("mine", "ix_runs_scheduled_for", "stages", "'x'"):
        assert len([each for each in differences if word in each]) == 1, word
    assert len(differences) == 4


def test_a_newer_schema_is_refused_and_left_alone(database_url: str) -> None:
    schema_version.upgrade(database_url)
    execute(database_url, "UPDATE alembic_version SET version_num = '9999'")

    for create in (True, False):
        with pytest.raises(SchemaError, match="9999, which this program does not know: install the newer rankwatch"):
            open_store(database_url, create=create)
    with pytest.raises(SchemaError, match="which this program does not know"):
        schema_version.upgrade(database_url)
    assert schema_version.current(database_url) == "9999"
