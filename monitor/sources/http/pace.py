"""How fast a pull went, and who was slow where its deadline passed: the source, or rankwatch and the machine it runs on."""

from __future__ import annotations

import time
from array import array
from contextlib import suppress
from pathlib import Path
from statistics import median

from monitor.model import CoverageReason
from monitor.sources.http.request import RequestFailure

SLOW_S = 0.5
"""An answer that takes longer is slow for a service that people wait for."""


class PullPace:
    """Of one pull, from now on; made and used in the thread that pulls."""

    def __init__(self, users: int) -> None:
        self._begun_at, self._before = time.monotonic(), _processor_s()
        self._users, self._answered_s = users, array("d")
        self._spent_s, self._slow_s = 0.0, 0.0

    def add(self, seconds: float, *, answered: int = 0) -> bool:
        """Note how long a request took, and how many users it answered; whether that is long, also where all is over soon."""
        is_slow = seconds >= min(SLOW_S, (time.monotonic() - self._begun_at) / 2)
        self._answered_s.extend([seconds] * answered)
        self._spent_s += seconds
        self._slow_s += seconds if is_slow else 0.0
        return is_slow

    def busy(self, *, with_own_work: bool) -> str | None:
        """That this thread waited for a processor (``with_own_work``: or had one) for more than half of the time, in words.

        A thread that works all the time asks too slowly, and yet sees each answer in time.
        """
        elapsed_s = time.monotonic() - self._begun_at
        worked_s, waited_s = (now - before for now, before in zip(_processor_s(), self._before, strict=True))
        busy_s = waited_s + worked_s * with_own_work
        if busy_s <= elapsed_s / 2 or elapsed_s < 1:  # in less time nobody is slow
            return None
        return f"is not at fault: rankwatch or its machine was too busy, for {busy_s:.1f} of {elapsed_s:.1f} s"

    def late(self) -> RequestFailure:
        """Why users were not asked before the deadline: a source that was quick is not at fault."""
        if (busy := self.busy(with_own_work=True)) is not None:
            return RequestFailure(CoverageReason.TOO_SLOW, busy)
        if not self._spent_s:
            return RequestFailure(CoverageReason.TIMEOUT, "was not asked: the run's deadline had passed")
        answers = self._answered_s
        each = f", {median(answers):.2g} s each in the median," if answers else ""
        elapsed_s = time.monotonic() - self._begun_at
        passed = f"the run's deadline passed, {elapsed_s:.1f} s after the first was asked"
        told = f"had answered {len(answers):,} of {self._users:,} users{each} when {passed}"
        if self._slow_s < self._spent_s / 2:
            advice = "raise deadline or concurrency, or ask fewer users"
            return RequestFailure(CoverageReason.TOO_SLOW, f"was quick, but {told}: {advice}")
        return RequestFailure(CoverageReason.TIMEOUT, told)


def _processor_s() -> tuple[float, float]:
    """Seconds in which this thread was at work, and in which it had work and no processor."""
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):  # only Linux tells
        waited_s = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    return time.thread_time(), waited_s
