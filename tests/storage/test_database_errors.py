"""Every way in which a database fails ends in one line that says what to do, and never in a secret."""

import builtins
import re
import sqlite3
from contextlib import closing

import psycopg
import pytest
from pydantic import SecretStr

from monitor.model.errors import ConfigError, DatabaseError, DatabaseErrorKind
from monitor.storage import open_store, parse_url, unopened_store
from monitor.storage.database_errors import translate
from servers import free_port
from servers.postgres import PASSWORD, USER
from storage.worked import attempt, claimed, finish, result, runs_of, store_over
from tables import rows

CANARY = "canary-4711"


def failure(url, *, create=True):
    with pytest.raises(DatabaseError) as caught:
        open_store(url, create=create)
    whole = f"{caught.value} {caught.value!r}"
    assert not any(secret in whole for secret in (PASSWORD, CANARY, "\n", "sqlalche.me", "[SQL"))
    return caught.value


def test_a_url_names_its_driver():
    for scheme in ["postgres", "postgresql", "postgresql+psycopg", "sqlite"]:
        driver = "sqlite+pysqlite" if scheme == "sqlite" else "postgresql+psycopg"
        assert (
            parse_url(f"{scheme}://h/d").drivername
            == parse_url(SecretStr(f"{scheme}://h/d")).drivername
            == driver
        )


REFUSED = f"""
nonsense {CANARY} | not a database URL: use sqlite:///path/to/file.db or postgresql://
postgresql://u:{CANARY}@host:port/db | not a database URL
mysql://u:{CANARY}@h/d | 'mysql' is not a database that rankwatch supports
postgresql+psycopg2://u:{CANARY}@h/d | 'postgresql+psycopg2' is not
sqlite:// | in memory would be lost
sqlite:///:memory: | in memory would be lost
"""


def test_a_url_that_cannot_be_used_is_a_configuration_error_without_the_url():
    for url, says in rows(REFUSED):
        with pytest.raises(ConfigError, match=re.escape(says)) as caught:
            parse_url(url)

        assert CANARY not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_file_that_is_no_database_is_not_changed(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("something else entirely, and long enough to be read as a page" * 50)

    assert "is not a SQLite database: name another file" in str(failure(f"sqlite:///{file}"))
    assert file.read_text().startswith("something else")


def test_a_locked_file_is_an_error_after_a_wait(file):
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as other,
        store_over(file, "?timeout=0.1") as store,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="is locked by another process") as caught:
            attempt(store)
        assert not caught.value.permanent
        other.execute("ROLLBACK")
        assert attempt(store) is not None


def test_a_full_disk_is_a_temporary_error(file):
    """A limit on the file's pages fails exactly as a full disk does."""
    with store_over(file, "?timeout=0.1") as store:
        claim = claimed(store)
        with store.database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
        broken = result(claim, reason="x" * 5_000_000)

        with pytest.raises(
            DatabaseError, match="cannot grow because the disk is full: free some space"
        ) as caught:
            store.runs.finish(broken, receivers=())

        assert not caught.value.permanent
        with store.database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert finish(store, claim)


def test_postgres_without_its_extra_names_the_package_to_install(monkeypatch):
    real = builtins.__import__

    def without_psycopg(name, *rest):
        if name == "psycopg":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_psycopg)

    with pytest.raises(ConfigError, match=r"pip install 'WHEEL\[postgres\]'"):
        open_store("postgresql://u@127.0.0.1/d", create=False)


STATES = f"""
DiskFull | | has no disk space left
TooManyConnections | | accepts no more connections
ReadOnlySqlTransaction | | is read-only
DeadlockDetected | | rolled this transaction back because it conflicted with another one
LockNotAvailable | | is locked by another transaction
DependentObjectsStillExist | | has a view or another object that depends on the table: drop that object first
InsufficientPrivilege | | denies the user a right: grant the user the right
AdminShutdown | | is starting or stopping, or it cancelled the statement
DuplicateTable | | has a table of this name, which another process just created: try again
UndefinedTable | "scores_2024_01_08" | is dropping a partition of scores at this moment: try again
UndefinedTable | | lacks tables or columns of this version: run `rankwatch db upgrade`
CheckViolation | new row {CANARY} DETAIL: {CANARY} | refused a statement (SQLSTATE 23514): read the database's log
"""


def test_errors_of_postgres_are_translated():
    for name, text, says in rows(STATES.replace("| |", "|  |")):
        error = getattr(psycopg.errors, name)(text.replace(" DETAIL", "\nDETAIL"))
        with pytest.raises(
            DatabaseError, match=re.escape(says) + ("$" if CANARY in text else "")
        ) as caught:
            raise translate(error, parse_url(f"postgresql://u:{CANARY}@h/d"))
        assert caught.value.permanent is (
            name in ("CheckViolation", "DependentObjectsStillExist", "InsufficientPrivilege")
            or "upgrade" in says
        )


def test_a_read_only_database_can_be_read_but_not_written_and_fails_its_probe(file):
    with store_over(file) as store:
        writes = [lambda: attempt(store), store.maintenance.probe_write]
        for write in writes:
            with store.database.read() as connection:
                connection.exec_driver_sql("PRAGMA query_only = ON")
            with pytest.raises(
                DatabaseError,
                match="cannot be written: make the file, its directory and its disk writable",
            ) as caught:
                write()
            assert caught.value.kind is DatabaseErrorKind.READ_ONLY

        store.maintenance.ping()
        assert runs_of(store) == ()
        assert attempt(store) is not None


def test_an_unusable_path_is_an_error_that_is_reported_before_it_is_raised(tmp_path):
    assert "it is a directory: name a file" in str(failure(f"sqlite:///{tmp_path}"))
    told = []
    with closing(unopened_store(f"sqlite:///{tmp_path}/no/such/x.db")) as store:
        store.database.on_error = told.append
        with pytest.raises(DatabaseError) as caught:
            store.maintenance.prepare(create=True)
    (error,) = told
    assert error is caught.value
    assert str(error) == (
        f"SQLite database {tmp_path}/no/such/x.db cannot be opened: its directory does not "
        "exist: create it"
    )
    assert error.exit_code == 4
    assert error.kind == DatabaseErrorKind.DENIED


def test_a_damaged_file_is_an_error(file):
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * (file.stat().st_size - 4096))

    with (
        closing(unopened_store(f"sqlite:///{file}")) as store,
        pytest.raises(DatabaseError, match="is damaged: restore it"),
    ):
        runs_of(store)


SILENT = f"""
u:{CANARY}@127.0.0.1:0/d?application_name={CANARY} | may come back | PostgreSQL database d at 127.0.0.1:
u:{CANARY}@127.0.0.1:0/d | may come back | cannot be reached: check that the server runs, and host and port
u:{CANARY}@127.0.0.1:0/d?sslrootcert=system&sslkey=/no/f | may come back | the file of sslkey in the URL cannot be read (/no/f)
u:{CANARY}@nowhere.invalid/d | may come back | nowhere.invalid:5432 cannot be reached
{USER}:{CANARY}@SERVER/postgres | for good | refused the password: correct the user or password
{USER}:{PASSWORD}@SERVER/nothing_here | for good | PostgreSQL database nothing_here at 127.0.0.1
{USER}:{PASSWORD}@SERVER/nothing_here | for good | does not exist: create it with CREATE DATABASE
"""


def test_a_postgres_that_does_not_answer_is_a_temporary_error_and_a_rejection_is_permanent(
    postgres_server,
):
    for url, lasting, says in rows(SILENT):
        place = url.replace(":0/", f":{free_port()}/").replace(
            "SERVER", f"127.0.0.1:{postgres_server.port}"
        )
        error = failure(f"postgresql://{place}")
        assert says in str(error)
        assert error.permanent is (lasting == "for good")
