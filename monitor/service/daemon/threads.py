"""The daemon's threads: one that repeats a step, one a job for APScheduler, places for runs, and the memory that all share."""

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from apscheduler.executors.debug import DebugExecutor

from monitor.model.runs import Run

log = structlog.get_logger(__name__)

_M_ARENA_MAX = -8
_HEAPS = 2


def share_heaps() -> None:
    """Have the threads of this process, which it has not started yet, take memory from two heaps in place of eight a core.

    Each heap keeps what lies between pieces in use: a daemon grew by 50 MB an hour without holding more.
    """
    with suppress(OSError, AttributeError):  # other C libraries than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)


class LoopThread:
    """Calls ``step``, which returns the seconds to rest, again and again, and ``again_s`` after an error, which is logged."""

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


class ThreadPerJob(DebugExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """APScheduler's executor that does a job at once, in a daemon thread of the job's own."""

    # Threads of the standard library's pools are joined when the process ends, so one hung pull
    # would keep a stopped daemon alive until its deadline.
    def _do_submit_job(self, *job: Any) -> None:  # noqa: ANN401 - as its base has it
        threading.Thread(
            target=partial(super()._do_submit_job, *job), name="job", daemon=True
        ).start()


def took_whole_deadline(run: Run, deadline: timedelta) -> bool:
    """Whether the run, a comparison's newest, ran into its deadline: then the next one is expected to hang likewise."""
    return run.finished_at is not None and run.finished_at - run.started_at >= deadline


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A job at work, or a run that wants a place."""

    name: str
    slow_after_s: float  # so long at work it is slow
    is_suspect: bool = False  # its comparison's last run took its whole deadline
    begun_s: float | None = None  # by the steady clock, None for a run that waits
    admitted: threading.Event = field(default_factory=threading.Event, repr=False)

    def is_slow(self, now_s: float) -> bool:
        """Whether it holds its place for so long that it gives way to others."""
        return self.begun_s is not None and now_s - self.begun_s >= self.slow_after_s


def next_runs(
    queue: Sequence[Ticket], held: Iterable[Ticket], most: int, now_s: float
) -> list[Ticket]:
    """Those of the queue, longest waiting first, that may begin now beside those that ``held`` places.

    ``most`` at once, not counting what is slow, nor suspects, which have a quarter as many places, at least one: a comparison
    that hung is never in the way of others, and one that begins to hang not for long.
    """
    held = list(held)
    free = most - sum(not each.is_suspect and not each.is_slow(now_s) for each in held)
    free_of_suspects = max(1, most // 4) - sum(each.is_suspect for each in held)
    healthy = [each for each in queue if not each.is_suspect][: max(0, free)]
    suspects = [each for each in queue if each.is_suspect][: max(0, free_of_suspects)]
    return [each for each in queue if each in healthy or each in suspects]


class Places:
    """Hands places to runs as `next_runs` decides, with at most ``most()`` for healthy ones.

    Safe to share between threads.
    """

    def __init__(self, most: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._most, self._monotonic = most, monotonic
        self._lock = threading.Lock()
        self._queue: list[Ticket] = []
        self._held: list[Ticket] = []

    def take(self, ticket: Ticket) -> None:
        """Wait for a place."""
        with self._lock:
            self._queue.append(ticket)
        self.look_again()
        ticket.admitted.wait()

    def give_back(self, ticket: Ticket) -> None:
        """Free its place."""
        with self._lock:
            self._held.remove(ticket)
        self.look_again()

    def look_again(self) -> None:
        """Let all begin that may by now.

        To be called also every second or so, as what is at work becomes slow.
        """
        with self._lock:
            now_s = self._monotonic()
            for ticket in (
                next_runs(self._queue, self._held, self._most(), now_s) if self._queue else ()
            ):
                ticket.begun_s = now_s
                self._queue.remove(ticket)
                self._held.append(ticket)
                ticket.admitted.set()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._queue)
