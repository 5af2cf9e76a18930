"""Sends one HTTP request before one deadline.

The library requests only prepares the request. It cannot send it before a deadline, because its
time-outs begin again with each byte.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from urllib.parse import urlsplit

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import BaseHTTPResponse
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from monitor import USER_AGENT
from monitor.boundary.deadline import Deadline, interrupt_when_given_up
from monitor.boundary.link_local import refuse_link_local
from monitor.boundary.web_proxy import WebProxy, refuse_link_local_behind

VENDOR_ERRORS = (requests.RequestException, HTTPError, HTTPException, OSError, UnicodeError)
"""The errors that requests, urllib3 and the standard library raise if there is no answer."""
_PIECE_BYTES = 16 * 1024
KEPT_BODY_BYTES = 16 * 1024
"""How many bytes of the beginning of a body are kept."""
_TOO_LARGE_BYTES = 256 * 1024
"""A body with more bytes is not read to its end."""


@dataclass(slots=True, kw_only=True)
class HttpExchange:
    """One request over a new connection. One thread sends it while another thread waits."""

    url: str
    headers: Mapping[str, str]
    content: bytes
    ca_file: str | None
    proxy: WebProxy | None
    deadline: Deadline
    is_connected: bool = False
    is_sent: bool = False  # whether the whole content was sent
    head: tuple[int, Mapping[str, str]] | None = None  # None until status and headers arrive
    body: bytes | None = None  # the start of the body; None if it is incomplete

    def perform(self) -> None:
        """Send the request and read the answer.

        Run this in a background thread. The connection is closed as soon as no thread waits for it.
        """
        request = requests.Request(
            "POST", self.url, headers=self.headers, data=self.content
        ).prepare()
        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **request.headers}
        target = request.path_url
        if self.proxy is not None and urlsplit(self.url).scheme == "http":
            target = str(request.url)
            headers |= self.proxy.headers
        with closing(self._connection()) as connection:
            # Each address of the host gets half of the remaining time. So if one address does not
            # answer, there is time for the next.
            connection.timeout = self.deadline.remaining_s / 2
            if self.proxy is not None:
                refuse_link_local_behind(self.url)
            connection.connect()
            refuse_link_local(connection.sock.getpeername()[0])  # nothing has been sent yet
            self.is_connected = True
            # Keep the socket, because the connection drops it if the answer ends the connection.
            sock = connection.sock
            with interrupt_when_given_up(partial(sock.shutdown, socket.SHUT_RDWR)):
                connection.timeout = self.deadline.remaining_s
                connection.request(
                    "POST",
                    target,
                    self._pieces(),
                    headers,
                    preload_content=False,
                    decode_content=False,
                )
                with closing(connection.getresponse()) as response:
                    # headers that were cut at the deadline look complete
                    self.deadline.require_time()
                    self.head = response.status, response.headers
                    self.body = _read_body(response, self.deadline)

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self.content), _PIECE_BYTES):
            yield self.content[start : start + _PIECE_BYTES]
        self.is_sent = True

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        host_and_port = (host, parts.port)
        if self.proxy is not None:
            host_and_port = (self.proxy.host, self.proxy.port)
        if parts.scheme != "https":
            return HTTPConnection(*host_and_port)
        connection = HTTPSConnection(
            *host_and_port, ca_certs=self.ca_file or DEFAULT_CA_BUNDLE_PATH
        )
        if self.proxy is not None:
            connection.set_tunnel(host, parts.port or 443, self.proxy.headers)
        return connection


def _read_body(raw: BaseHTTPResponse, deadline: Deadline) -> bytes | None:
    """Return the beginning of a body, or None if the body is late, too large or broken."""
    beginning = bytearray()
    size = 0
    try:
        while piece := raw.read1(8192, decode_content=False):
            beginning += piece[: KEPT_BODY_BYTES - len(beginning)]
            size += len(piece)
            if size > _TOO_LARGE_BYTES or deadline.is_past:
                return None
    except (HTTPError, HTTPException, OSError):
        return None
    # A body that was cut at the deadline can look complete.
    return None if deadline.is_past else bytes(beginning)
