"""Places for runs: few are at work at a time, the longest waiting one begins first, and what hangs takes no place for long."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from monitor.model.runs import Run


def took_whole_deadline(run: Run, deadline: timedelta) -> bool:
    """Whether the run, a comparison's newest, ran into its deadline: then the next one is expected to hang likewise."""
    return run.finished_at is not None and run.finished_at - run.started_at >= deadline


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A run that wants a place, or has one since ``begun_s`` by the steady clock.

    ``is_suspect``: its comparison's last run took its whole deadline. ``slow_after_s``: so long at work it is slow.
    """

    name: str
    slow_after_s: float
    is_suspect: bool = False
    begun_s: float | None = None
    admitted: threading.Event = field(default_factory=threading.Event, repr=False)

    def is_slow(self, now_s: float) -> bool:
        """Whether it holds its place for so long that it gives way to others."""
        return self.begun_s is not None and now_s - self.begun_s >= self.slow_after_s


def next_runs(queue: Sequence[Ticket], held: Iterable[Ticket], most: int, now_s: float) -> list[Ticket]:
    """Those of the queue, longest waiting first, that may begin now beside those that ``held`` places.

    ``most`` are at work, not counting suspects, for which there is a quarter as many places of their own, at least one, nor
    what is slow. So a comparison that hung is never in the way of one that did not, and one that begins to hang not for long.
    """
    held = list(held)
    free = most - sum(not each.is_suspect and not each.is_slow(now_s) for each in held)
    free_of_suspects = max(1, most // 4) - sum(each.is_suspect for each in held)
    healthy = [each for each in queue if not each.is_suspect][: max(0, free)]
    suspects = [each for each in queue if each.is_suspect][: max(0, free_of_suspects)]
    return [each for each in queue if each in healthy or each in suspects]


class Places:
    """Hands places to runs as `next_runs` decides, with at most ``most()`` for healthy ones. Safe to share between threads."""

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
        """Let all begin that may by now; to be called also every second or so, as what is at work becomes slow."""
        with self._lock:
            now_s = self._monotonic()
            for ticket in next_runs(self._queue, self._held, self._most(), now_s) if self._queue else ():
                ticket.begun_s = now_s
                self._queue.remove(ticket)
                self._held.append(ticket)
                ticket.admitted.set()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._queue)
