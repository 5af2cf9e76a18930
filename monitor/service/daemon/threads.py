"""The daemon's threads: one that repeats a step, one a job for APScheduler, and the memory that all of them share."""

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

import structlog
from apscheduler.executors.pool import BasePoolExecutor

log = structlog.get_logger(__name__)

_M_ARENA_MAX = -8
_HEAPS = 2


def share_heaps() -> None:
    """Have the threads of this process, which it has not started yet, take memory from two heaps in place of eight a core.

    Each heap keeps what lies between pieces still in use, and each run is a thread that may take another heap than the one
    before: a daemon grew by 50 MB an hour without holding any more (`make bench ARGS=soak`).
    """
    with suppress(OSError, AttributeError):  # other C libraries than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)


class LoopThread:
    """Calls ``step`` again and again in a daemon thread; ``step`` returns the seconds to rest.

    A step that raises is logged, and repeated after ``again_s``.
    """

    def __init__(self, name: str, step: Callable[[], float], *, again_s: float) -> None:
        self._name, self._step, self._again_s = name, step, again_s
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """End the rest at once."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        """End after the step under way."""
        self._stop.set()
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Ask, and wait at most so long for the end."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(max(timeout_s, 0.0))

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def must_stop(self) -> bool:
        """Whether it was asked to stop; for steps that take long."""
        return self._stop.is_set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                rest_s = self._step()
            except Exception:  # a defect must not end what the daemon lives by
                log.exception("loop failed; it goes on", loop=self._name, again_in_s=self._again_s)
                rest_s = self._again_s
            self._wake.wait(rest_s)
            self._wake.clear()


class _DaemonThreads(Executor):
    # Threads of the standard library's pools are joined when the process ends, so one hung pull would keep a stopped daemon
    # alive until its deadline.
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
