"""Users a second of the pulls over HTTP, beside requests.Session in 32 threads.

Both ask the same server in the same run, each time on one core; the server has the other core and answers from memory.
"""

import asyncio
import json
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from urllib.parse import quote, unquote
from zlib import crc32

import numpy as np
import pandas as pd
import requests
from requests.adapters import HTTPAdapter

from monitor.model.runs import PullRequest
from monitor.sources import SourceOptions, open_source

USERS = 6000
OTHERS_USERS = 2000
BATCH, BATCHED_USERS = 64, 60_000
THREADS = 32
ROUNDS = 3
SLOT = datetime(2024, 1, 1, tzinfo=UTC)


class Lists(asyncio.Protocol):
    """Ten items for each user, some the same in both arms.

    Many users' below ``/many``, no answer below ``/hanging``.
    """

    answers: dict[bytes, bytes] = {}  # noqa: RUF012 - one process, one loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._rest = transport, b""

    def data_received(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in whole:
            path = request.split(b" ", 2)[1]
            if not path.startswith(b"/hanging"):
                self._transport.write(self.answers.get(path) or self._answer(path))

    def _answer(self, path: bytes) -> bytes:
        _, what, arm, users = unquote(path.decode()).partition("?")[0].split("/")
        lists = [_list_of(user, arm) for user in users.split(",")]
        body = json.dumps(lists if what == "many" else lists[0]).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.answers[path] = head.encode() + body
        return self.answers[path]


def _list_of(user: str, arm: str) -> list[int]:
    first = crc32(user.encode()) % 5000
    return [
        first + place + 5000 * (arm == "candidate" and crc32(f"{user}{place}".encode()) % 3 == 0)
        for place in range(10)
    ]


def _serve(port: Connection, core: int | None) -> None:
    _pin(core)

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Lists, "127.0.0.1", 0, backlog=512)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


@contextmanager
def canned_server(core: int | None) -> Iterator[str]:
    """Address of a canned recommender in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    spawning = multiprocessing.get_context("spawn")
    process = spawning.Process(target=_serve, args=(theirs, core), daemon=True)
    process.start()
    try:
        if not ours.poll(30):
            msg = "the server did not start"
            raise RuntimeError(msg)
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join(10)


@contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    before = os.sched_getaffinity(0) if core is not None else None
    _pin(core)
    try:
        yield
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)


def _ours(options: object, users: pd.Index) -> int:
    source = open_source(SourceOptions.model_validate(options))
    return len(source.pull(PullRequest(users=users, k=10, slot=SLOT, timeout_s=120)).rankings)


def _theirs(url: str, users: pd.Index) -> int:
    """The plain way to do it: a session a thread, the answer checked and read as JSON."""
    own = threading.local()

    def ask(user: str) -> list[int]:
        if not hasattr(own, "session"):
            own.session = requests.Session()
            own.session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=1))
        answer = own.session.get(
            re.sub(r"\{user\}", quote(user, safe=""), url).replace("{k}", "10"), timeout=5
        )
        answer.raise_for_status()
        items: list[int] = answer.json()
        return items

    with ThreadPoolExecutor(THREADS) as threads:
        return sum(1 for items in threads.map(ask, users) if items)


def _rates(pull: Callable[[pd.Index], int], count: int) -> tuple[float, float]:
    """Users a second, and users a second of CPU time: the second also holds on a machine that others load."""
    users = pd.Index([f"user-{number}" for number in range(count)], dtype="str")
    started, used = time.perf_counter(), time.process_time()
    found = pull(users)
    took, used = time.perf_counter() - started, time.process_time() - used
    if found != count:
        msg = f"{found} of {count} lists came back: the figure would be wrong"
        raise RuntimeError(msg)
    return count / took, count / used


def run() -> Iterator[tuple[str, float, str, float, str]]:
    """Yield (what, ours, other, theirs, unit); medians of three rounds, both in each round."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    client, server = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    with canned_server(server) as address, _on_core(client):
        url = f"{address}/lists/baseline/{{user}}?n={{k}}"
        many = {"url": f"{address}/many/baseline/{{users}}?n={{k}}", "batch": BATCH}
        alone = partial(_ours, {"http": {"url": url}})
        _rates(alone, USERS)
        theirs, ours, batched = _medians(
            (partial(_theirs, url), OTHERS_USERS),
            (alone, USERS),
            (partial(_ours, {"http": many}), BATCHED_USERS),
        )
    for place, unit in enumerate(("users/s", "users/CPU s")):
        other = ("requests, 32 threads", theirs[place], unit)
        yield "HTTP pull, one client core", ours[place], *other
        yield f"HTTP pull, one client core, {BATCH} users a request", batched[place], *other


def _medians(*works: tuple[Callable[[pd.Index], int], int]) -> list[list[float]]:
    """The rates of each, taking turns."""
    rounds = [[_rates(*work) for work in works] for _ in range(ROUNDS)]
    return np.median(rounds, axis=0).tolist()
