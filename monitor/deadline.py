"""Deadlines: a point in time by which work must be over, and calls that are given up when it has passed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NoReturn, TypeVar


@dataclass(frozen=True, slots=True)
class Deadline:
    """``at`` on the monotonic clock; real time, because what it bounds (sockets, statements, disks) runs on real time."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_past(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self.at


class TooLateError(Exception):
    """The deadline passed while reading; never leaves the sources, the users become ``timeout``."""


T = TypeVar("T")


class OverdueError(Exception):
    """The work had not ended when its time was over; the caller says whose work it was."""


class Promise(Generic[T]):
    """Work under way in a daemon thread: hung work holds up neither its caller nor the end of the process."""

    def __init__(self, work: Callable[[], T], *, name: str) -> None:
        self._done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._done.put(partial(_raise, error))
        else:
            self._done.put(lambda: value)

    def wait(self, timeout_s: float) -> T:
        """Result of the work, or the exception it raised; OverdueError after ``timeout_s`` seconds."""
        try:
            outcome = self._done.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            raise OverdueError from None
        return outcome()


def _raise(error: BaseException) -> NoReturn:
    raise error
