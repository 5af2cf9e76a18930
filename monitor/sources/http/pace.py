"""Finds what was slow during a pull: the source, or rankwatch and its machine."""

import time
from array import array
from contextlib import suppress
from pathlib import Path
from statistics import median

from monitor.model.rankings import CoverageReason
from monitor.sources.http.request import RequestFailure

_SLOW_S = 0.5
"""An answer that takes longer is slow, because people wait for such a service."""


class PullPace:
    """Measures the times of one pull, from now. Only the thread that pulls uses this object."""

    def __init__(self) -> None:
        self._begun_at = time.monotonic()
        self._worked_s, self._waited_s = _processor_s()
        self._answered_s = array("d")
        self._spent_s = 0.0
        self._slow_s = 0.0

    def add(self, seconds: float, *, answered: int = 0) -> bool:
        """Add the duration of a request. Returns whether the request was slow.

        ``answered`` is the number of users that it answered. In a short pull, a request is also
        slow if it takes half of the pull.
        """
        is_slow = seconds >= min(_SLOW_S, (time.monotonic() - self._begun_at) / 2)
        self._answered_s.extend([seconds] * answered)
        self._spent_s += seconds
        if is_slow:
            self._slow_s += seconds
        return is_slow

    def busy(self, *, with_own_work: bool) -> str | None:
        """A note if this thread waited for a processor for more than half of the time.

        With ``with_own_work``, the time in which it used the processor counts as waiting too. A
        thread that works all the time sends requests too slowly, but it notices each answer in
        time.
        """
        worked_s, waited_s = _processor_s()
        busy_s = waited_s - self._waited_s
        if with_own_work:
            busy_s += worked_s - self._worked_s
        elapsed_s = time.monotonic() - self._begun_at
        if busy_s <= elapsed_s / 2 or elapsed_s < 1:  # too short a time shows nothing
            return None
        return (
            f"is not at fault: rankwatch or its machine was too busy, for {busy_s:.1f} of "
            f"{elapsed_s:.1f} s"
        )

    def late(self, *, is_limited: bool = False) -> RequestFailure:
        """The failure of users that have no answer at the deadline.

        It is ``timeout`` only if the source was slow and limits were not the reason.
        """
        busy = self.busy(with_own_work=True)
        if busy is not None:
            return RequestFailure(CoverageReason.TOO_SLOW, busy)
        if not self._spent_s and not is_limited:
            return RequestFailure(
                CoverageReason.TIMEOUT, "was not asked: the run's deadline had passed"
            )
        elapsed_s = time.monotonic() - self._begun_at
        passed = f"after {elapsed_s:.1f} s, when the run's deadline passed"
        others = ""
        if self._answered_s:
            others = f"; the others were answered after {median(self._answered_s):.2g} s (median)"
        is_quick = self._slow_s < self._spent_s / 2
        has_waited = is_limited and self._spent_s < elapsed_s / 2
        if not is_quick and not has_waited:
            return RequestFailure(CoverageReason.TIMEOUT, f"had not answered {passed}{others}")
        limits = "max_rate or max_in_flight" if is_limited else "concurrency"
        advice = f"raise deadline or {limits}, or sample fewer users"
        note = f"answered quickly, but had not answered all users {passed}: {advice}{others}"
        return RequestFailure(CoverageReason.TOO_SLOW, note)


def _processor_s() -> tuple[float, float]:
    """How many seconds this thread has used a processor, and has waited for one."""
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):  # only Linux has this file
        waited_s = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    return time.thread_time(), waited_s
