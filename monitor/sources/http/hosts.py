"""What pulls share of a host, on the thread that pulls, as long as the process lasts: limits, a pause, and its silence."""

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from math import inf, sqrt
from statistics import quantiles

from monitor.deadline import Deadline
from monitor.model.instants import utc_now
from monitor.model.rankings import CoverageReason
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.request import AnswersByUser, RequestFailure

_Outcome = AnswersByUser | RequestFailure
_Request = Callable[[], Awaitable[_Outcome]]
_Clock = Callable[[], float]
_Sleep = Callable[[float], Awaitable[None]]
_Probe = asyncio.Future[
    RequestFailure | None
]  # ends with None by an answer, or where it was not made to its end


class Knee:
    """How many requests at once a host answers before they queue there, learnt in windows like Envoy's adaptive concurrency."""

    _TOLERATED = (
        1.05  # times the latency without a queue, beyond the sampling errors of both medians
    )
    _REFUSED = 0.05  # of a window
    _MORE, _FEWER, _MUCH_FEWER = 1.5, 0.85, 0.7

    def __init__(self) -> None:
        self.limit = 2.0
        self.is_reached = False  # else there is no reason for a higher one
        self._since_s, self._is_starting = 0.0, True
        self._unqueued_s = self._slow_s = inf
        self._answered_s, self._refused = list[float](), 0

    def add(self, begun_s: float, ended_s: float, *, is_refused: bool) -> None:
        """Learn from a request; one that began under another limit tells nothing of this one."""
        if begun_s < self._since_s:
            return
        size = max(16, 2 * self.limit)  # of a window
        if is_refused:
            self._refused += 1
        else:
            self._answered_s.append(ended_s - begun_s)
        if self._refused > size * self._REFUSED:
            self._is_starting = False
            limit = self.limit * self._MUCH_FEWER
        elif len(self._answered_s) >= size:
            limit = self._judged()
        else:
            return
        self.limit, self._since_s = max(1.0, limit), ended_s
        self.is_reached, self._refused = False, 0
        self._answered_s.clear()

    def _judged(self) -> float:
        low_s, median_s, high_s = quantiles(self._answered_s, n=4)
        error_s = (high_s - low_s) / sqrt(len(self._answered_s))
        is_slow = median_s - error_s > self._TOLERATED * self._unqueued_s
        if is_slow and median_s + error_s < self._slow_s:
            factor = 1 / self._MORE if self._is_starting else self._FEWER
            self._slow_s, self._is_starting = median_s, False
            return self.limit * factor
        # Where fewer made it no quicker, it is slow for other reasons.
        self._unqueued_s = median_s if is_slow else min(self._unqueued_s, median_s + error_s)
        self._slow_s = inf
        if not self.is_reached:
            return self.limit
        return self.limit * self._MORE if self._is_starting else self.limit + 1


class Breaker:
    """Whether somebody was given up.

    Until an answer comes from there, one request at a time tries.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._probe: _Probe | None = None

    async def admit(self) -> _Probe | RequestFailure | None:
        """A probe to end for the one who is to try, what that one found for all who come meanwhile.

        None where it is closed.
        """
        while self.is_open:
            if self._probe is None or self._probe.done():
                self._probe = asyncio.get_running_loop().create_future()
                return self._probe
            if (found := await asyncio.shield(self._probe)) is not None:
                return replace(
                    found, note=f"{found.note}, so the others were not asked", is_retried=False
                )
        return None

    def close(self) -> None:
        """It answers."""
        self.is_open = False
        if self._probe is not None and not self._probe.done():
            self._probe.set_result(None)


_LONGEST_PAUSE_S = 3600.0
"""Whatever a host asks for."""
_CREDIBLE_PAUSE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Pause:
    """Until when nobody asks, and what those are told whose deadline is before that."""

    until_s: float
    failure: RequestFailure


class Host:
    """Admits requests, each by the limits of its source, counting those of all sources."""

    def __init__(
        self,
        monotonic: _Clock = time.monotonic,
        sleep: _Sleep = asyncio.sleep,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._monotonic, self._sleep, self._now = monotonic, sleep, now
        self._day, self._made = (
            date.min,
            0,
        )  # how many requests that day, of sources that limit them
        self.breakers = defaultdict[str, Breaker](Breaker)  # by what is asked, "" for all
        self._knee, self._under_way, self._next_s = Knee(), 0, 0.0
        self._turn, self._left = asyncio.Lock(), asyncio.Event()
        self._pauses = dict[str, _Pause]()  # by what is asked, "" for all

    async def ask(
        self, request: _Request, what: str, options: HttpSourceOptions, deadline: Deadline
    ) -> _Outcome:
        """Make the request for ``what`` in its turn, and learn from it.

        Or tell why it was not made.
        """
        breakers = self.breakers[""], self.breakers[what]
        given_up = [breaker for breaker in breakers if breaker.is_open]
        probe = await given_up[0].admit() if given_up else None
        if isinstance(probe, RequestFailure):
            return probe
        failure = None
        try:
            if options.is_limited or self._pauses:
                async with self._turn if options.is_limited else nullcontext():
                    if (refusal := await self._admit(what, options, deadline)) is not None:
                        return refusal
            if (
                options.requests_a_day
                and (refusal := self._spend(options.requests_a_day)) is not None
            ):
                return refusal
            self._under_way += 1
            begun_s = self._monotonic()
            try:
                outcome = await request()
            finally:
                self._under_way -= 1
                self._left.set()
            if isinstance(outcome, RequestFailure):
                failure = outcome if outcome.is_silence else None
                self._put_off(outcome, what)
            if options.max_in_flight == "adaptive":
                self._knee.add(begun_s, self._monotonic(), is_refused=failure is not None)
            for breaker in () if failure else breakers:
                breaker.close()
            return outcome
        finally:
            if probe is not None and not probe.done():
                probe.set_result(failure)

    async def _admit(
        self, what: str, options: HttpSourceOptions, deadline: Deadline
    ) -> RequestFailure | None:
        most = options.max_in_flight or inf
        while self._under_way >= (int(self._knee.limit) if most == "adaptive" else most):
            self._knee.is_reached = True
            self._left.clear()
            await self._left.wait()
        apart_s = 1 / options.max_rate if options.max_rate else 0.0
        if apart_s and (early_s := self._next_s - self._monotonic()) > 0:
            await self._sleep(early_s)
        while (pause := self._pause_of(what)) is not None:
            pause_s = pause.until_s - self._monotonic()
            if pause_s >= deadline.remaining_s:
                return pause.failure
            await self._sleep(pause_s * random.uniform(1, 1.1))  # noqa: S311 - jitter
        self._next_s = max(self._next_s, self._monotonic()) + apart_s
        return None

    def _spend(self, most: int) -> RequestFailure | None:
        """Count a request of this day, or tell that it had all of its requests."""
        if (today := self._now().date()) > self._day:
            self._day, self._made = today, 0
        if self._made >= most:
            until = f"{self._day + timedelta(days=1)} 00:00 UTC"
            note = (
                f"was not asked: it had the {most:,} requests of requests_a_day, and is asked "
                f"again from {until} on"
            )
            return RequestFailure(CoverageReason.TOO_SLOW, note)
        self._made += 1
        return None

    def _pause_of(self, what: str) -> _Pause | None:
        now_s = self._monotonic()
        pauses = [self._pauses[key] for key in ("", what) if key in self._pauses]
        return next((each for each in pauses if each.until_s > now_s), None)

    def _put_off(self, failure: RequestFailure, what: str) -> None:
        pause_s = min(failure.retry_after_s, _LONGEST_PAUSE_S)
        if not pause_s:
            return
        # Nobody limits clients for longer than a day: such an answer says nothing about the host.
        key = "" if failure.retry_after_s <= _CREDIBLE_PAUSE_S else what
        until_s = self._monotonic() + pause_s
        if key not in self._pauses or until_s > self._pauses[key].until_s:
            asked = (
                f"asked for a pause of {pause_s:,.0f} s (Retry-After), beyond the run's deadline"
            )
            told = replace(failure, note=f"{failure.note} and {asked}", is_retried=False)
            self._pauses[key] = _Pause(until_s, told)


HOSTS = defaultdict[str, Host](Host)  # by name and port
os.register_at_fork(
    after_in_child=HOSTS.clear
)  # they belong to the loop of the process that forked this one
