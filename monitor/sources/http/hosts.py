"""The state of a host that all pulls from it share.

The state has the limits of the host, the pause that it asked for, and whether it was given up. Only
the thread that pulls uses the state. It exists as long as the process.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from math import inf, sqrt
from statistics import quantiles

from monitor.boundary.deadline import Deadline
from monitor.model.instants import utc_now
from monitor.model.rankings import CoverageReason
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.request import AnswersByUser, RequestFailure

_Outcome = AnswersByUser | RequestFailure
_Request = Callable[[], Awaitable[_Outcome]]
_Probe = asyncio.Future[RequestFailure | None]
"""The result of a probe. It is None if the request was answered or was never sent."""


class ConcurrencyLimit:
    """Learns how many requests a host answers at the same time before they queue there.

    It learns from one window of requests after another, as Envoy's adaptive concurrency does.
    """

    _TOLERATED = 1.05
    """A host is slow if its median latency exceeds the latency without a queue by this factor. The
    sampling errors of both medians are tolerated too."""
    _REFUSED = 0.05
    """The limit falls if a larger share of the requests in a window was refused."""
    _MORE = 1.5
    _FEWER = 0.85
    _MUCH_FEWER = 0.7

    def __init__(self) -> None:
        self.limit = 2.0
        self.is_reached = False  # whether a request had to wait, so a higher limit would help
        self._since_s = 0.0  # when the limit was last set
        self._is_starting = True  # until the host is slow or refuses requests for the first time
        self._unqueued_s = inf  # the estimated latency without a queue
        self._slow_s = inf  # the median latency before the limit last fell, if the host was slow
        self._answered_s = list[float]()
        self._refused = 0

    def add(self, begun_s: float, ended_s: float, *, is_refused: bool) -> None:
        """Learn from a request. Requests that began under an earlier limit are ignored."""
        if begun_s < self._since_s:
            return
        window = max(16, 2 * self.limit)
        if is_refused:
            self._refused += 1
        else:
            self._answered_s.append(ended_s - begun_s)
        if self._refused > window * self._REFUSED:
            self._is_starting = False
            limit = self.limit * self._MUCH_FEWER
        elif len(self._answered_s) >= window:
            limit = self._next_limit()
        else:
            return
        self.limit = max(1.0, limit)
        self._since_s = ended_s
        self.is_reached = False
        self._refused = 0
        self._answered_s.clear()

    def _next_limit(self) -> float:
        """Return the limit for the next window, by the latencies of the last one.

        It falls if the host is slow, unless the last fall made the host no faster. Otherwise it
        grows if a request had to wait.
        """
        low_s, median_s, high_s = quantiles(self._answered_s, n=4)
        error_s = (high_s - low_s) / sqrt(len(self._answered_s))
        is_slow = median_s - error_s > self._TOLERATED * self._unqueued_s
        if is_slow and median_s + error_s < self._slow_s:
            factor = 1 / self._MORE if self._is_starting else self._FEWER
            self._slow_s = median_s
            self._is_starting = False
            return self.limit * factor
        if is_slow:
            # The host did not become faster with fewer requests. So it is slow for other reasons.
            self._unqueued_s = median_s
        else:
            self._unqueued_s = min(self._unqueued_s, median_s + error_s)
        self._slow_s = inf
        if not self.is_reached:
            return self.limit
        if self._is_starting:
            return self.limit * self._MORE
        return self.limit + 1


class Breaker:
    """Remembers whether a host or an address was given up.

    An open breaker means that it was given up. Then only one request at a time is sent, as a probe.
    The breaker closes when a probe is answered.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._probe: _Probe | None = None

    async def admit(self) -> _Probe | RequestFailure | None:
        """Admit one request as a probe. Other requests wait for the probe and share its failure.

        The caller must set the result of the probe. The result of this call is None if the breaker
        is closed.
        """
        while self.is_open:
            if self._probe is None or self._probe.done():
                self._probe = asyncio.get_running_loop().create_future()
                return self._probe
            failure = await asyncio.shield(self._probe)
            if failure is not None:
                note = f"{failure.note}, so rankwatch did not ask for the other users"
                return replace(failure, note=note, is_retried=False)
        return None

    def close(self) -> None:
        """Record that a request was answered."""
        self.is_open = False
        if self._probe is not None and not self._probe.done():
            self._probe.set_result(None)


_LONGEST_PAUSE_S = 3600.0
_CREDIBLE_PAUSE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Pause:
    until_s: float
    failure: RequestFailure  # of requests whose deadline is before the end of the pause


class Host:
    """Admits each request by the limits of its source. It counts the requests of all sources."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._now = now
        self._day = date.min
        self._day_requests = 0  # only requests of sources with requests_a_day are counted
        # The breakers and pauses of each requested address. The key "" is for the whole host.
        self.breakers = defaultdict[str, Breaker](Breaker)
        self._pauses = dict[str, _Pause]()
        self._learned_limit = ConcurrencyLimit()
        self._under_way = 0
        self._next_s = 0.0  # when `max_rate` admits the next request
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()  # set when a request ended

    async def ask(
        self,
        request: _Request,
        what: str,
        options: HttpSourceOptions,
        deadline: Deadline,
    ) -> _Outcome:
        """Send the request to the address ``what`` as soon as limits and pauses admit it.

        Returns a failure if limits or pauses do not admit the request before the deadline.
        """
        of_host = self.breakers[""]
        of_address = self.breakers[what]
        probe = await of_host.admit() or await of_address.admit()
        if isinstance(probe, RequestFailure):
            return probe
        silence = None
        try:
            refusal = await self._admit(what, options, deadline)
            if refusal is not None:
                return refusal
            self._under_way += 1
            begun_s = self._monotonic()
            try:
                outcome = await request()
            finally:
                self._under_way -= 1
                self._ended.set()
            if isinstance(outcome, RequestFailure):
                if outcome.is_silence:
                    silence = outcome
                self._pause_after(outcome, what)
            if options.max_in_flight == "adaptive":
                self._learned_limit.add(begun_s, self._monotonic(), is_refused=silence is not None)
            if silence is None:
                of_host.close()
                of_address.close()
            return outcome
        finally:
            if probe is not None and not probe.done():
                probe.set_result(silence)

    async def _admit(
        self,
        what: str,
        options: HttpSourceOptions,
        deadline: Deadline,
    ) -> RequestFailure | None:
        """Wait until limits and pauses admit the request. Returns a failure if they do not."""
        if options.is_limited:
            async with self._turn:
                while self._under_way >= self._most_in_flight(options):
                    self._learned_limit.is_reached = True
                    self._ended.clear()
                    await self._ended.wait()
                early_s = self._next_s - self._monotonic()
                if options.max_rate and early_s > 0:
                    await self._sleep(early_s)
                refusal = await self._wait_for_pauses(what, deadline)
                if refusal is None and options.max_rate:
                    self._next_s = max(self._next_s, self._monotonic()) + 1 / options.max_rate
        else:
            refusal = await self._wait_for_pauses(what, deadline)
        if refusal is None and options.requests_a_day:
            refusal = self._count_of_day(options.requests_a_day)
        return refusal

    def _most_in_flight(self, options: HttpSourceOptions) -> float:
        if options.max_in_flight == "adaptive":
            return int(self._learned_limit.limit)
        return options.max_in_flight or inf

    async def _wait_for_pauses(self, what: str, deadline: Deadline) -> RequestFailure | None:
        while (pause := self._current_pause(what)) is not None:
            pause_s = pause.until_s - self._monotonic()
            if pause_s >= deadline.remaining_s:
                return pause.failure
            await self._sleep(pause_s * random.uniform(1, 1.1))  # noqa: S311 - jitter
        return None

    def _current_pause(self, what: str) -> _Pause | None:
        if not self._pauses:
            return None
        for key in ("", what):
            pause = self._pauses.get(key)
            if pause is not None and pause.until_s > self._monotonic():
                return pause
        return None

    def _count_of_day(self, most: int) -> RequestFailure | None:
        """Count a request. Returns a failure if today's requests have reached the limit."""
        today = self._now().date()
        if today > self._day:
            self._day = today
            self._day_requests = 0
        if self._day_requests >= most:
            note = (
                f"was not asked, because it got {most:,} requests today (UTC), as many as "
                f"requests_a_day allows: it is asked again from {self._day + timedelta(days=1)} "
                "00:00 UTC"
            )
            return RequestFailure(CoverageReason.TOO_SLOW, note)
        self._day_requests += 1
        return None

    def _pause_after(self, failure: RequestFailure, what: str) -> None:
        pause_s = min(failure.retry_after_s, _LONGEST_PAUSE_S)
        if not pause_s:
            return
        # No host limits clients for more than a day. So a longer pause is for one address only.
        key = "" if failure.retry_after_s <= _CREDIBLE_PAUSE_S else what
        until_s = self._monotonic() + pause_s
        if key not in self._pauses or until_s > self._pauses[key].until_s:
            note = (
                f"{failure.note} and asked for a pause of {pause_s:,.0f} s (Retry-After), which "
                "ends after the run's deadline"
            )
            self._pauses[key] = _Pause(until_s, replace(failure, note=note, is_retried=False))


HOSTS = defaultdict[str, Host](Host)  # by name and port
