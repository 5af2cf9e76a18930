"""A signal that comes while files are read: it ends the reading as itself, whatever DuckDB makes of it."""

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import duckdb
import pytest

from monitor.deadline import OverdueError
from monitor.errors import SourceError
from monitor.service.interrupts import terminated, termination_raised
from monitor.sources.file.database import open_database, readable

LONG = "SELECT count(*) FROM range(1000000000000) AS numbers WHERE numbers.range % 7 = 3"


@pytest.fixture(autouse=True)
def kept_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    terminated.clear()


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (RuntimeError("Query interrupted"), KeyboardInterrupt, "^$"),
        (RuntimeError("another defect"), RuntimeError, "another defect"),
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), OverdueError, "^$"),
        (duckdb.IOException("IO Error: no such block"), SourceError, "lists.csv cannot be read: IO Error: no such block"),
    ],
)
def test_what_a_library_says_of_an_interrupt_is_an_interrupt(given: Exception, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said), readable("lists.csv"):
        raise given


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (KeyboardInterrupt(), duckdb.ConnectionException("Cannot close"), "^$"),
        (SystemExit(143), duckdb.ConnectionException("Cannot close"), "^143$"),
        (ValueError("earlier"), duckdb.IOException("IO Error: no such block"), "no such block"),
    ],
    ids=repr,
)
def test_an_interrupt_counts_for_more_than_the_error_of_closing_after_it_and_an_error_does_not(
    first: BaseException, then: Exception, said: str
) -> None:
    def fail() -> None:
        try:
            raise first
        finally:
            raise then

    with pytest.raises(SourceError if isinstance(first, ValueError) else type(first), match=said), readable("lists.csv"):
        fail()


def exit_143(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


@pytest.mark.parametrize(("name", "handle"), [("SIGINT", signal.default_int_handler), ("SIGTERM", exit_143)])
def test_a_real_signal_ends_a_statement_that_would_take_for_ever(name: str, handle: Any) -> None:
    number = signal.Signals[name]
    signal.signal(number, handle)
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
    with pytest.raises((KeyboardInterrupt, SystemExit)), open_database([]) as database:
        database.execute(LONG)


def test_it_is_known_that_a_termination_came_whatever_became_of_what_it_raised() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(SystemExit) as caught, termination_raised():
        signal.raise_signal(signal.SIGTERM)
    assert (caught.value.code, terminated.is_set()) == (143, True)
