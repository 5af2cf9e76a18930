"""HttpSource: asks for every user of a panel, many requests at once, within one deadline.

And who was slow where it passed.
"""

import asyncio
import json
import os
import random
import ssl
import time
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from multidict import CIMultiDict
from pydantic import SecretStr

from monitor import USER_AGENT
from monitor.deadline import Deadline
from monitor.errors import ConfigError, SourceError
from monitor.foreign_errors import find_tls_fault
from monitor.link_local import LinkLocalError
from monitor.model.instants import retry_after_s, utc_now
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullProgress, PullRequest
from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.options import NOT_IN_HASH
from monitor.sources.http import HttpOptions, HttpSourceOptions
from monitor.sources.http.authentication import TokenError, authentication, proxy_options
from monitor.sources.http.connection_pool import MAY_BE_LINK_LOCAL, run_pull, trust
from monitor.sources.http.hosts import HOSTS
from monitor.sources.http.lockstep import Companion
from monitor.sources.http.pull_process import pull_in_place
from monitor.sources.http.request import (
    AnswersByUser,
    ListAnswer,
    RequestFailure,
    RequestTemplate,
    read_body,
    unreadable,
)
from monitor.sources.http.traces import TraceCollector
from monitor.sources.kept_answers import AnswerFile
from monitor.sources.list_collector import ListCollector, spell_items
from monitor.texts.tls_faults import write_tls_fault
from monitor.web_proxy import WebProxy, open_proxy, refuse_link_local_behind

LASTS_S = 3.0
"""A pull that ends sooner is as well made again, and nobody asks how far it is."""
SLOW_S = 0.5
"""An answer that takes longer is slow for a service that people wait for."""


class PullPace:
    """Of one pull, from now on; made and used in the thread that pulls."""

    def __init__(self) -> None:
        self._begun_at, self._before = time.monotonic(), _processor_s()
        self._answered_s = array("d")
        self._spent_s, self._slow_s = 0.0, 0.0

    def add(self, seconds: float, *, answered: int = 0) -> bool:
        """Note how long a request took, and how many users it answered.

        Whether that is long, also where all is over soon.
        """
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
        worked_s, waited_s = (
            now - before for now, before in zip(_processor_s(), self._before, strict=True)
        )
        busy_s = waited_s + worked_s * with_own_work
        if busy_s <= elapsed_s / 2 or elapsed_s < 1:  # in less time nobody is slow
            return None
        return (
            f"is not at fault: rankwatch or its machine was too busy, for {busy_s:.1f} of "
            f"{elapsed_s:.1f} s"
        )

    def late(self, *, is_limited: bool = False) -> RequestFailure:
        """Why users were not asked before the deadline: a source that was quick is not at fault, nor one with limits."""
        if (busy := self.busy(with_own_work=True)) is not None:
            return RequestFailure(CoverageReason.TOO_SLOW, busy)
        if not self._spent_s and not is_limited:
            return RequestFailure(
                CoverageReason.TIMEOUT, "was not asked: the run's deadline had passed"
            )
        others = (
            f"; the others were answered after {median(self._answered_s):.2g} s (median)"
            if self._answered_s
            else ""
        )
        elapsed_s = time.monotonic() - self._begun_at
        passed = f"after {elapsed_s:.1f} s, when the run's deadline passed"
        if self._slow_s < self._spent_s / 2 or (is_limited and self._spent_s < elapsed_s / 2):
            advice = (
                "raise deadline or "
                f"{'max_rate or max_in_flight' if is_limited else 'concurrency'}, or ask fewer "
                "users"
            )
            return RequestFailure(
                CoverageReason.TOO_SLOW, f"was quick, but not done {passed}: {advice}{others}"
            )
        return RequestFailure(CoverageReason.TIMEOUT, f"had not answered {passed}{others}")


def _processor_s() -> tuple[float, float]:
    """Seconds in which this thread was at work, and in which it had work and no processor."""
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):  # only Linux tells
        waited_s = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    return time.thread_time(), waited_s


_REPORT_S = 1.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_CAUSES = 3
"""So many causes of one reason are named."""
# Times the concurrency: so many requests in a row without an answer, and the source is given up
_DEAD_AFTER = 2
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_WHOLE_ANSWERS = (HTTPStatus.OK, HTTPStatus.CREATED)
_LIKELY_OURS = {
    CoverageReason.MISSING: "is url right?",
    CoverageReason.WRONG_USER: "are url and user right?",
}
"""What to look at where all users share the reason."""
_HUNG = RequestFailure(CoverageReason.TIMEOUT, "had not answered when the run's deadline passed")


class HttpSource:
    """A recommender asked for one user or a batch of them a request over HTTP. Port: Source.

    Never raises for what the other side does. After twice ``concurrency`` requests without an
    answer it is given up.
    """

    def __init__(self, options: HttpSourceOptions) -> None:
        if options.auth and options.auth.aws and not find_spec("botocore"):
            raise ConfigError(
                "auth: aws needs an extra: install it with pip install 'rankwatch[aws]'"
            )
        self._options = options

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        return spell_items(pull_in_place(self._options, request, pull_here), self._options.item_ids)


def pull_here(options: HttpSourceOptions, request: PullRequest) -> Pull:
    """Lists of the requested users, asked for by this process."""
    tls = trust(options)
    return run_pull(_HttpPull(options, request, tls).pull)


class _HttpPull:
    """One pull: its users still to be asked, its lists, and how long the source has been silent."""

    def __init__(
        self, options: HttpSourceOptions, request: PullRequest, tls: ssl.SSLContext | None
    ) -> None:
        self._options = options
        self._what = f"{options.method} {options.address} {json.dumps(options.body, default=str)}"
        self._deadline, self._begun_s = Deadline.after(request.timeout_s), time.monotonic()
        self._of_each_request = request_options(options, tls, self._deadline)
        if options.body is not None:
            self._of_each_request["headers"].setdefault("Content-Type", "application/json")
        if request.is_uncached:
            self._of_each_request["headers"].setdefault("Cache-Control", "no-cache, no-store")
        self._asking = RequestTemplate(options, request)
        self._lists = ListCollector(
            request.k, has_scores=options.scores is not None, no_item=options.no_item
        )
        users = request.users.tolist()
        if request.together:
            random.Random(request.together).shuffle(users)  # noqa: S311 - the same for all
        self._request, self._answers = (
            request,
            AnswerFile(request.kept_at, _question(options, request.k)),
        )
        self._left = self._answers.recall(users, self._lists, request.kept_s)
        self._count, self._kept, self._traces = len(users), len(self._lists), TraceCollector()
        self._writing: asyncio.Future[None] | None = None
        self._under_way: dict[
            tuple[str, ...], float
        ] = {}  # since when, monotonic, not counting the wait for their turn
        self._queued: dict[tuple[str, ...], float] = {}  # those of them that wait for it now
        self._causes: dict[CoverageReason, Counter[str]] = defaultdict(Counter)
        self._late: dict[str, str] = {}  # whose fault these are is known at the end
        self._silent_requests = 0
        self._given_up: RequestFailure | None = None

    async def pull(self, session: aiohttp.ClientSession) -> Pull:
        """Ask for everybody.

        Whoever is left at the deadline is ``timeout``, or ``too_slow`` by no fault of the source.
        """
        MAY_BE_LINK_LOCAL.set(self._options.allow_link_local)
        await asyncio.sleep(0.01 * random.random())  # noqa: S311 - jitter: pulls of one slot begin apart
        self._pace, self._host = PullPace(), HOSTS[self._options.host]
        self._companion = Companion(
            self._request, self._options, self._askable(self._left), self._kept
        )
        workers = [
            asyncio.create_task(self._work(session)) for _ in range(self._options.concurrency)
        ]
        late = set(workers)
        while late and self._deadline.remaining_s:
            _, late = await asyncio.wait(late, timeout=min(_REPORT_S, self._deadline.remaining_s))
            self._report()
        for worker in late:
            worker.cancel()
        outcomes = await asyncio.gather(*workers, return_exceptions=True)
        self._companion.leave()
        self._close_books()
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=_REPORT_S)
        for outcome in outcomes:
            if isinstance(
                outcome, Exception
            ):  # a defect of this program: not to be read as the source's fault
                raise outcome
        pull = self._lists.pull()
        traces = self._traces.of(pull.rankings.users)
        return self._tell(replace(pull, rankings=replace(pull.rankings, traces=traces)))

    def _report(self) -> None:
        """Where the pull lasts, say how far it has come, and have what it was answered kept."""
        if (elapsed_s := time.monotonic() - self._begun_s) < LASTS_S:
            return
        failed = sum(map(Counter.total, self._causes.values())) + len(self._late)
        counts = {
            "users": self._count,
            "answered": len(self._lists),
            "failed": failed,
            "kept": self._kept,
        }
        self._request.tell(
            PullProgress(
                what=self._request.what,
                **counts,
                elapsed_s=elapsed_s,
                trouble=self._answers.trouble,
            )
        )
        if self._writing is None or self._writing.done():  # nobody waits for a disk
            self._writing = asyncio.get_running_loop().run_in_executor(
                None, self._answers.take(self._lists)
            )

    def _askable(self, users: Iterable[str]) -> Iterator[str]:
        for user in users:
            if problem := self._asking.problem(user):
                self._settle(user, CoverageReason.MALFORMED, problem)
            else:
                yield user

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while not self._given_up and (users := await self._companion.take()):
            self._under_way[users] = time.monotonic()
            outcome = await self._ask_patiently(session, users)
            seconds = time.monotonic() - self._under_way.pop(users)
            if isinstance(outcome, RequestFailure) and outcome.is_too_large and len(users) > 1:
                self._companion.halve(users)
            else:
                self._record(users, outcome, seconds)

    def _record(
        self, users: tuple[str, ...], outcome: AnswersByUser | RequestFailure, seconds: float
    ) -> None:
        has_answered = not isinstance(outcome, RequestFailure) or not outcome.is_silence
        self._pace.add(seconds, answered=has_answered * len(users))
        self._silent_requests = 0 if has_answered else self._silent_requests + 1
        for user in users:
            answer = outcome if isinstance(outcome, RequestFailure) else outcome[user]
            if isinstance(answer, ListAnswer):
                self._take(user, answer)
            else:
                self._fail(user, answer)
        if (
            isinstance(outcome, RequestFailure)
            and self._silent_requests >= _DEAD_AFTER * self._options.concurrency
        ):
            self._given_up = outcome
            self._host.breakers["" if outcome.is_of_host else self._what].is_open = True

    def _take(self, user: str, answer: ListAnswer) -> None:
        try:
            self._lists.add(user, answer.items, answer.scores, answer.version)
        except Exception as error:  # noqa: BLE001 - the answer came from outside
            self._fail(user, unreadable(error))

    async def _ask_patiently(
        self, session: aiohttp.ClientSession, users: tuple[str, ...]
    ) -> AnswersByUser | RequestFailure:
        """Ask, and again after a growing, jittered pause, as long as that may help and the deadline allows."""
        outcome = await self._ask(session, users)
        for retry in range(self._options.retries):
            if not isinstance(outcome, RequestFailure) or not outcome.is_retried:
                break
            pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**retry) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            pause_s = max(pause_s, outcome.retry_after_s)
            if self._given_up or pause_s >= self._deadline.remaining_s:
                break
            await asyncio.sleep(pause_s)
            outcome = await self._ask(session, users)
        return outcome

    async def _ask(
        self, session: aiohttp.ClientSession, users: tuple[str, ...]
    ) -> AnswersByUser | RequestFailure:
        self._queued[users] = time.monotonic()
        outcome = await self._host.ask(
            partial(self._ask_now, session, users), self._what, self._options, self._deadline
        )
        self._companion.mark_requested(users)
        if self._queued.pop(users, None) is not None and isinstance(
            outcome, RequestFailure
        ):  # nobody is asked now
            self._given_up = self._given_up or outcome
        return outcome

    async def _ask_now(
        self, session: aiohttp.ClientSession, users: tuple[str, ...]
    ) -> AnswersByUser | RequestFailure:
        self._under_way[users] += time.monotonic() - self._queued.pop(users)
        self._companion.mark_requested(users)
        if self._given_up:
            return self._given_up
        asking = self._asking
        url, body = asking.url(users), asking.body(users)
        try:
            async with session.request(
                asking.method, url, data=body, **self._of_each_request
            ) as response:
                return await self._read(users, response)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return connection_failure(error, self._options)
        except zlib.error:
            return RequestFailure(
                CoverageReason.MALFORMED, "answered in a compression that is broken or unknown"
            )

    async def _read(
        self, users: tuple[str, ...], response: aiohttp.ClientResponse
    ) -> AnswersByUser | RequestFailure:
        if response.status != HTTPStatus.OK and (failure := status_failure(response)):
            response.close()  # its body is of no use: do not read it to keep the connection
            return failure
        content = await read_body(response, self._options.max_bytes)
        if content is None:
            response.close()
            note = f"answered with more than max_bytes, {self._options.max_bytes}"
            return RequestFailure(CoverageReason.TOO_LARGE, note, is_too_large=True)
        try:
            self._traces.add(users, response.headers)
            return self._asking.read(users, content, response)
        except Exception as error:  # noqa: BLE001 - the answer came from outside
            return unreadable(error)

    def _close_books(self) -> None:
        """Give a reason to whoever was not asked, or not to the end."""
        now = time.monotonic()
        is_slow = {
            users: users not in self._queued and self._pace.add(now - at)
            for users, at in self._under_way.items()
        }
        late = self._pace.late(is_limited=self._options.is_limited)
        hung = late if late.reason is CoverageReason.TIMEOUT else _HUNG
        for users in self._under_way:
            for user in users:
                self._fail(user, hung if is_slow[users] else late)
        for user in self._companion.users:
            self._fail(user, self._given_up or late)
        busy = self._pace.busy(with_own_work=False) if self._late else None
        for user, note in self._late.items():
            self._settle(
                user, CoverageReason.TOO_SLOW if busy else CoverageReason.TIMEOUT, busy or note
            )

    def _fail(self, user: str, failure: RequestFailure) -> None:
        if failure.reason is CoverageReason.TIMEOUT:
            self._late[user] = failure.note
        else:
            self._settle(user, failure.reason, failure.note)

    def _settle(self, user: str, reason: CoverageReason, note: str) -> None:
        self._causes[reason][note] += 1
        self._lists.fail(user, reason, note)

    def _tell(self, pull: Pull) -> Pull:
        """The pull whose notes name the host, and how often it met with each cause where there are several."""
        notes = {}
        for reason, note in pull.notes.items():
            causes = self._causes[reason].most_common(_CAUSES)
            told = (
                " and ".join(f"{cause} ({count:,} of them)" for cause, count in causes)
                if len(causes) > 1
                else note
            )
            notes[reason] = f"{self._options.host}{'' if causes else ':'} {told}"
            if (
                len(pull.failures) == self._count
                and set(pull.failures.values()) == {reason} <= _LIKELY_OURS.keys()
            ):
                notes[reason] += f", for everybody: {_LIKELY_OURS[reason]}"
        if (
            self._asking.empty
            and len(pull.rankings) == self._count
            and not len(pull.rankings.items)
        ):
            found = (
                f"gave an empty list where items says ({self._options.items}), in "
                f"{self._asking.empty}"
            )
            notes[CoverageReason.EMPTY] = (
                f"{self._options.host} {found}, for everybody: is items right?"
            )
        return replace(pull, notes=notes)


def _question(options: HttpSourceOptions, k: int) -> str:
    """All that decides what is answered, secrets among it."""
    fields = type(options).model_fields.items()
    asked = {
        name: getattr(options, name) for name, field in fields if NOT_IN_HASH not in field.metadata
    }
    return json.dumps(
        [k, asked],
        default=lambda each: each.get_secret_value() if isinstance(each, SecretStr) else repr(each),
    )


def request_options(
    options: HttpOptions, tls: ssl.SSLContext | None, deadline: Deadline
) -> dict[str, Any]:
    """What every request of a source is made with."""
    limit_s = options.timeout.total_seconds()
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": USER_AGENT,
    }
    headers |= {name: value.get_secret_value() for name, value in options.headers.items()}
    if options.token:
        headers["Authorization"] = f"Bearer {options.token.get_secret_value()}"
    timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=limit_s / 2)
    made = {
        "headers": CIMultiDict(headers),
        "timeout": timeout,
        "ssl": tls or True,
        "allow_redirects": False,
    }
    proxied = proxy_options(options.proxy)
    if proxied and not options.allow_link_local:
        refuse_proxied(options)
    made |= proxied
    return made | (
        {"middlewares": (authentication(options.auth, tls, deadline, proxied),)}
        if options.auth
        else {}
    )


def refuse_proxied(options: HttpOptions) -> None:
    """SourceError if the URL has a link-local address, which a proxy would be asked for."""
    try:
        refuse_link_local_behind(options.url.get_secret_value())
    except LinkLocalError as error:
        raise SourceError(
            f"{options.host} was not asked: {error.strerror}, see allow_link_local"
        ) from None


def status_failure(response: aiohttp.ClientResponse) -> RequestFailure | None:
    """Return what a status means whose body is no answer; None when the body counts."""
    status = response.status
    note = f"answered {status} {_PHRASES.get(status, '')}".rstrip()
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.NO_CONTENT):
        return RequestFailure(CoverageReason.MISSING, note)
    pause_s = retry_after_s(response.headers.get("Retry-After"), utc_now()) or 0.0
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return RequestFailure(
            CoverageReason.RATE_LIMITED, note, is_retried=True, retry_after_s=pause_s
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return RequestFailure(
            CoverageReason.SERVER_ERROR, note, is_retried=True, retry_after_s=pause_s
        )
    if status not in _WHOLE_ANSWERS:
        is_too_large = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return RequestFailure(CoverageReason.HTTP_ERROR, note, is_too_large=is_too_large)
    return None


def connection_failure(error: Exception, options: HttpOptions) -> RequestFailure:
    """What an error of a connection means.

    Its note never repeats an address, which may hold a secret.
    """
    reason, is_retried, timeout_s = (
        CoverageReason.UNREACHABLE,
        True,
        options.timeout.total_seconds(),
    )
    is_of_host = isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    )
    match error:
        case TokenError():
            note = f"was not asked: token_url {error}"
        case aiohttp.ConnectionTimeoutError():
            note = (
                f"accepted no connection within {timeout_s / 2:g} s, half of the timeout of a "
                "request"
            )
        case TimeoutError():
            reason, note = (
                CoverageReason.TIMEOUT,
                f"gave no answer within {timeout_s:g} s, the timeout of a request",
            )
        case aiohttp.ClientError() if (fault := find_tls_fault(error)) is not None:
            note = ": ".join(write_tls_fault(fault, TlsClient.HTTP_SOURCE))
            is_retried = fault in (TlsFault.HANDSHAKE, TlsFault.NO_TLS)
        case aiohttp.ClientConnectorError(os_error=LinkLocalError()):
            note = f"was not asked: {error.strerror}, see allow_link_local"
            is_retried = False
        case aiohttp.ClientConnectorDNSError():
            note = "is a name that DNS could not resolve"
        case aiohttp.ClientResponseError():
            reason, note, is_retried = CoverageReason.MALFORMED, "answered, but not in HTTP", False
        case ValueError():
            note = "was not asked: no such request can be made, see url, headers and token"
            is_retried = False
        case _:
            number = getattr(error, "errno", None)
            note = (
                "refused or lost the connection: "
                f"{os.strerror(number) if number else 'its end was not seen'}"
            )
    failure = RequestFailure(reason, note, is_retried, is_of_host=is_of_host)
    proxy = open_proxy(options.proxy)
    return failure if proxy is None else _proxy_failure(error, proxy, failure)


def _proxy_failure(error: Exception, proxy: WebProxy, failure: RequestFailure) -> RequestFailure:
    """The failure with the proxy's part in it."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        is_login = error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        advice = (
            "check the credentials in proxy" if is_login else "check that the proxy may go there"
        )
        note = f"was not reached: {proxy.name} answered {error.status} to CONNECT: {advice}"
        return RequestFailure(CoverageReason.UNREACHABLE, note, is_retried=not is_login)
    is_refused_by_us = isinstance(getattr(error, "os_error", None), LinkLocalError)
    if failure.is_of_host and not is_refused_by_us:
        return replace(failure, note=f"was not reached: {proxy.name} {failure.note}")
    return failure
