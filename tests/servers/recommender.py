"""A recommender over real sockets that answers as told, rightly or with a fault, one behaviour a user.

    with running_recommender() as recommender:
        recommender.behaviour["u7"] = "bomb"

Fixture: ``recommender``. ``BEHAVIOURS`` names everything it can do.
"""

import asyncio
import json
import re
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from monitor.sources.http.hosts import HOSTS

MEGABYTE = b" " * 2**20
GIGABYTE = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came in."""

    user: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    attempt: int


@dataclass(slots=True, kw_only=True)
class Recommender:
    """What it answers, and what it was asked. A list not given is ``[0, ..., k-1]``."""

    lists: dict[str, object] = field(default_factory=dict)
    behaviour: dict[str, str] = field(default_factory=dict)
    otherwise: str = "ok"
    asked: list[Asked] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    port: int = 0
    scheme: str = "http"
    most_at_once: int = 0
    at_once: int = 0
    connections: int = 0
    serving: set[object] = field(default_factory=set, repr=False)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}/recs/{{user}}?n={{k}}"

    def list_of(self, asked):
        count = re.search(r"[?&]n=(\d+)", asked.target)
        return self.lists.get(asked.user, list(range(int(count[1]) if count else 10)))

    async def serve(self, reader, writer):
        """One connection, kept alive until either side ends it."""
        # The loop forgets a connection whose client has ended it while we do not answer: without
        # this it would be collected.
        self.serving.add(asyncio.current_task())
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while asked := await self._read(reader):
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    await BEHAVIOURS[self.behaviour.get(asked.user, self.otherwise)](
                        self, asked, writer
                    )
                    await writer.drain()
                finally:
                    self.at_once -= 1
                if writer.is_closing():
                    break
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        self.serving.discard(asyncio.current_task())

    async def _read(self, reader):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        user = unquote(target.split("?")[0].split("/")[2])
        self.attempts[user] += 1
        asked = Asked(
            user=user,
            method=method,
            target=target,
            headers=headers,
            body=body,
            attempt=self.attempts[user],
        )
        self.asked.append(asked)
        return asked


Behaviour = Callable[[Recommender, Asked, asyncio.StreamWriter], Awaitable[None]]


def _answer(writer, body, status="200 OK", length=None, **more):
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if length is None else length),
    }
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)


def _json(make):
    async def behave(self, asked, writer):
        _answer(writer, json.dumps(make(self.list_of(asked), asked)).encode())

    return behave


def _cached(*, heeds_clients):
    """Begin later in the list with each answer, behind a cache, which asks again where it ``heeds_clients`` that say so."""

    async def behave(self, asked, writer):
        told = {each.headers.get("cache-control") for each in self.asked if each.user == asked.user}
        is_hit = asked.attempt > 1 and not (heeds_clients and "no-cache, no-store" in told)
        items = list(range(10))[0 if is_hit else asked.attempt - 1 :]
        _answer(writer, json.dumps(items).encode(), X_Cache="HIT" if is_hit else "MISS")

    return behave


def _bytes(body, status="200 OK", length=None, **more):
    async def behave(_, __, writer):
        _answer(writer, body, status, length, **more)

    return behave


def _until(attempt, fault):
    """Behave badly up to this attempt, well from then on."""

    async def behave(self, asked, writer):
        await (fault if asked.attempt <= attempt else BEHAVIOURS["ok"])(self, asked, writer)

    return behave


async def _slow(_, __, writer):
    await writer.wait_closed()


async def _trickle(_, __, writer):
    """One byte now and then: no gap between bytes is ever long."""
    _answer(writer, b"[", length=1_000_000)
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def _huge(_self, _asked, writer):
    """Stream a gigabyte in chunks, of no length told."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(GIGABYTE // len(MEGABYTE)):
        writer.write(b"100000\r\n" + MEGABYTE + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")


def _bomb():
    """A gigabyte of blanks and an empty list in a megabyte: after a full flush a deflate block can be repeated."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = deflate.compress(MEGABYTE) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(MEGABYTE) + deflate.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1022 + deflate.compress(MEGABYTE + b"[]") + deflate.flush()


async def _cut(self, asked, writer):
    body = json.dumps(self.list_of(asked)).encode()
    _answer(writer, body[: len(body) // 2], length=len(body))
    await writer.drain()
    writer.close()


async def _hang_up(_, __, writer):
    writer.close()


async def _no_http(_, __, writer):
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    await writer.drain()
    writer.close()


async def _gzip(self, asked, writer):
    _answer(
        writer,
        zlib.compress(json.dumps(self.list_of(asked)).encode(), wbits=zlib.MAX_WBITS | 16),
        Content_Encoding="gzip",
    )


async def _chunked(self, asked, writer):
    """The right answer, a few bytes a packet."""
    body = json.dumps(self.list_of(asked)).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(body), 7):
        part = body[start : start + 7]
        writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(b"0\r\n\r\n")


BEHAVIOURS: dict[str, Behaviour] = {
    "ok": _json(lambda items, _: items),
    "named": _json(lambda items, asked: {"user": asked.user, "items": items}),
    "cached": _cached(heeds_clients=True),
    "cached_for_all": _cached(heeds_clients=False),
    "wrong_user": _json(lambda items, _: {"user": "somebody-else", "items": items}),
    "gzip": _gzip,
    "chunked": _chunked,
    "slow": _slow,
    "trickle": _trickle,
    "huge": _huge,
    "huge_declared": _bytes(b"[", length=GIGABYTE),
    "bomb": _bytes(_bomb(), Content_Encoding="gzip"),
    "cut_gzip": _bytes(zlib.compress(b"[1, 2, 3]", wbits=31)[:-4], Content_Encoding="gzip"),
    "deep": _bytes(b"[" * 200_000),
    "digits": _bytes(b"[" + b"9" * 10_000 + b"]"),
    "cut": _cut,
    "hang_up": _hang_up,
    "no_http": _no_http,
}
for _name, _answer_of in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items():
    BEHAVIOURS[_name] = _bytes(_answer_of.pop("body").encode("latin-1"), **_answer_of)
BEHAVIOURS["unavailable_twice"] = _until(2, BEHAVIOURS["unavailable"])
BEHAVIOURS["limited_once"] = _until(1, _bytes(b"{}", "429 Too Many Requests", Retry_After="1"))


@contextmanager
def running_recommender(tls=None):
    """Start it on a random loopback port in a thread of its own.

    At the end every connection is closed.
    """
    recommender = Recommender(scheme="https" if tls else "http")
    loop, is_up, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve():
        server = await asyncio.start_server(recommender.serve, "127.0.0.1", 0, ssl=tls, backlog=512)
        recommender.port = server.sockets[0].getsockname()[1]
        is_up.set()
        await stop.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)  # let the transports see that they are closed

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert is_up.wait(60), "the recommender did not start"
    try:
        yield recommender
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
        HOSTS.pop(
            f"127.0.0.1:{recommender.port}", None
        )  # another server may get the port, and be free of its pauses


@pytest.fixture
def recommender():
    with running_recommender() as server:
        yield server
