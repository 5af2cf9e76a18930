from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from monitor.storage import SqlStore, open_store
from servers.postgres import PostgresServer, database_url, postgres_server, postgres_url

__all__ = ["database_url", "postgres_server", "postgres_url"]


@pytest.fixture(scope="session")
def template(postgres_server: PostgresServer) -> Iterator[str]:
    """Name of a database with our tables, to copy: migrating each test's own would take most of the time."""
    with postgres_server.database() as url:
        open_store(url, create=True).close()
        yield url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    """A fresh store over each database in turn."""
    if request.param == "sqlite":
        with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as sqlite:
            yield sqlite
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database(template=request.getfixturevalue("template")) as url, closing(open_store(url, create=False)) as postgres:
        yield postgres
