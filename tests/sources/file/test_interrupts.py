"""A signal that comes while files are read: it ends the reading as itself, whatever DuckDB makes of it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
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


def raised_during(first: BaseException, then: Exception) -> Callable[[], None]:
    def fail() -> None:
        try:
            raise first
        finally:
            raise then

    return fail


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (RuntimeError("Query interrupted"), KeyboardInterrupt, "^$"),
        (RuntimeError("another defect"), RuntimeError, "another defect"),
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), OverdueError, "^$"),
        (duckdb.IOException("IO Error: no such block"), SourceError, "lists.csv cannot be read: the system could not read it"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_what_a_library_says_of_an_interrupt_is_an_interrupt(given: Exception, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said), readable("lists.csv"):
        raise given


@pytest.mark.parametrize("first", [KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_an_interrupt_counts_for_more_than_the_error_of_closing_after_it(first: BaseException) -> None:
    with pytest.raises(type(first)) as caught, readable("lists.csv"):
        raised_during(first, duckdb.ConnectionException("Cannot close"))()
    assert caught.value is first


def test_an_error_after_an_error_is_told_by_itself() -> None:
    with pytest.raises(SourceError, match="the system could not read it"), readable("lists.csv"):
        raised_during(ValueError("earlier"), duckdb.IOException("IO Error: no such block"))()


def count_for_ever_until(number: signal.Signals) -> None:
    with open_database([]) as database:
        threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
        database.execute(LONG).fetchall()


def exit_143(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


@pytest.mark.parametrize(
    ("number", "handle"),
    [(signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, exit_143)],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_real_signal_ends_a_statement_that_would_take_for_ever(tmp_path: Path, number: signal.Signals, handle: Any) -> None:
    before = set(tmp_path.iterdir())
    signal.signal(number, handle)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        count_for_ever_until(number)
    assert set(tmp_path.iterdir()) == before


def test_it_is_known_that_a_termination_came_whatever_became_of_what_it_raised() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(SystemExit) as caught, termination_raised():
        signal.raise_signal(signal.SIGTERM)
    assert (caught.value.code, terminated.is_set()) == (143, True)
