"""Signals that end a command, SIGINT and SIGTERM: raised as exceptions, or delayed."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from monitor.deadline import SignalHandler, signals_handled

terminated = threading.Event()
"""Set after SIGTERM, even if a library turned the exception of its handler into an interrupt."""


def _exit(number: int, _: FrameType | None) -> None:
    terminated.set()
    sys.exit(128 + number)  # like a shell


@contextmanager
def termination_raised(handle: Callable[[int, FrameType | None], None] = _exit) -> Iterator[None]:
    """Let SIGTERM end the block with the exception of ``handle``, by default SystemExit (143).

    So resources of the block are released.
    """
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
    """Delay an interrupt or termination until the block has ended.

    So the caller knows what the block has done.
    """
    delayed: list[tuple[SignalHandler, int, FrameType | None]] = []

    def delay(handle: SignalHandler, number: int, frame: FrameType | None) -> None:
        delayed.append((handle, number, frame))

    try:
        with signals_handled(delay):
            yield
    finally:
        for handle, number, frame in delayed[:1]:
            handle(number, frame)
