"""Errors of other programs become sentences of our own. The ids that they quote are in no sentence, log or traceback."""
# ruff: noqa: TRY301 - statements are built from the test's own text; errors are raised to be caught

import errno
import logging
import os
import re
import socket
import sqlite3
import ssl
from collections.abc import Callable
from contextlib import closing
from functools import partial
from io import StringIO

import duckdb
import pyarrow as pa
import pytest
import redis
import structlog
from pymysql import err as mysql  # type: ignore[import-untyped]

from canary.marks import canary
from monitor import scratch
from monitor.errors import SourceError
from monitor.foreign_errors import describe_error, file_cause, redis_cause, sql_cause, store_cause
from monitor.plugins import Guard
from monitor.service import logs
from tables import rows

ID = canary("someuser")


def raised(call: Callable[[], object]) -> Exception:
    with pytest.raises(
        Exception, match=ID
    ) as caught:  # each quotes the id, else the case shows nothing
        call()
    return caught.value


def duck(query: str) -> Exception:
    return raised(lambda: duckdb.execute(query).fetchall())


def lite(query: str) -> Exception:
    with closing(sqlite3.connect(":memory:")) as database:
        return raised(lambda: database.execute(query).fetchall())


def of_state(state: str, text: str = f"the value {ID}") -> Exception:
    error: Exception = type("DataError", (Exception,), {"sqlstate": state})(text)
    return error


def of_libpq(text: str) -> Exception:
    return type("OperationalError", (Exception,), {"sqlstate": None})(
        f"connection to {ID} failed: {text}"
    )


def of_tls(code: int) -> Exception:
    error = ssl.SSLCertVerificationError(1, ID)
    error.verify_code = code
    return error


def of_store(code: str) -> Exception:
    error = OSError(f"{ID} is not here")
    error.__cause__ = type(
        "ClientError", (Exception,), {"response": {"Error": {"Code": code, "Message": ID}}}
    )(ID)
    return error


FILES: list[tuple[Callable[[], Exception], str]] = [
    (lambda: duck(f"SELECT '{ID}'::int"), "a value does not fit the type of its column"),
    (
        lambda: duckdb.BinderException(f"No function matches 'strlen(UUID)' at {ID}"),
        "a column has a type that cannot be used there",
    ),
    (lambda: duck(f"SELECT error('{ID}')"), "its content does not have the expected format"),
    (
        lambda: duck(f"SELECT json_extract('{{\"{ID}', '$.a')"),
        "its content does not have the expected format",
    ),
    (
        lambda: raised(lambda: pa.array([ID]).cast(pa.int64())),
        "its content does not have the expected format or types",
    ),
    (lambda: pa.ArrowNotImplementedError(ID), "a column has a type that cannot be used there"),
    (lambda: OSError(errno.ENOSPC, "full", ID), "the disk is full: free some space"),
    (
        lambda: OSError(errno.EROFS, "read-only", ID),
        "the file system is read-only: mount it writable",
    ),
    (lambda: OSError(errno.EACCES, "denied", ID), "permission denied: give this account access"),
    (lambda: OSError(errno.EMFILE, "many", ID), "too many files are open"),
    (
        lambda: OSError(f"Couldn't deserialize thrift: {ID}"),
        "its bytes cannot be decoded: write the file again",
    ),
    (
        lambda: duckdb.IOException(f"IO Error: {ID}: {os.strerror(errno.EIO)}"),
        "the disk reported an input/output error",
    ),
    (lambda: EOFError(ID), "its compressed data ends too early"),
    (lambda: KeyError(ID), "Python reported KeyError"),
]
DATABASES: list[tuple[Callable[[], Exception], str]] = [
    (lambda: lite(f"SELECT {ID}"), "there is no such column"),
    (lambda: lite(f"SELECT * FROM {ID}"), "there is no such table"),
    (lambda: lite(f"SELECT '{ID}"), "the query is no valid SQL of this database"),
    (lambda: lite(f"SELECT 1 WHERE {ID}(1)"), "the query is no valid SQL of this database"),
    (lambda: of_state("42P01", f'relation "{ID}" does not exist'), "there is no such table:"),
    (lambda: mysql.DataError(1292, f"Incorrect value: '{ID}'"), "a value cannot be converted"),
    (lambda: mysql.OperationalError(1054, f"Unknown column '{ID}'"), "there is no such column"),
    (
        lambda: mysql.OperationalError(1045, f"Access denied for user '{ID}'"),
        "the server refused the user or the password",
    ),
    (
        lambda: of_libpq("SSL error: tlsv13 alert certificate required"),
        "the server wants a client .*: set sslcert and sslkey",
    ),
    (
        lambda: of_libpq("SSL error: tlsv1 alert unknown ca"),
        "the server refused the client certificate: check who issued it",
    ),
    (
        lambda: of_libpq("SSL error: ssl/tls alert handshake failure"),
        "the server ended the TLS handshake",
    ),
    (
        lambda: of_libpq("SSL error: certificate verify failed"),
        "the server has a certificate that cannot .* as sslrootcert",
    ),
    (
        lambda: of_libpq('server certificate for "a" does not match host name'),
        "the server has a certificate for another host",
    ),
    (
        lambda: mysql.OperationalError(9999, ID),
        r"the database refused the statement \(error 9999\)",
    ),
]
STATES = r"""
22P02 | a value cannot be converted to the type that the query asks for
22003 | a number is out of the range of its type
22021 | a text is not valid in the database's encoding
42501 | the user may not read it
57P01 | the server is starting or stopping
P0001 | the database refused the statement \(SQLSTATE P0001\)
XX001 | the server reported an internal error or damaged data
"""
DATABASES += [(partial(of_state, state), cause) for state, cause in rows(STATES)]
REDIS: list[tuple[Callable[[], Exception], str]] = [
    (
        lambda: redis.ResponseError(f"WRONGTYPE {ID}"),
        "the key's type is not the one in the option type",
    ),
    (
        lambda: redis.exceptions.NoPermissionError(f"User {ID}"),
        "the user may not run this command or read this key",
    ),
    (lambda: redis.AuthenticationError(ID), "the server refused the user or the password"),
    (lambda: redis.BusyLoadingError(ID), "the server is loading its data"),
    (
        lambda: redis.ResponseError(f"CROSSSLOT {ID}"),
        r"the server refused the command \(CROSSSLOT\)",
    ),
    (
        lambda: redis.InvalidResponse(f"Protocol Error: b'{ID}'"),
        "the server that answers is no Redis server",
    ),
    (lambda: redis.ConnectionError(ID), "the server closed the connection"),
    (lambda: redis.TimeoutError(ID), "no answer within the timeout"),
]
STORES: list[tuple[Callable[[], Exception], str]] = [
    (lambda: of_store("ExpiredToken"), "the credentials have expired"),
    (lambda: of_store("AccessDenied"), "these credentials may not read it"),
    (lambda: of_store("NoSuchBucket"), "the bucket does not exist"),
    (lambda: of_store("SlowDown"), "the store accepts no more requests"),
    (lambda: ConnectionRefusedError(errno.ECONNREFUSED, ID), "the connection was refused"),
    (lambda: socket.gaierror(socket.EAI_NONAME, ID), "the host name cannot be resolved"),
    (lambda: of_tls(10), "the server has a certificate that has expired: its owner must renew it"),
    (
        lambda: of_tls(9),
        "the server has a certificate that is not valid yet: set this machine's clock",
    ),
    (lambda: of_tls(62), "the server has a certificate for another host name: check the host"),
    (
        lambda: of_tls(18),
        "the server has a certificate of an unknown authority: .* such as AWS_CA_BUNDLE",
    ),
    (lambda: of_tls(0), "the server has a certificate that cannot be trusted: look at its dates"),
    (
        lambda: ssl.SSLError(1, f"[SSL: WRONG_VERSION_NUMBER] {ID}"),
        "the server did not speak TLS: check the port",
    ),
]
CASES = [
    *((file_cause, *case) for case in FILES),
    *((lambda error: sql_cause(error, "SELECT who FROM lists"), *case) for case in DATABASES),
    *((redis_cause, *case) for case in REDIS),
    *((store_cause, *case) for case in STORES),
]


@pytest.mark.parametrize(("translate", "make", "cause"), CASES)
def test_the_cause_is_named_and_the_id_is_not(translate, make, cause, caplog):
    caplog.set_level(logging.DEBUG, logger="monitor")

    said = translate(make())

    assert re.match(cause, str(said)), str(said)
    assert ID not in f"{said}{caplog.text}"
    assert "error of another program" in caplog.text


def test_a_name_of_the_statement_is_shown():
    error = of_state("42703", f'column "whta" does not exist, as {ID}')

    assert str(sql_cause(error, "SELECT whta FROM lists")).startswith(
        "there is no such column (whta): "
    )
    assert str(sql_cause(error, "SELECT what FROM lists")).startswith("there is no such column: ")


def test_the_place_of_an_error_is_described_with_those_behind_it():
    try:
        try:
            raise KeyError(ID)
        except KeyError as first:
            raise OSError(errno.EIO, ID) from first
    except OSError as error:
        said = describe_error(error)
    assert ID not in said
    assert "builtins.OSError 5 in test_foreign_errors.py, line " in said
    assert "; from builtins.KeyError in test_foreign_errors.py, line " in said


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_in_the_log_has_places_and_no_texts_of_other_programs(form):
    log = structlog.get_logger("monitor.test")
    root = logging.getLogger()
    before, stream = (root.handlers[:], root.level), StringIO()
    try:
        logs.configure(form, "debug", stream)
        for error in (KeyError(ID), SourceError("lists.csv has no end")):
            try:
                raise error from ValueError(ID)
            except Exception:
                log.exception("run broke")
                logging.getLogger("asyncio").exception("Task exception was never retrieved")
        logging.getLogger("botocore").debug("sent %s", ID)
    finally:
        root.handlers[:], root.level = before
        structlog.reset_defaults()
    written = stream.getvalue()

    assert ID not in written
    assert "KeyError" in written
    assert "test_foreign_errors.py" in written
    assert "SourceError: lists.csv has no end" in written
    assert "Task exception was never retrieved" in written


def test_a_plugin_that_raises_an_id_is_told_by_class_and_line():
    def work() -> None:
        raise LookupError(ID)

    with pytest.raises(SourceError, match="shop failed with LookupError in line ") as caught:
        Guard("shop", SourceError).run(work)
    assert ID not in str(caught.value)


def test_without_a_temporary_folder_what_fits_into_memory_is_read_and_the_folders_are_named_otherwise(
    monkeypatch,
):
    def refuse(**_: object) -> str:
        raise FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in {ID}")

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(scratch.tempfile, "gettempdir", refuse)
    monkeypatch.setenv("TMPDIR", "/read-only")

    with scratch.scratch_database("50MB") as database:
        assert database.execute("SELECT 1").fetchall() == [(1,)]
        with pytest.raises(duckdb.OutOfMemoryException) as caught:
            database.execute(
                "CREATE TABLE t AS SELECT repeat('x', 100) || range AS a FROM range(3000000)"
            )
    said = scratch.room_trouble(str(caught.value))
    assert said is not None
    assert "none of /read-only, /tmp, /var/tmp" in said
    assert "set TMPDIR to a folder that can be written" in said
