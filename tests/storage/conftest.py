import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from monitor.storage import SqlStore, open_store, partitions
from monitor.storage.tables import metadata
from servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_store(postgres_server: PostgresServer) -> Iterator[SqlStore]:
    """One store for all tests, emptied for each: creating a database for each test would take most of the time."""
    with postgres_server.database() as url, closing(open_store(url, create=True)) as store:
        yield store


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """Name of a database with our tables, to copy: making them takes as long as most tests."""
    with postgres_server.database() as url:
        open_store(url, create=True).close()
        yield url.rpartition("/")[2]


@pytest.fixture
def migrated_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """URL of a fresh database with our tables, for tests that do to it what others should not find."""
    with postgres_server.database(postgres_template) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    """An empty store over each database in turn."""
    if request.param == "sqlite":
        copy = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "rankwatch.db")
        with closing(open_store(f"sqlite:///{copy}", create=False)) as sqlite:
            yield sqlite
        return
    postgres: SqlStore = request.getfixturevalue("postgres_store")
    with postgres.database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())  # with so few rows faster than TRUNCATE, which makes new files
        for partition in partitions.read_partitions(connection):  # each test's runs make their own
            connection.execute(text(f"DROP TABLE {partition.name}"))
    yield postgres
