"""One HTTP request over requests, by a connection that another thread may cut.

The adapter that requests brings cannot do without this: its time-outs begin anew with each byte, and nothing can end it before
the headers have come. Here the connection's socket is at hand, and is shut down at the deadline.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import HTTPResponse
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError

from monitor.deadline import Deadline, OverdueError

VENDOR_ERRORS = (requests.RequestException, HTTPError, HTTPException, OSError, UnicodeError)
"""What requests, urllib3 and the standard library raise when there is no answer."""
_MAX_ANSWER_BYTES = 256 * 1024
MAX_BODY_BYTES = 16 * 1024
"""What is kept of an answer's body, to be shown to people."""


class RequestBody(io.BytesIO):
    """The body of a request, which knows whether all of it was sent: its end is read once its last piece was handed over."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.is_sent = False

    def read(self, size: int | None = -1, /) -> bytes:
        """The next piece."""
        piece = super().read(size)
        self.is_sent = not piece
        return piece


class Transport(BaseAdapter):
    """Transport adapter of requests over one connection, kept alive from request to request."""

    def __init__(self, url: str, ca_file: str | None) -> None:
        super().__init__()
        parts, authorities = urlsplit(url), ca_file or DEFAULT_CA_BUNDLE_PATH
        is_tls, host = parts.scheme == "https", parts.hostname or ""
        self._connection = (
            HTTPSConnection(host, parts.port, ca_certs=authorities) if is_tls else HTTPConnection(host, parts.port)
        )
        self._lock = threading.Lock()
        self._is_cut = self._is_done = False
        self._sock: socket.socket | None = None  # the connection forgets its own once it knows that the answer ends it

    def send(self, request: requests.PreparedRequest, *_: object, timeout: Deadline, **__: object) -> requests.Response:  # type: ignore[override]  # one deadline in place of two time-outs
        """Send the request and wait for status and headers. OverdueError when it was cut before it was sent."""
        connection, self._is_done = self._connection, False
        if not connection.is_connected:  # or no longer
            connection.close()
            # Half the time for each address of the name, so that one that is dead leaves time for another.
            connection.timeout = timeout.remaining_s / 2
            connection.connect()
        self._sock = connection.sock
        if self._is_cut:
            raise OverdueError
        connection.timeout = timeout.remaining_s
        self._sock.settimeout(connection.timeout)
        method, headers = request.method or "", dict(request.headers)
        connection.request(method, request.path_url, request.body, headers, preload_content=False, decode_content=False)
        return HTTPAdapter().build_response(request, connection.getresponse())

    def cut(self) -> None:
        """End what is under way; its thread sees a closed connection."""
        with self._lock:
            self._is_cut = True
            if self._is_done:
                self.close()
            elif self._sock is not None:
                with suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)

    def finish(self, *, keep: bool) -> None:
        """Nothing is under way any more: close the connection, or keep it for the next request."""
        with self._lock:
            self._is_done = True
            if self._is_cut or not keep:
                self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def prepare(method: str, url: str, headers: Mapping[str, str], body: RequestBody) -> requests.PreparedRequest:
    """The request with these headers; nothing of an answer will be compressed."""
    own = {"Accept-Encoding": "identity", "User-Agent": "rankwatch"}
    data = body if body.getbuffer() else None  # an empty stream would be sent in chunks
    return requests.Request(method, url, headers={**own, **headers}, data=data).prepare()


def read_answer(raw: HTTPResponse, deadline: Deadline) -> bytes | None:
    """The beginning of a body that is read to its end as it comes; None where it is too late, too large or broken."""
    kept, size = bytearray(), 0
    try:
        while piece := raw.read1(8192, decode_content=False):
            kept += piece[: MAX_BODY_BYTES - len(kept)]
            size += len(piece)
            if size > _MAX_ANSWER_BYTES or deadline.is_past:
                return None
    except (HTTPError, HTTPException, OSError):
        return None
    return bytes(kept)


def failure_reason(error: Exception, timeout_s: float) -> str:
    """What kept an answer from coming, and what to do; nothing of the URL."""
    chain = list(_chain(error))
    if isinstance(error, OverdueError) or any(isinstance(link, TimeoutError) for link in chain):
        return f"did not answer within {timeout_s:g} s"
    if any(isinstance(link, ssl.SSLError) for link in chain):
        return "has no certificate that can be trusted: check the URL's host, or give its authority as ca_file"
    if any(isinstance(link, (NameResolutionError, UnicodeError, requests.exceptions.InvalidURL)) for link in chain):
        return "has a host name that cannot be resolved: check the URL"
    if any(isinstance(link, ConnectionRefusedError) for link in chain):
        return "refused the connection: check that it runs and listens there"
    return "broke the connection or did not speak HTTP"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what lies beneath it, as requests and urllib3 wrap it."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        link = waiting.pop()
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
