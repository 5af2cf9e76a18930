"""The threads of the daemon that repeat a step, and the limit for runs at the same time."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from monitor.model.runs import Run

log = structlog.get_logger(__name__)


class LoopThread:
    """Calls ``step`` again and again. ``step`` returns the seconds to rest.

    If the step raises an error, the thread logs it and rests for ``retry_s`` seconds.
    """

    def __init__(self, name: str, step: Callable[[], float], *, retry_s: float) -> None:
        self._name = name
        self._step = step
        self._retry_s = retry_s
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """End the present rest at once."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        """Ask the thread to end after the present step."""
        self._stop.set()
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Ask the thread to stop, and wait until it ends, but at most ``timeout_s``."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(max(timeout_s, 0.0))

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                rest_s = self._step()
            except Exception:  # a bug must not end the thread
                log.exception(
                    "loop failed; it continues", loop=self._name, again_in_s=self._retry_s
                )
                rest_s = self._retry_s
            self._wake.wait(rest_s)
            self._wake.clear()


def took_whole_deadline(run: Run, deadline: timedelta) -> bool:
    """Return whether this run used its full deadline.

    If the newest run did, the next run is expected to hang too.
    """
    return run.finished_at is not None and run.finished_at - run.started_at >= deadline


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A run that waits for a place, or that has got one."""

    name: str
    slow_after_s: float  # a run that works for longer than this is slow
    is_suspect: bool  # whether the last run of the comparison used its full deadline
    # when the run got its place, by the steady clock; None while it waits
    begun_s: float | None = None
    admitted: threading.Event = field(default_factory=threading.Event, repr=False)

    def is_slow(self, now_s: float) -> bool:
        """Return whether the run is slow. Other runs may begin while a slow run works."""
        return self.begun_s is not None and now_s - self.begun_s >= self.slow_after_s


def next_runs(
    queue: Sequence[Ticket],
    at_work: Iterable[Ticket],
    most: int,
    now_s: float,
) -> list[Ticket]:
    """Return the runs of the queue that may begin now. The run that has waited longest comes first.

    ``at_work`` are the runs that have places. There are ``most`` places for healthy runs. A run
    that becomes slow no longer uses one of these places. Suspect runs have places of their own: a
    quarter as many, and at least one. So a comparison that hangs does not delay others for long.
    """
    free = most
    free_of_suspects = max(1, most // 4)
    for run in at_work:
        if run.is_suspect:
            free_of_suspects -= 1
        elif not run.is_slow(now_s):
            free -= 1
    beginning = []
    for run in queue:
        if run.is_suspect and free_of_suspects > 0:
            free_of_suspects -= 1
            beginning.append(run)
        elif not run.is_suspect and free > 0:
            free -= 1
            beginning.append(run)
    return beginning


class Places:
    """Limits how many runs work at the same time. `next_runs` decides which run begins.

    ``most`` is the number of places, by the configuration in force. Threads may share the object.
    """

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        self.most = most
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._queue: list[Ticket] = []
        self._at_work: list[Ticket] = []

    @contextmanager
    def taken(self, ticket: Ticket) -> Iterator[None]:
        """Wait until this run gets a place. Free the place at the end of the block."""
        with self._lock:
            self._queue.append(ticket)
        self.look_again()
        ticket.admitted.wait()
        try:
            yield
        finally:
            with self._lock:
                self._at_work.remove(ticket)
            self.look_again()

    def running_s(self, name: str) -> float | None:
        """Return how long the run with this name has been at work, or None if it is not at work."""
        for ticket in list(self._at_work):
            if ticket.name == name and ticket.begun_s is not None:
                return self._monotonic() - ticket.begun_s
        return None

    def look_again(self) -> None:
        """Start all runs that may begin now.

        Call it every second, because runs at work may become slow.
        """
        with self._lock:
            now_s = self._monotonic()
            if not self._queue:
                return
            for ticket in next_runs(self._queue, self._at_work, self.most, now_s):
                ticket.begun_s = now_s
                self._queue.remove(ticket)
                self._at_work.append(ticket)
                ticket.admitted.set()

    def count_waiting(self) -> int:
        """Return the number of runs that wait for a place."""
        return len(self._queue)
