"""Sends one HTTP request before one deadline.

The package requests cannot do this: its time-outs begin again with each byte.
"""

import io
import socket
from collections.abc import Mapping
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
from monitor.deadline import Deadline, interrupt_when_given_up
from monitor.link_local import refuse_link_local
from monitor.web_proxy import WebProxy, refuse_link_local_behind

VENDOR_ERRORS = (requests.RequestException, HTTPError, HTTPException, OSError, UnicodeError)
"""The errors of requests, urllib3 and the standard library if there is no answer."""
_MAX_ANSWER_BYTES = 256 * 1024
MAX_BODY_BYTES = 16 * 1024
"""How many bytes of an answer's body are stored to show them."""


class RequestBody(io.BytesIO):
    """The body of a request. Its end is read only after its last piece was sent."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.is_sent = False

    def read(self, size: int | None = -1, /) -> bytes:
        """The next piece of the body."""
        piece = super().read(size)
        self.is_sent = not piece
        return piece


@dataclass(slots=True, kw_only=True)
class HttpExchange:
    """One request over a new connection. One thread sends it while another thread waits."""

    url: str
    headers: Mapping[str, str]
    body: RequestBody
    ca_file: str | None
    proxy: WebProxy | None = None
    deadline: Deadline
    is_connected: bool = False
    head: tuple[int, Mapping[str, str]] | None = None  # status and headers, None until they arrive
    content: bytes | None = None  # the start of the body, None unless the whole body arrived

    def perform(self) -> None:
        """Send the request and read the answer.

        This runs in a background thread. The connection is closed when no thread waits for it.
        """
        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **self.headers}
        # requests would send an empty stream with chunked encoding.
        data = self.body if self.body.getbuffer() else None
        request = requests.Request("POST", self.url, headers=headers, data=data).prepare()
        with closing(self._connection()) as connection:
            # Each address of the host gets half of the time. So time is left if one is dead.
            connection.timeout = self.deadline.remaining_s / 2
            if self.proxy is not None:
                refuse_link_local_behind(self.url)
            connection.connect()
            refuse_link_local(connection.sock.getpeername()[0])  # nothing has been sent yet
            self.is_connected = True
            # The connection drops its socket if the answer announces the end of the connection.
            sock = connection.sock
            with interrupt_when_given_up(partial(sock.shutdown, socket.SHUT_RDWR)):
                connection.timeout = self.deadline.remaining_s
                headers = dict(request.headers)
                target = request.path_url
                if self.proxy is not None and not isinstance(connection, HTTPSConnection):
                    target = str(request.url)
                    headers = headers | self.proxy.headers
                connection.request(
                    "POST",
                    target,
                    request.body,
                    headers,
                    preload_content=False,
                    decode_content=False,
                )
                with closing(connection.getresponse()) as response:
                    self.deadline.require_time()  # a cut answer looks like complete headers
                    self.head = response.status, response.headers
                    self.content = read_answer(response, self.deadline)

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        proxy = self.proxy
        host = parts.hostname or ""
        port = parts.port
        if proxy is not None:
            host = proxy.host
            port = proxy.port
        if parts.scheme != "https":
            return HTTPConnection(host, port)
        connection = HTTPSConnection(host, port, ca_certs=self.ca_file or DEFAULT_CA_BUNDLE_PATH)
        if proxy is not None:
            connection.set_tunnel(parts.hostname or "", parts.port or 443, proxy.headers)
        return connection


def read_answer(raw: BaseHTTPResponse, deadline: Deadline) -> bytes | None:
    """The beginning of a body. None if the body is late, too large or broken."""
    beginning = bytearray()
    size = 0
    try:
        while piece := raw.read1(8192, decode_content=False):
            beginning += piece[: MAX_BODY_BYTES - len(beginning)]
            size += len(piece)
            if size > _MAX_ANSWER_BYTES or deadline.is_past:
                return None
    except (HTTPError, HTTPException, OSError):
        return None
    # A body that was cut at the deadline can look complete.
    return None if deadline.is_past else bytes(beginning)
