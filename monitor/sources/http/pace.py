"""How fast a pull went, and who was slow where its deadline passed: the source, or rankwatch and the machine it runs on."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from monitor.model import CoverageReason
from monitor.sources.http.request import RequestFailure

SLOW_S = 0.5
"""An answer that takes longer is slow for a service that people wait for."""


class PullPace:
    """Of one pull, from now on; made and used in the thread that pulls."""

    def __init__(self) -> None:
        self._begun_at, self._worked_s = time.monotonic(), _worked_s()
        self._took_s: list[float] = []

    def add(self, seconds: float) -> None:
        """Note how long a user was asked."""
        self._took_s.append(seconds)

    def is_slow(self, seconds: float) -> bool:
        """Whether that is long for a user, also for a pull of which all is over soon."""
        return seconds >= min(SLOW_S, (time.monotonic() - self._begun_at) / 2)

    def own_fault(self) -> str | None:
        """In words that rankwatch or its machine was too busy; None where this thread waited for the source mostly."""
        return describe_busy(_worked_s() - self._worked_s, time.monotonic() - self._begun_at)

    def late(self) -> RequestFailure:
        """Why users were not asked before the deadline: a source that was quick is not at fault."""
        if not self._took_s:
            return RequestFailure(CoverageReason.TIMEOUT, "the run had no time left to ask")
        spent_s, elapsed_s = sum(self._took_s), time.monotonic() - self._begun_at
        each = f"{spent_s / len(self._took_s):.2g} s a user, {len(self._took_s):,} were asked"
        if sum(took_s for took_s in self._took_s if self.is_slow(took_s)) < spent_s / 2:
            advice = "raise deadline or concurrency, or ask fewer users"
            return RequestFailure(CoverageReason.TOO_SLOW, f"quick ({each}), but the run's deadline came first: {advice}")
        why = f"slow ({each}), so that the run's deadline passed after {elapsed_s:.1f} s"
        return RequestFailure(CoverageReason.TIMEOUT, why)


def describe_busy(busy_s: float, elapsed_s: float) -> str | None:
    """In words that this program had work for more than half of the time; None for less."""
    if busy_s <= elapsed_s / 2 or elapsed_s < 1:  # in less time nobody is slow
        return None
    return f"not at fault: rankwatch or its machine was too busy, for {busy_s:.1f} of {elapsed_s:.1f} s"


def _worked_s() -> float:
    """Seconds in which this thread was at work, or had work and no processor."""
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):  # only Linux tells
        waited_s = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    return time.thread_time() + waited_s
