"""Signals that end a command (SIGINT, SIGTERM): raised to leave things in order, held back where they would tear."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from monitor.deadline import SignalHandler, signals_handled

terminated = threading.Event()
"""Set once SIGTERM has come, also where a library made an interrupt of what its handler raised."""


def _exit(number: int, _: FrameType | None) -> None:
    terminated.set()
    sys.exit(128 + number)  # as a shell has it


@contextmanager
def termination_raised(handle: Callable[[int, FrameType | None], None] = _exit) -> Iterator[None]:
    """Let SIGTERM end the block by what ``handle`` raises, SystemExit (143) by itself, so that what it holds is given back."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back an interrupt or termination until the block has ended, so that what it did is also known to have been done."""
    held: list[tuple[SignalHandler, int, FrameType | None]] = []
    try:
        with signals_handled(lambda *call: held.append(call)):
            yield
    finally:
        for handle, number, frame in held[:1]:
            handle(number, frame)
