"""Keeps the HTTP pulls of one run together: for each user all of them ask within a few requests, which one first is drawn.

Being together gives way to all else: a pull is not held up by one that asked for nobody for as long as its request may take (it
hangs, pauses, waits for a turn or was given up) or is through; and only where it is ahead of a pace that takes half of its
deadline, so that no pull has less than the other half because of another one. All here belongs to the thread that pulls.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator
from itertools import chain, islice
from weakref import WeakValueDictionary

from monitor.model.runs import PullRequest
from monitor.sources.http import HttpSourceOptions

WINDOW = 32
"""Most requests that a pull is ahead of another one.

For half as many in a row it is drawn who asks first.
"""
_LOOK_S = 0.002
"""How often one who is held up looks where the others are."""


class Companion:
    """One pull of a run, on its way through ``users`` in the order of all, after those who were ``asked`` before."""

    def __init__(
        self, request: PullRequest, options: HttpSourceOptions, users: Iterator[str], asked: int = 0
    ) -> None:
        self.users, self.asked, self.batch = users, asked, options.batch or 1
        self._begun, self._unasked, self._queue = asked, set[tuple[str, ...]](), asyncio.Lock()
        self._joined_at = self.moved_at = time.monotonic()
        self._all, self._half_s, self.silent_s = (
            len(request.users),
            request.timeout_s / 2,
            options.timeout.total_seconds(),
        )
        self._run = _RUNS.setdefault(request.together, _Run()) if request.together else _Run()
        draw = random.Random(f"{request.together} {len(self._run)}").random  # noqa: S311 - no secret
        self.lots = [
            draw() for _ in range(2 * self._all // WINDOW + 1)
        ]  # of all pulls the one with the least asks first
        self._run.append(self)

    async def take(self) -> tuple[str, ...]:
        """The users of the next request, once it is their turn; none where all were taken."""
        if self._queue.locked() or not self.may_go():
            async with self._queue:
                while not self.may_go():  # noqa: ASYNC110 - an event at each request of the others would cost more
                    await asyncio.sleep(_LOOK_S)
        users = tuple(islice(self.users, self.batch))
        self._begun += len(users)
        self._unasked.add(users)
        return users

    def ask(self, users: tuple[str, ...]) -> None:
        """Tell the others that these users are asked for, or never will be."""
        if users in self._unasked:
            self._unasked.remove(users)
            self.asked, self.moved_at = self.asked + len(users), time.monotonic()

    def halve(self, users: tuple[str, ...]) -> None:
        """Take back these users, who are too many for a request."""
        self.users, self.batch = chain(users, self.users), min(self.batch, len(users) // 2)
        self._begun, self.asked = self._begun - len(users), self.asked - len(users)

    def leave(self) -> None:
        """Hold up nobody any more."""
        self._run.remove(self)

    def may_go(self) -> bool:
        """Whether it is this one's turn."""
        now, begun, end = time.monotonic(), self._begun, min(self._begun + self.batch, self._all)
        awaited = [
            each for each in self._run if each is not self and now - each.moved_at <= each.silent_s
        ]
        behind = [each for each in awaited if each.asked < end]
        if (
            not behind
            or begun >= self._all
            or begun * self._half_s <= self._all * (now - self._joined_at)
        ):
            return True
        batches = [each.batch for each in self._run]
        window = max(WINDOW * min(batches), 2 * max(batches))
        block = 2 * begun // window
        return all(
            begun < each.asked + window and self.lots[block] < each.lots[block] for each in behind
        )


class _Run(list[Companion]):
    """Those that keep together."""


_RUNS = WeakValueDictionary[str, _Run]()
os.register_at_fork(
    after_in_child=_RUNS.clear
)  # they belong to the loop of the process that forked this one
