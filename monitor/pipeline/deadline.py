"""Wait for work no longer than agreed, whatever the work does."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, NoReturn, TypeVar

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
