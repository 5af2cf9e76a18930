"""Versions of the schema: up, down, the same from both ends, and never by surprise."""

import re
import shutil
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.dialects import postgresql, sqlite

from forking import context
from monitor.model.errors import DatabaseError, SchemaError
from monitor.storage import open_store, schema_version
from monitor.storage.tables.metadata import metadata
from storage.worked import attempt, store_at

pytestmark = pytest.mark.early

HEAD = "0001"
NEXT = '''
"""A later version."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("note", sa.Text()))
    op.execute("UPDATE runs SET note = owner")


def downgrade() -> None:
    op.drop_column("runs", "note")
'''


@pytest.fixture
def later(monkeypatch, tmp_path):
    """Migrations of a later version, which has one revision more."""
    copy = tmp_path / "migrations"
    shutil.copytree(schema_version.migrations(), copy)
    (copy / "versions" / "0002_note.py").write_text(NEXT)
    schema_version._versions.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schema_version, "migrations", lambda: copy)
        yield
    schema_version._versions.cache_clear()


@contextmanager
def connected(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def tables(url):
    with connected(url) as connection:
        return {*inspect(connection).get_table_names(), *inspect(connection).get_view_names()}


def execute(url, *statements):
    with connected(url) as connection:
        for statement in statements:
            connection.execute(text(statement))


def catalogue(url):
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


def test_no_column_name_is_reserved_in_sql():
    for dialect in (sqlite.dialect(), postgresql.dialect()):
        quote = dialect.identifier_preparer.quote
        names = {each.name for table in metadata.tables.values() for each in table.columns}
        assert {name for name in names if quote(name) != name} == set()


@pytest.mark.integration  # seconds of CPU
def test_the_revisions_create_exactly_the_declared_tables_and_a_downgrade_removes_them(
    database_url, tmp_path, request
):
    """Also what Alembic does not compare: check constraints, collations, WITHOUT ROWID."""
    schema_version.upgrade(database_url, HEAD)
    found = catalogue(database_url)
    divided = set() if database_url.startswith("sqlite") else {"scores_default"}
    assert tables(database_url) == {*metadata.tables, *divided, "user_scores", "alembic_version"}
    assert schema_version.stored_version(database_url) == schema_version.newest_version() == HEAD
    assert schema_version.find_differences(database_url) == []
    if database_url.startswith("sqlite"):
        _compare(found, f"sqlite:///{tmp_path / 'declared.db'}")
    else:
        with request.getfixturevalue("postgres_server").database() as other:
            _compare(found, other)

    schema_version.downgrade(database_url, "base")
    assert tables(database_url) == {"alembic_version"}
    assert schema_version.stored_version(database_url) is None


@pytest.mark.parametrize("is_downgraded", [False, True])
def test_a_new_sqlite_database_has_the_tables_that_the_revisions_make(is_downgraded, tmp_path):
    revised, new = (f"sqlite:///{tmp_path / name}.db" for name in ("revised", "new"))
    schema_version.upgrade(revised, HEAD)
    if is_downgraded:  # one table stays
        schema_version.upgrade(new, HEAD)
        schema_version.downgrade(new, "base")

    schema_version.upgrade(new)

    assert statements(new) == statements(revised)
    assert schema_version.stored_version(new) == HEAD
    assert schema_version.find_differences(new) == []


def statements(url):
    """What has made everything in a SQLite database, by name. White space may differ."""
    with connected(url) as connection:
        rows = connection.execute(text("SELECT type, name, tbl_name, sql FROM sqlite_master"))
        return {tuple(row[:3]): re.sub(r"\s+", "", row.sql or "") for row in rows}


@pytest.mark.usefixtures("later")
def test_without_a_script_for_this_version_the_revisions_make_the_tables(tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"

    open_store(url, create=True).close()

    assert schema_version.stored_version(url) == "0002"


@pytest.mark.usefixtures("later")
def test_an_upgrade_and_a_downgrade_keep_the_rows(database_url):
    schema_version.upgrade(database_url, "0001")
    values = "(7, 'home-feed', '2024-01-08T00:00:00.000000Z', 'ok', 'h', 'a:1', 1, '2024-01-08')"
    columns = "id, comparison, slot, status, config_hash, owner, attempt, started_at"
    execute(database_url, f"INSERT INTO runs ({columns}) VALUES {values}")
    with pytest.raises(
        SchemaError,
        match=r"version 0001, but this program needs version 0002: run `rankwatch db upgrade`",
    ):
        open_store(database_url, create=True)

    schema_version.upgrade(database_url)
    assert noted(database_url) == "a:1"
    schema_version.downgrade(database_url, "0001")

    assert schema_version.stored_version(database_url) == "0001"
    with connected(database_url) as connection:
        assert connection.execute(text("SELECT id FROM runs")).all() == [(7,)]


def noted(url):
    with connected(url) as connection:
        return connection.scalar(text("SELECT note FROM runs"))


def _compare(migrated, declared):
    with connected(declared) as connection:
        metadata.create_all(connection)
    found = [
        _without_day(line) if declared.startswith("sqlite") else line
        for line in catalogue(declared)
    ]
    assert len(found) > len(metadata.tables)
    assert migrated == found


def _without_day(line):
    """The table of scores as SQLite has it, which does not partition."""
    return line.replace(", day DATE NOT NULL", "").replace("user_id, day)", "user_id)")


def test_a_database_without_tables_has_one_difference_and_other_tables_are_kept(database_url):
    execute(database_url, "CREATE TABLE other (a INTEGER)")

    assert schema_version.find_differences(database_url) == [
        f"the schema has version (none), but this program needs {HEAD}: run `rankwatch db upgrade`"
    ]
    open_store(database_url, create=True).close()
    assert "other" in tables(database_url)


def test_opening_creates_nothing_without_create(database_url, tmp_path):
    with pytest.raises(DatabaseError, match="`rankwatch run-once`"):
        open_store(database_url, create=False)

    assert schema_version.stored_version(database_url) is None
    assert list(tmp_path.iterdir()) == []
    assert tables(database_url) == set()


def test_a_schema_that_is_removed_while_the_store_is_open_is_an_error(database_url):
    with store_at(database_url, create=True) as store:
        schema_version.downgrade(database_url, "base")

        with pytest.raises(
            SchemaError, match="has no tables of rankwatch yet: run `rankwatch db upgrade`"
        ):
            store.maintenance.ping()
        with pytest.raises(SchemaError, match="lacks tables or columns"):
            attempt(store)


def _open(url):
    try:
        open_store(url, create=True).close()
    except DatabaseError as error:
        return str(error)
    return None


@pytest.mark.integration
def test_several_processes_can_create_the_tables_at_the_same_time(database_url):
    with context().Pool(2) as pool:
        assert pool.map(_open, [database_url] * 4, chunksize=1) == [None] * 4

    assert schema_version.find_differences(database_url) == []


def test_each_difference_of_the_schema_is_named(database_url):
    schema_version.upgrade(database_url)
    changes = (
        "ALTER TABLE runs ADD COLUMN mine INTEGER; DROP INDEX ix_runs_slot; DROP "
        "TABLE lessons; CREATE TABLE x (a INT)"
    )
    execute(database_url, *changes.split("; "))

    differences = schema_version.find_differences(database_url)

    for word in ("mine", "ix_runs_slot", "lessons", "'x'"):
        assert len([each for each in differences if word in each]) == 1, word
    assert len(differences) == 4


def test_a_newer_schema_is_rejected_and_not_changed(database_url):
    schema_version.upgrade(database_url)
    execute(database_url, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(SchemaError, match=r"9999, .* not know: install the newer version"):
        open_store(database_url, create=True)
    with pytest.raises(SchemaError, match="which this program does not know"):
        schema_version.upgrade(database_url)
    assert schema_version.stored_version(database_url) == "9999"
