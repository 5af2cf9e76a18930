"""A signal that arrives while files are read ends the read with its own exception, not with that of DuckDB."""

import os
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from monitor.boundary.deadline import OverdueError
from monitor.model.errors import SourceError
from monitor.service.interrupts import terminated, termination_raised
from monitor.sources.file.database import open_database
from monitor.sources.file.diagnosis import file_errors

pytestmark = pytest.mark.usefixtures("own_databases")
LONG = "SELECT count(*) FROM range(1000000000000) AS numbers WHERE numbers.range % 7 = 3"


@pytest.fixture(autouse=True)
def kept_handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    terminated.clear()


CLOSING = duckdb.ConnectionException("Cannot close")
FILES: Any = SimpleNamespace(where="lists.csv", paths=())
NO_BLOCK = duckdb.IOException("IO Error: no such block")


@pytest.mark.parametrize(
    "first, then, kind, said",
    [
        (None, RuntimeError("Query interrupted"), KeyboardInterrupt, "^$"),
        (None, RuntimeError("another defect"), RuntimeError, "another defect"),
        (None, duckdb.InterruptException("INTERRUPT Error: Interrupted!"), OverdueError, "^$"),
        (None, NO_BLOCK, SourceError, "lists.csv cannot be read: "),
        (KeyboardInterrupt(), CLOSING, KeyboardInterrupt, "^$"),
        (SystemExit(143), CLOSING, SystemExit, "^143$"),
        (ValueError("earlier"), NO_BLOCK, SourceError, "lists.csv cannot be read: "),
    ],
    ids=repr,
)
def test_an_interrupt_is_raised_as_itself_also_before_an_error_of_closing(first, then, kind, said):
    then.__context__ = first
    with pytest.raises(kind, match=said), file_errors([FILES]):
        raise then


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_ends_a_statement_that_would_take_for_ever(number):
    def read_for_ever():
        with open_database([]) as database:
            threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
            database.execute(LONG)

    signal.signal(number, lambda *_: sys.exit(143))
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        read_for_ever()


def test_a_termination_is_remembered_even_if_its_exception_is_lost():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(SystemExit, match="143"), termination_raised():
        signal.raise_signal(signal.SIGTERM)
    assert terminated.is_set()
