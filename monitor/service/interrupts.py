"""Turns the signals that end a command (SIGINT, SIGTERM) into exceptions, or delays them."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from monitor.boundary.deadline import SignalHandler, signals_handled

terminated = threading.Event()
"""Set after SIGTERM, because a library may turn the exception into KeyboardInterrupt."""


def _exit(number: int, _: FrameType | None) -> None:
    terminated.set()
    sys.exit(128 + number)  # a shell uses the same exit code


@contextmanager
def termination_raised(handle: Callable[[int, FrameType | None], None] = _exit) -> Iterator[None]:
    """Let SIGTERM raise an exception in the block, so that the block releases its resources.

    ``handle`` raises the exception. The default is SystemExit with the code 143.
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

    So the caller always gets the result of the block.
    """
    delayed: list[tuple[SignalHandler, int, FrameType | None]] = []

    def delay(handle: SignalHandler, number: int, frame: FrameType | None) -> None:
        delayed.append((handle, number, frame))

    try:
        with signals_handled(delay):
            yield
    finally:
        if delayed:
            handle, number, frame = delayed[0]
            handle(number, frame)
