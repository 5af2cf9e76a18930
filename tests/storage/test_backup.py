"""Backups as the documentation tells to make them: what was stored is there again, and the schema fits."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from factories import SLOT
from monitor.storage import open_store, schema_version
from servers import require
from servers.postgres import PostgresServer
from storage.worked import HOUR, run


def stored(url: str) -> list[int]:
    with closing(open_store(url, create=True)) as store:
        return [run(store, SLOT + hours * HOUR) for hours in range(3)]


def restored(url: str) -> list[int]:
    assert schema_version.check(url) == []
    with closing(open_store(url, create=False)) as store:
        ids = sorted(found.id for found in store.history.runs(comparison=None, limit=9))
        assert [len(store.history.run_scores(run_id, ["extended_tau"]).users) for run_id in ids] == [3] * len(ids)
        run(store, SLOT + 9 * HOUR)
        return ids


def test_a_copy_of_sqlite_made_while_it_is_open_is_whole(tmp_path: Path) -> None:
    source, copy = tmp_path / "rankwatch.db", tmp_path / "copy.db"
    url = f"sqlite:///{source}"
    ids = stored(url)
    with closing(open_store(url, create=False)) as store, closing(sqlite3.connect(source)) as reader:
        store.maintenance.ping()
        reader.execute("VACUUM INTO ?", [str(copy)])

    assert restored(f"sqlite:///{copy}") == ids


def test_a_dump_of_postgresql_with_its_partitions_is_restored(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    ids = stored(postgres_url)
    dump = tmp_path / "rankwatch.dump"
    call("pg_dump", "--format=custom", f"--file={dump}", database=postgres_url)

    with postgres_server.database() as other:
        call("pg_restore", "--no-owner", f"--dbname={make_url(other).database}", str(dump), database=other)
        assert restored(other) == ids


def call(program: str, *arguments: str, database: str) -> None:
    url = make_url(database)
    place = {"PGHOST": url.host, "PGPORT": str(url.port), "PGUSER": url.username, "PGDATABASE": url.database}
    secret = {"PGPASSWORD": str(url.password)}
    environment = os.environ | {name: value for name, value in place.items() if value} | secret
    subprocess.run([require(program), *arguments], env=environment, check=True, capture_output=True, timeout=60)
