"""Users a second of the pulls over HTTP, beside requests.Session in 32 threads, and from Redis, beside a GET at a time.

Both ask the same server in the same run, each time on one core; the server has the other core and answers from memory.
Redis is as far away as another machine of a data centre: behind a proxy that holds up every piece, there and back.
"""

import asyncio
import json
import multiprocessing
import os
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from urllib.parse import quote, unquote
from zlib import crc32

import numpy as np
import pandas as pd
import redis
import requests
from requests.adapters import HTTPAdapter

from monitor.model.rankings import Pull
from monitor.model.runs import PullRequest
from monitor.sources import SourceOptions, open_source
from servers.proxy import proxying
from servers.redis import emptied_redis, shared_redis
from servers.saturated import CAPACITY, SERVICE_S, Saturated

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


def _serve(port: Connection, core: int | None, answers: type[asyncio.Protocol]) -> None:
    _pin(core)

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(
            answers, "127.0.0.1", 0, backlog=512
        )
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


@contextmanager
def _apart(work: Callable[..., None], *given: object) -> Iterator[int]:
    """The port that this work, in a process of its own, sends when it is ready."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(theirs, *given), daemon=True
    )
    process.start()
    try:
        if not ours.poll(30):
            msg = "the server did not start"
            raise RuntimeError(msg)
        yield ours.recv()
    finally:
        process.terminate()
        process.join(10)


@contextmanager
def canned_server(core: int | None, answers: type[asyncio.Protocol] = Lists) -> Iterator[str]:
    """Address of a canned recommender in a process of its own."""
    with _apart(_serve, core, answers) as port:
        yield f"http://127.0.0.1:{port}"


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


REDIS_USERS, OTHERS_REDIS_USERS = 20_000, 500
DELAY_S = 0.00025


def _hold_up(port: Connection, target: int) -> None:
    with proxying(target) as proxy:
        proxy.slow(DELAY_S)
        port.send(proxy.port)
        port.recv()


@contextmanager
def distant_redis() -> Iterator[tuple[str, redis.Redis]]:
    """Address of a Redis that holds a list a user, and a client of it."""
    with emptied_redis() as near:
        near.mset(
            {
                f"user-{number}": json.dumps(_list_of(f"user-{number}", "baseline"))
                for number in range(REDIS_USERS)
            }
        )
    with _apart(_hold_up, shared_redis()) as port, redis.Redis(port=port) as client:
        yield f"redis://127.0.0.1:{port}", client


def _with_gets(client: redis.Redis, users: pd.Index) -> int:
    return sum(1 for user in users if json.loads(client.get(user) or b"null"))


SATURATING_USERS = 4000


def _beside_a_neighbour(address: str, work: Callable[[], object]) -> float:
    """Seconds that somebody else waits in the mean who asks one request after the other, while the work is done."""
    took = []
    with ThreadPoolExecutor(1) as threads, requests.Session() as neighbour:
        working = threads.submit(work)
        while not working.done():
            begun = time.perf_counter()
            while not neighbour.get(address, timeout=30).ok:
                pass
            took.append(time.perf_counter() - begun)
        working.result()
    return statistics.fmean(took)


def _saturating(core: int | None, **limits: object) -> tuple[float, float, float]:
    """Of a server that collapses: users answered, of what a neighbour leaves.

    Users refused, of all; the neighbour's wait.
    """
    with canned_server(core, Saturated) as address:
        options = SourceOptions.model_validate(
            {"http": {"url": address + "/{user}", "concurrency": 64} | limits}
        )
        users = pd.Index([f"user-{number}" for number in range(SATURATING_USERS)], dtype="str")
        pulled, request = list[Pull](), PullRequest(users=users, k=10, slot=SLOT, timeout_s=60)
        open_source(options).pull(replace(request, users=users[:1000]))  # in which it learns
        alone_s = _beside_a_neighbour(address, partial(time.sleep, 3))
        begun = time.perf_counter()
        wait_s = _beside_a_neighbour(
            address, lambda: pulled.append(open_source(options).pull(request))
        )
        answered, took = len(pulled[0].rankings), time.perf_counter() - begun
    return (
        answered / took * SERVICE_S / (CAPACITY - 1),
        1 - answered / SATURATING_USERS,
        wait_s / alone_s,
    )


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
    names = (
        "users answered, of what it can",
        "users refused, of all",
        "a neighbour's wait, of that alone",
    )
    figures = (_saturating(server, max_in_flight="adaptive"), _saturating(server))
    for name, held, free in zip(names, *figures, strict=True):
        yield f"server that collapses: {name}", held, "without a limit", free, ""
    with distant_redis() as (address, redis_client), _on_core(client):
        options = {"redis": {"url": address, "type": "string", "key": "{user}"}}
        slow, fast = _medians(
            (partial(_with_gets, redis_client), OTHERS_REDIS_USERS),
            (partial(_ours, options), REDIS_USERS),
        )
    yield "Redis pull", fast[0], "redis-py, a GET at a time", slow[0], "users/s"


def _medians(*works: tuple[Callable[[pd.Index], int], int]) -> list[list[float]]:
    """The rates of each, taking turns."""
    rounds = [[_rates(*work) for work in works] for _ in range(ROUNDS)]
    return np.median(rounds, axis=0).tolist()
