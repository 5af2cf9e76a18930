"""Keeps the HTTP pulls of one run together.

All pulls of a run request the same user within a few requests. A random draw decides which pull is
first. A pull waits for another pull only if both conditions are met:

- The other pull is not finished, and has sent a request within the timeout of a request. So no pull
  waits for a pull that hangs, pauses, waits for its turn or was given up.
- The waiting pull is so fast that it needs less than half of the time until its deadline. So it
  loses at most half of this time by waiting.

Only the thread that pulls uses this module.
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
"""How many requests a pull may be ahead of another pull.

One draw decides the order of half as many requests.
"""
_CHECK_S = 0.002
"""How long a waiting pull waits between two checks."""


class Companion:
    """One pull of a run. It counts the users that the pull has taken and requested.

    ``users`` are in the order of all pulls of the run. ``requested`` is the number of users before
    them that an earlier attempt has answered.
    """

    def __init__(
        self,
        request: PullRequest,
        options: HttpSourceOptions,
        users: Iterator[str],
        requested: int = 0,
    ) -> None:
        self.users = users
        self.requested = requested
        self.batch = options.batch or 1
        self._taken = requested
        self._unrequested = set[tuple[str, ...]]()
        self._queue = asyncio.Lock()
        self._joined_at = self.moved_at = time.monotonic()
        self._count = len(request.users)
        self._half_s = request.timeout_s / 2
        self.silent_s = options.timeout.total_seconds()
        self._run = _Run()
        if request.together:
            self._run = _RUNS.setdefault(request.together, self._run)
        draw = random.Random(f"{request.together} {len(self._run)}").random  # noqa: S311
        # For each half of a window, the pull with the lowest random number is first.
        self.lots = [draw() for _ in range(2 * self._count // WINDOW + 1)]
        self._run.append(self)

    async def take(self) -> tuple[str, ...]:
        """Wait for this pull's turn. Returns the users of its next request, none at the end."""
        if self._queue.locked() or not self.may_go():
            async with self._queue:
                # Waiting for an event at each request of the other pulls would cost more.
                while not self.may_go():  # noqa: ASYNC110
                    await asyncio.sleep(_CHECK_S)
        users = tuple(islice(self.users, self.batch))
        self._taken += len(users)
        self._unrequested.add(users)
        return users

    def mark_requested(self, users: tuple[str, ...]) -> None:
        """Record that the request for these users was sent, or that it will never be sent."""
        if users in self._unrequested:
            self._unrequested.remove(users)
            self.requested += len(users)
            self.moved_at = time.monotonic()

    def halve(self, users: tuple[str, ...]) -> None:
        """Put back these users and halve the batch, because they are too many for one request."""
        self.users = chain(users, self.users)
        self.batch = min(self.batch, len(users) // 2)
        self._taken -= len(users)
        self.requested -= len(users)

    def leave(self) -> None:
        """End this pull. Other pulls no longer wait for it."""
        self._run.remove(self)

    def may_go(self) -> bool:
        """Whether it is this pull's turn."""
        now = time.monotonic()
        taken = self._taken
        end = min(taken + self.batch, self._count)
        behind = []
        for pull in self._run:
            is_moving = now - pull.moved_at <= pull.silent_s
            if pull is not self and is_moving and pull.requested < end:
                behind.append(pull)
        if not behind or taken >= self._count:
            return True
        # A pull does not wait if it is slower than a pace that takes half of its time.
        if taken * self._half_s <= self._count * (now - self._joined_at):
            return True
        batches = [pull.batch for pull in self._run]
        window = max(WINDOW * min(batches), 2 * max(batches))
        block = 2 * taken // window
        return all(
            taken < pull.requested + window and self.lots[block] < pull.lots[block]
            for pull in behind
        )


class _Run(list[Companion]):
    """The pulls of one run."""


_RUNS = WeakValueDictionary[str, _Run]()
# Runs belong to one event loop. A forked process has another event loop.
os.register_at_fork(after_in_child=_RUNS.clear)
