"""Where jobs run: a daemon thread a job for APScheduler, and places for the few runs that may be at work at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from apscheduler.executors.pool import BasePoolExecutor


class _DaemonThreads(Executor):
    """Runs each call in a daemon thread of its own.

    Threads of the standard library's pools are joined when the process ends, so one hung pull would keep a stopped daemon
    alive until its deadline.
    """

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:  # noqa: ANN401 - as its base has it
        future: Future[Any] = Future()
        threading.Thread(target=_run_into, args=(future, call, args, options), name="job", daemon=True).start()
        return future


def _run_into(future: Future[Any], call: Callable[..., Any], args: Iterable[Any], options: Mapping[str, Any]) -> None:
    try:
        future.set_result(call(*args, **options))
    except BaseException as error:  # noqa: BLE001 - raised again for whoever reads the future
        future.set_exception(error)


class ThreadPerJob(BasePoolExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """APScheduler's executor over daemon threads."""

    def __init__(self) -> None:
        super().__init__(_DaemonThreads())


class Places:
    """Lets at most ``most()`` at work at a time, in the order in which they came."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._taken = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    def take(self) -> None:
        """Wait for a place."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._queue[0] is ticket and self._taken < self._most())
            self._queue.popleft()
            self._taken += 1
            self._changed.notify_all()

    def give_back(self) -> None:
        """Free a place."""
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        with self._changed:
            return len(self._queue)

    def look_again(self) -> None:
        """Let all who wait see how many places there are now."""
        with self._changed:
            self._changed.notify_all()
