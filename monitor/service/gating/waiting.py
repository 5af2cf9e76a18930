"""Ask again until there is an answer."""

from __future__ import annotations

from collections.abc import Callable

from monitor.errors import DatabaseError
from monitor.ports import Clock
from monitor.sequential import Verdict
from monitor.service.gating.certificate import Certificate

POLL_S = 5.0


def wait(
    answer: Callable[[], Certificate],
    clock: Clock,
    *,
    timeout_s: float,
    sleep: Callable[[float], None],
    tell: Callable[[Certificate], None],
) -> Certificate:
    """The first certificate with a verdict, or the last one when the time is up; ``tell`` hears of each on the way.

    A database that is briefly away is asked again. What the promise covers does not change with the looks taken.
    """
    ends = clock.monotonic() + timeout_s
    while True:
        left = ends - clock.monotonic()
        try:
            found = answer()
            if found.verdict is not Verdict.INCONCLUSIVE or left <= 0:
                return found
            tell(found)
        except DatabaseError as error:
            if error.permanent or left <= 0:
                raise
        sleep(min(POLL_S, max(left, 0.0)))
