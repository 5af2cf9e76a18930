"""A real HTTP server that records every request. It answers with any status, late, in small pieces, too much, or not."""

import json
import socket
import socketserver
import ssl
import threading
import zlib
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.client import parse_headers
from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict

from servers import listening


@cache
def bomb():
    """A gigabyte of blanks and an empty list in a megabyte. After a full flush a deflate block can be repeated."""
    megabyte, deflate = b" " * 2**20, zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    first = deflate.compress(megabyte) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(megabyte) + deflate.flush(zlib.Z_FULL_FLUSH)
    return first + block * 1022 + deflate.compress(megabyte + b"[]") + deflate.flush()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Any
    body: bytes

    def json(self):
        return json.loads(self.body)


class Cut(Exception):  # noqa: N818 - no failure
    """The server is being stopped."""


@dataclass
class Collector:
    """Each of ``replies`` is used once. Then the reply is that of ``respond``, or ``default``."""

    url: str = ""
    requests: Any = field(default_factory=list)
    connections: int = 0
    open: Any = field(default_factory=set)
    replies: Any = field(default_factory=deque)
    default: Any = field(default_factory=lambda: answer(200))
    respond: Any = None
    stopped: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def took(self, request):
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if self.replies:
                return self.replies.popleft()
            return self.default if self.respond is None else self.respond(request)

    def wait_for(self, count, timeout_s=120.0):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s), (
                self.requests
            )
            return list(self.requests)

    def rest(self, seconds):
        if self.stopped.wait(seconds):
            raise Cut


def head(status, headers=None):
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(status, headers=None, body=b""):
    def reply(_collector, sock):
        sock.sendall(head(status, {"Content-Length": str(len(body)), **(headers or {})}) + body)

    return reply


def hang(collector, sock):  # noqa: ARG001 - a reply
    collector.rest(60)


def disconnect(_collector, sock):
    sock.shutdown(socket.SHUT_RDWR)


def send_and_end(data):
    """A reply of these bytes. Then the connection ends."""

    def reply(_collector, sock):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_RDWR)

    return reply


def trickle_headers(collector, sock):
    for byte in head(200, {"X-Long": "x" * 10_000}):
        sock.sendall(bytes([byte]))
        collector.rest(0.1)


def trickle_body(collector, sock):
    sock.sendall(head(200, {"Content-Length": "10000"}))
    for _ in range(10_000):
        sock.sendall(b"x")
        collector.rest(0.1)


def gzip_bomb(_collector, sock):
    sock.sendall(
        head(200, {"Content-Length": str(len(bomb())), "Content-Encoding": "gzip"}) + bomb()
    )


def flood_chunk_size(collector, sock):
    """A chunk's size line that never ends."""
    sock.sendall(head(200, {"Transfer-Encoding": "chunked"}))
    while not collector.stopped.is_set():
        sock.sendall(b"1" * 65536)


def flood_headers(collector, sock):
    """Interim answers without end."""
    while not collector.stopped.is_set():
        sock.sendall(head(100) * 1000)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    # With fewer, a connection of a whole batch of users can be dropped, and is repeated after 1 s.
    request_queue_size = 512
    collector: Collector
    tls: ssl.SSLContext | None = None

    def handle_error(self, request, client_address):
        """A client that went away is what many tests want."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def setup(self):
        if self.server.tls is not None:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self):
        try:
            super().finish()
        finally:
            self.request.close()

    def handle(self):
        collector = self.server.collector
        collector.connections += 1
        collector.open.add(self.request)
        while not collector.stopped.is_set() and (request := self._read()) is not None:
            try:
                collector.took(request)(collector, self.request)
            except (OSError, Cut):
                return

    def _read(self):
        try:
            # A client of TLS sends no line.
            if self.rfile.peek(1)[:1] == b"\x16":  # type: ignore[attr-defined]
                return None
            line = self.rfile.readline().decode("latin-1").split()
            if len(line) != 3:
                return None
            headers = CaseInsensitiveDict(parse_headers(self.rfile).items())
            body = self.rfile.read(int(headers.get("Content-Length", "0")))
        except OSError:
            return None
        return Request(line[0], line[1], headers, body)


@contextmanager
def running_webhook(tls=None):
    """The server's collector, until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.tls = tls
    scheme = "http" if tls is None else "https"
    server.collector = Collector(url=f"{scheme}://127.0.0.1:{server.server_address[1]}")
    with listening(server):
        try:
            yield server.collector
        finally:
            server.collector.stopped.set()
            for connection in list(server.collector.open):  # threads of requests close theirs
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def collector():
    with running_webhook() as collector:
        yield collector
