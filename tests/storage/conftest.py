import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from monitor.storage import open_store, partitions
from monitor.storage.tables.metadata import metadata
from servers.pgbouncer import pooled  # noqa: F401 - a fixture
from storage.worked import store_at, store_over


@pytest.fixture(scope="session")
def postgres_store(postgres_server):
    """One store for all tests, emptied for each: making a database and each statement anew would take most of the time."""
    with postgres_server.database() as url, store_at(url, create=True) as store:
        yield store


@pytest.fixture(scope="session")
def sqlite_store(sqlite_template, tmp_path_factory):
    """The same over a SQLite file."""
    copy = shutil.copy(sqlite_template, tmp_path_factory.mktemp("store") / "rankwatch.db")
    with store_over(copy) as store:
        yield store


@pytest.fixture
def file(tmp_path, sqlite_template):
    """A SQLite file with our tables, for tests that do to it what others should not find."""
    return Path(shutil.copy(sqlite_template, tmp_path / "rankwatch.db"))


@pytest.fixture(scope="session")
def postgres_template(postgres_server):
    """Name of a database with our tables, to copy: making them takes as long as most tests."""
    with postgres_server.database() as url:
        open_store(url, create=True).close()
        yield url.rpartition("/")[2]


@pytest.fixture
def migrated_url(postgres_server, postgres_template):
    """URL of a fresh database with our tables, for tests that do to it what others should not find."""
    with postgres_server.database(postgres_template) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"], ids=["sqlite", "postgresql"])
def store(request):
    """An empty store over each database in turn."""
    return emptied(request.getfixturevalue(f"{request.param}_store"))


def emptied(shared):
    with shared.database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(
                table.delete()
            )  # with so few rows faster than TRUNCATE, which makes new files
        for partition in (
            [] if shared.database.is_sqlite else partitions.read_partitions(connection)
        ):
            connection.execute(
                text(f"DROP TABLE {partition.name}")
            )  # each test's runs make their own
    return shared
