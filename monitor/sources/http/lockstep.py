"""Keeps the HTTP pulls of one run together.

All pulls of a run request the same user within a few requests. A draw decides which one is first.
A pull waits for another one only if both conditions are met:

- The other one has sent a request within the timeout of a request, and is not finished. So nobody
  waits for a pull that hangs, pauses, waits for its turn or was given up.
- It is ahead of a pace that takes half of its deadline. So other pulls cost it at most that half.

Everything here belongs to the thread that pulls.
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

A draw is for half as many requests.
"""
_CHECK_S = 0.002
"""Time between two checks of a pull that waits."""


class Companion:
    """One pull of a run, and how many users it has taken and requested.

    ``users`` are in the order that all pulls of the run share. ``requested`` users before them were
    answered by an earlier attempt.
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
        # For each half of a window the pull with the lowest number is first.
        self.lots = [draw() for _ in range(2 * self._count // WINDOW + 1)]
        self._run.append(self)

    async def take(self) -> tuple[str, ...]:
        """Wait for this pull's turn, and return the users of its next request. Empty at the end."""
        if self._queue.locked() or not self.may_go():
            async with self._queue:
                # An event at each request of the other pulls would cost more.
                while not self.may_go():  # noqa: ASYNC110
                    await asyncio.sleep(_CHECK_S)
        users = tuple(islice(self.users, self.batch))
        self._taken += len(users)
        self._unrequested.add(users)
        return users

    def mark_requested(self, users: tuple[str, ...]) -> None:
        """Record that the request for these users was sent, or never will be."""
        if users in self._unrequested:
            self._unrequested.remove(users)
            self.requested += len(users)
            self.moved_at = time.monotonic()

    def halve(self, users: tuple[str, ...]) -> None:
        """Put back these users, and halve the batch: they are too many for one request."""
        self.users = chain(users, self.users)
        self.batch = min(self.batch, len(users) // 2)
        self._taken -= len(users)
        self.requested -= len(users)

    def leave(self) -> None:
        """End this pull: no other one waits for it."""
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
        # Whether the share of its users is below the share of half of its deadline
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
# They belong to the event loop. A forked process has another one.
os.register_at_fork(after_in_child=_RUNS.clear)
