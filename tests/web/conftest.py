"""A running web server over pages that a test can change."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

import published
from monitor.web.connections import Limits
from monitor.web.server import WebServer


class Health:
    """Health as a test sets it."""

    def __init__(self) -> None:
        self.sick: str | None = None
        self.lacking: str | None = None
        self.release = threading.Event()
        self.release.set()

    def unhealthy(self) -> str | None:
        return self.sick

    def unready(self) -> str | None:
        self.release.wait(10)
        return self.lacking


class Client:
    """Speaks to one server: whole requests, or raw bytes."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self.address = (str(parts.hostname), int(parts.port or 0))

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        with closing(http.client.HTTPConnection(*self.address, timeout=10)) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()

    def open(self, data: bytes = b"") -> socket.socket:
        raw = socket.create_connection(self.address, timeout=10)
        raw.sendall(data)
        return raw


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def many() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def client(health: Health, limits: Limits) -> Iterator[Client]:
    server = WebServer(published.pages(metrics=published.filled().render, health=health), "127.0.0.1", 0, limits=limits)
    server.start()
    try:
        yield Client(server.url)
    finally:
        server.stop()
