"""Errors of other programs become sentences of our own. The ids that they quote are in no sentence, log or traceback."""
# ruff: noqa: TRY301 - statements are built from the test's own text; errors are raised to be caught

import errno
import logging
import os
import re
import socket
import ssl
from functools import partial
from io import StringIO

import duckdb
import pyarrow as pa
import pytest
import redis
import structlog

from canary.marks import canary
from monitor.boundary import temporary_database
from monitor.boundary.foreign_errors import (
    describe_error,
    file_cause,
    redis_cause,
    sql_cause,
    store_cause,
)
from monitor.model.errors import SourceError
from monitor.service import logs
from tables import rows

ID = canary("someuser")


def raised(call):
    with pytest.raises(
        Exception, match=ID
    ) as caught:  # each quotes the id, else the case shows nothing
        call()
    return caught.value


def duck(query):
    return raised(lambda: duckdb.execute(query).fetchall())


def of_state(state, text=f"the value {ID}"):
    return type("DataError", (Exception,), {"sqlstate": state})(text)


def of_libpq(text):
    return type("OperationalError", (Exception,), {"sqlstate": None})(
        f"connection to {ID} failed: {text}"
    )


def of_tls(code):
    error = ssl.SSLCertVerificationError(1, ID)
    error.verify_code = code
    return error


def of_store(code):
    error = OSError(f"{ID} is not here")
    error.__cause__ = type(
        "ClientError", (Exception,), {"response": {"Error": {"Code": code, "Message": ID}}}
    )(ID)
    return error


FILES = [
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
    (
        lambda: OSError(f"Couldn't deserialize thrift: {ID}"),
        "its bytes cannot be decoded: write the file again",
    ),
    (
        lambda: duckdb.IOException(f"IO Error: {ID}: {os.strerror(errno.EIO)}"),
        "the disk reported an input/output error",
    ),
    (lambda: KeyError(ID), "Python reported KeyError"),
]
LIBPQ = r"""
SSL error: tlsv13 alert certificate required | the server wants a client .*: set sslcert and sslkey
SSL error: tlsv1 alert unknown ca | the server refused the client certificate: check who issued the certificate
SSL error: ssl/tls alert handshake failure | the server ended the TLS handshake
SSL error: certificate verify failed | the server has a certificate that cannot .* as sslrootcert
server certificate for "a" does not match host name | the server has a certificate for another host
"""
STATES = r"""
22P02 | a value cannot be converted to the type that the query asks for
22003 | a number is out of the range of its type
22021 | a text is not valid in the database's encoding
42501 | the user of the database may not read the table
57P01 | the server is starting or stopping
P0001 | the database refused the statement \(SQLSTATE P0001\)
XX001 | the server reported an internal error or damaged data
"""
DATABASES = [
    *((partial(of_libpq, text), cause) for text, cause in rows(LIBPQ)),
    *((partial(of_state, state), cause) for state, cause in rows(STATES)),
]
STORES = [
    (lambda: of_store("NoSuchBucket"), "the bucket does not exist"),
    (lambda: of_store("SlowDown"), "the store accepts no more requests"),
    (lambda: socket.gaierror(socket.EAI_NONAME, ID), "the host name cannot be resolved"),
    (
        lambda: of_tls(0),
        "the server has a certificate that cannot be trusted: check the certificate's dates",
    ),
    (
        lambda: ssl.SSLError(1, f"[SSL: WRONG_VERSION_NUMBER] {ID}"),
        "the server did not speak TLS: check the port",
    ),
]
"""What other tests have no real server for: see `canary/private_faults.yaml` and `sources/faults.yaml`."""
OF_THE_SYSTEM = """
ENOSPC | the disk is full: free some space
EROFS | the file system is read-only: mount it writable
EACCES | permission denied: give this account access
EMFILE | too many files are open
"""


def of_system(name):
    return OSError(getattr(errno, name), "said", ID)


CASES = [
    *((file_cause, *case) for case in FILES),
    *((file_cause, partial(of_system, name), cause) for name, cause in rows(OF_THE_SYSTEM)),
    *((lambda error: sql_cause(error, "SELECT who FROM lists"), *case) for case in DATABASES),
    (redis_cause, lambda: redis.ConnectionError(ID), "the server closed the connection"),
    *((store_cause, *case) for case in STORES),
]


@pytest.mark.parametrize("translate, make, cause", CASES)
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
    stream = StringIO()
    logs.configure_logs(form, "debug", stream)
    for error in (KeyError(ID), SourceError("lists.csv has no end")):
        try:
            raise error from ValueError(ID)
        except Exception:
            log.exception("run broke")
            logging.getLogger("asyncio").exception("Task exception was never retrieved")
    logging.getLogger("botocore").debug("sent %s", ID)
    written = stream.getvalue()

    assert ID not in written
    assert "KeyError" in written
    assert "test_foreign_errors.py" in written
    assert "SourceError: lists.csv has no end" in written
    assert "Task exception was never retrieved" in written


@pytest.mark.usefixtures("own_databases")
def test_without_a_temporary_folder_what_fits_into_memory_is_read_and_the_folders_are_named_otherwise(
    monkeypatch,
):
    def refuse(*_):
        raise FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in {ID}")

    monkeypatch.setattr(temporary_database.tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(temporary_database.tempfile, "gettempdir", refuse)
    monkeypatch.setenv("TMPDIR", "/read-only")

    with temporary_database.scratch_database("50MB") as database:
        assert database.execute("SELECT 1").fetchall() == [(1,)]
        with pytest.raises(duckdb.OutOfMemoryException) as caught:
            database.execute(
                "CREATE TABLE t AS SELECT repeat('x', 100) || range AS a FROM range(3000000)"
            )
    said = temporary_database.explain_shortage(str(caught.value))
    assert said is not None
    assert "none of /read-only, /tmp, /var/tmp" in said
    assert "set TMPDIR to a folder that can be written" in said
