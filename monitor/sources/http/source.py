"""Pulls the lists of all users of a panel over HTTP, with many requests at the same time."""

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice

import aiohttp
from pydantic import SecretStr

from monitor.boundary.deadline import Deadline
from monitor.boundary.options import NOT_IN_HASH
from monitor.model.errors import ConfigError
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullProgress, PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.connection_pool import run_pull
from monitor.sources.http.fetch import fetch, request_options
from monitor.sources.http.hosts import HOSTS
from monitor.sources.http.pace import PullPace
from monitor.sources.http.request import (
    AnswersByUser,
    ListAnswer,
    RequestFailure,
    RequestTemplate,
    unreadable_answer,
)
from monitor.sources.http.traces import TraceCollector
from monitor.sources.kept_answers import AnswerFile
from monitor.sources.list_collector import ListCollector, spell_items
from monitor.texts.wording import write_extra

LASTS_S = 3.0
"""A shorter pull reports no progress and stores no answers, because it is easy to repeat."""
_REPORT_S = 1.0
_FIRST_WORKERS = 4
"""These workers start at once, and the others one after the other. See `_start_workers`."""
_ALL_WORKERS_S = 0.3
"""The time in which all workers of a pull start."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_MOST_CAUSES = 3
"""The largest number of causes that a note gives for one reason."""
_DEAD_AFTER = 2
"""The source is given up after ``concurrency`` times this number of requests without an answer."""
_LIKELY_OURS = {
    CoverageReason.MISSING: "is url right?",
    CoverageReason.WRONG_USER: "are url and user right?",
}
"""The question to ask if all users have the same reason."""
_HUNG = RequestFailure(CoverageReason.TIMEOUT, "had not answered when the run's deadline passed")


class HttpSource:
    """A recommender over HTTP, with one user or a batch of users in each request. Port: Source.

    Whatever the server does, this source raises no error. A server is given up if twice
    ``concurrency`` requests in a row get no answer.
    """

    def __init__(self, options: HttpSourceOptions) -> None:
        if options.auth and options.auth.aws and not find_spec("botocore"):
            raise ConfigError(f"auth: aws needs an extra: {write_extra('aws')}")
        self._options = options

    def pull(self, request: PullRequest) -> Pull:
        """The lists of the requested users."""
        pull = run_pull(_HttpPull(self._options, request).pull)
        return spell_items(pull, self._options.item_ids)


class _HttpPull:
    """One pull. Its workers take the users from ``_users``, one batch after the other."""

    def __init__(self, options: HttpSourceOptions, request: PullRequest) -> None:
        self._options = options
        self._request = request
        self._what = f"{options.method} {options.address} {json.dumps(options.body, default=str)}"
        self._deadline = Deadline.after(request.timeout_s)
        self._begun_s = time.monotonic()
        self._request_options = request_options(options, self._deadline)
        headers = self._request_options["headers"]
        if options.body is not None:
            headers.setdefault("Content-Type", "application/json")
        if request.is_uncached:
            headers.setdefault("Cache-Control", "no-cache, no-store")
        self._template = RequestTemplate(options, request)
        self._lists = ListCollector(
            request.k,
            has_scores=options.scores is not None,
            no_item=options.no_item,
        )
        users = request.users.tolist()
        if request.together:
            random.Random(request.together).shuffle(users)  # noqa: S311 - the same for all pulls
        self._answers = AnswerFile(request.answers_path, _answer_key(options, request.k))
        remaining = self._answers.recall(users, self._lists, request.answers_valid_s)
        self._recalled = len(self._lists)
        self._count = len(users)
        self._users = self._possible(remaining)
        self._batch = options.batch or 1
        self._traces = TraceCollector()
        self._writing: asyncio.Future[None] | None = None
        # When each request began, by its users. Its time in the queue is added to this time.
        self._under_way: dict[tuple[str, ...], float] = {}
        # The time at which each waiting request was put into the queue, by its users.
        self._queued: dict[tuple[str, ...], float] = {}
        self._causes: dict[CoverageReason, Counter[str]] = defaultdict(Counter)
        # The notes by user. Only the end of the pull shows what was slow.
        self._timeouts: dict[str, str] = {}
        self._silent_requests = 0
        self._given_up: RequestFailure | None = None

    async def pull(self, session: aiohttp.ClientSession) -> Pull:
        """Request the lists of all users.

        Users that remain at the deadline get the reason ``timeout``. If the source is not at fault,
        they get ``too_slow``.
        """
        # The pulls of many comparisons must not begin at the same moment.
        await asyncio.sleep(0.01 * random.random())  # noqa: S311 - jitter
        # Only the thread of all pulls uses these two.
        self._pace = PullPace()
        self._host = HOSTS[self._options.host]
        workers: list[asyncio.Task[None]] = []
        starting = asyncio.create_task(self._start_workers(session, workers))
        unfinished = {starting}
        while unfinished and self._deadline.remaining_s:
            timeout_s = min(_REPORT_S, self._deadline.remaining_s)
            await asyncio.wait(unfinished, timeout=timeout_s)
            unfinished = {task for task in (starting, *workers) if not task.done()}
            self._report()
        for task in unfinished:
            task.cancel()
        outcomes = await asyncio.gather(starting, *workers, return_exceptions=True)
        self._fail_remaining()
        await self._store_last_answers()
        for outcome in outcomes:
            if isinstance(outcome, Exception):  # such an error is a defect of rankwatch
                raise outcome
        pull = self._lists.pull()
        traces = self._traces.of(pull.rankings.users)
        rankings = replace(pull.rankings, traces=traces)
        return replace(pull, rankings=rankings, notes=self._notes(pull))

    async def _start_workers(
        self, session: aiohttp.ClientSession, workers: list[asyncio.Task[None]]
    ) -> None:
        """Start the workers one after the other, until a worker finds no more users.

        So a host that answers quickly gets few connections. A connection costs more than a request.
        """
        pause_s = _ALL_WORKERS_S / self._options.concurrency
        while len(workers) < self._options.concurrency:
            workers.append(asyncio.create_task(self._work(session)))
            if len(workers) >= _FIRST_WORKERS:
                await asyncio.sleep(pause_s)
            if any(worker.done() for worker in workers):
                break

    def _report(self) -> None:
        """Report the progress of a long pull, and store its new answers."""
        elapsed_s = time.monotonic() - self._begun_s
        if elapsed_s < LASTS_S:
            return
        failed = sum(map(Counter.total, self._causes.values())) + len(self._timeouts)
        progress = PullProgress(
            what=self._request.what,
            users=self._count,
            answered=len(self._lists),
            failed=failed,
            stored_answers=self._recalled,
            elapsed_s=elapsed_s,
            reason=self._answers.write_error,
        )
        self._request.on_progress(progress)
        if self._writing is None or self._writing.done():
            self._writing = self._store_answers()

    def _store_answers(self) -> asyncio.Future[None]:
        write = self._answers.take(self._lists)
        return asyncio.get_running_loop().run_in_executor(None, write)

    async def _store_last_answers(self) -> None:
        """Store the answers that came after the last report. A slow disk does not delay the run."""
        if self._writing is None:
            return
        await asyncio.wait([self._writing], timeout=_REPORT_S)
        if self._writing.done():
            await asyncio.wait([self._store_answers()], timeout=_REPORT_S)

    def _possible(self, users: Iterable[str]) -> Iterator[str]:
        for user in users:
            problem = self._template.problem(user)
            if problem is None:
                yield user
            else:
                self._settle(user, CoverageReason.MALFORMED, problem)

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while not self._given_up and (users := tuple(islice(self._users, self._batch))):
            self._under_way[users] = time.monotonic()
            outcome = await self._ask_with_retries(session, users)
            seconds = time.monotonic() - self._under_way.pop(users)
            if isinstance(outcome, RequestFailure) and outcome.is_too_large and len(users) > 1:
                self._batch = min(self._batch, len(users) // 2)
                self._users = chain(users, self._users)
            else:
                self._record(users, outcome, seconds)

    def _record(
        self,
        users: tuple[str, ...],
        outcome: AnswersByUser | RequestFailure,
        seconds: float,
    ) -> None:
        if isinstance(outcome, RequestFailure) and outcome.is_silence:
            self._pace.add(seconds)
            self._silent_requests += 1
            if self._silent_requests >= _DEAD_AFTER * self._options.concurrency:
                self._given_up = outcome
                self._host.breakers["" if outcome.is_of_host else self._what].is_open = True
        else:
            self._pace.add(seconds, answered=len(users))
            self._silent_requests = 0
        for user in users:
            answer = outcome if isinstance(outcome, RequestFailure) else outcome[user]
            self._add(user, answer)

    def _add(self, user: str, answer: ListAnswer | RequestFailure) -> None:
        if isinstance(answer, ListAnswer):
            self._lists.add(user, answer.items, answer.scores, answer.version)
        elif answer.reason is CoverageReason.TIMEOUT:
            self._timeouts[user] = answer.note
        else:
            self._settle(user, answer.reason, answer.note)

    async def _ask_with_retries(
        self, session: aiohttp.ClientSession, users: tuple[str, ...]
    ) -> AnswersByUser | RequestFailure:
        """Send a request and retry it, if a retry may succeed and is in time.

        The pauses grow and have jitter.
        """
        outcome = await self._ask(session, users)
        for retry in range(self._options.retries):
            if not isinstance(outcome, RequestFailure) or not outcome.is_retried:
                break
            pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**retry)
            pause_s *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter
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
        send = partial(self._send, session, users)
        outcome = await self._host.ask(send, self._what, self._options, self._deadline)
        is_unsent = self._queued.pop(users, None) is not None
        if is_unsent and isinstance(outcome, RequestFailure):
            # The host admits no request before the deadline.
            self._given_up = self._given_up or outcome
        return outcome

    async def _send(
        self, session: aiohttp.ClientSession, users: tuple[str, ...]
    ) -> AnswersByUser | RequestFailure:
        self._under_way[users] += time.monotonic() - self._queued.pop(users)
        if self._given_up:
            return self._given_up
        fetched = await fetch(
            session,
            self._template.url(users),
            self._options,
            self._request_options,
            method=self._options.method,
            data=self._template.body(users),
        )
        if isinstance(fetched, RequestFailure):
            return fetched
        return self._read(users, *fetched)

    def _read(
        self, users: tuple[str, ...], content: bytes, response: aiohttp.ClientResponse
    ) -> AnswersByUser | RequestFailure:
        try:
            self._traces.add(users, response.headers)
            return self._template.read(users, content, response)
        except Exception as error:  # noqa: BLE001 - the answer is from outside
            return unreadable_answer(error)

    def _fail_remaining(self) -> None:
        """Give a reason to each user whose request was not sent or got no answer."""
        now = time.monotonic()
        is_slow = dict.fromkeys(self._under_way, False)
        for users, since in self._under_way.items():
            if users not in self._queued:
                is_slow[users] = self._pace.add(now - since)
        late = self._pace.late(is_limited=self._options.is_limited)
        # A slow request is the source's fault, even if the pull as a whole was too slow.
        hung = late if late.reason is CoverageReason.TIMEOUT else _HUNG
        for users in self._under_way:
            for user in users:
                self._add(user, hung if is_slow[users] else late)
        for user in self._users:
            self._add(user, self._given_up or late)
        busy = self._pace.busy(with_own_work=False)
        reason = CoverageReason.TOO_SLOW if busy else CoverageReason.TIMEOUT
        for user, note in self._timeouts.items():
            self._settle(user, reason, busy or note)

    def _settle(self, user: str, reason: CoverageReason, note: str) -> None:
        self._causes[reason][note] += 1
        self._lists.fail(user, reason, note)

    def _notes(self, pull: Pull) -> dict[CoverageReason, str]:
        """The notes of the pull. A note has the host and the causes of a reason.

        If all users have the same reason, the note also asks whether some options are right.
        """
        host = self._options.host
        notes = {}
        for reason, note in pull.notes.items():
            causes = self._causes[reason].most_common(_MOST_CAUSES)
            if not causes:
                notes[reason] = f"{host}: {note}"
            elif len(causes) == 1:
                notes[reason] = f"{host} {note}"
            else:
                parts = [f"{cause} ({count:,} of them)" for cause, count in causes]
                notes[reason] = f"{host} {' and '.join(parts)}"
        counts = Counter(pull.failures.values())
        for reason, question in _LIKELY_OURS.items():
            if reason in notes and counts[reason] == self._count:
                notes[reason] += f", for all users: {question}"
        shape = self._template.empty
        if shape and len(pull.rankings) == self._count and not len(pull.rankings.items):
            notes[CoverageReason.EMPTY] = (
                f"{host} gave every user an empty list at the path that `items` gives "
                f"({self._options.items}), in {shape}: is items right?"
            )
        return notes


def _answer_key(options: HttpSourceOptions, k: int) -> str:
    """A text with everything that the answers depend on. It contains secrets."""
    values = {}
    for name, field in type(options).model_fields.items():
        if NOT_IN_HASH not in field.metadata:
            values[name] = getattr(options, name)
    return json.dumps([k, values], default=_reveal)


def _reveal(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else repr(value)
