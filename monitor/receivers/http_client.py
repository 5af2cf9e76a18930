"""POST and PUT over HTTP under one deadline, and what the status of the answer means for a delivery."""

from __future__ import annotations

import http.client
import io
import math
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError

from monitor.errors import DeliveryError
from monitor.redaction import origin

MAX_ANSWER_BYTES = 256 * 1024
MAX_BODY_BYTES = 16 * 1024
"""What is kept of an answer's body, to tell a person what it says."""


@dataclass(slots=True)
class _Exchange:
    """One request and its answer: until when, on the monotonic clock, and whether all of it is on its way."""

    ends_at: float
    is_sent: bool = False


_EXCHANGE: ContextVar[_Exchange] = ContextVar("exchange under way")


def _left() -> float:
    left = _EXCHANGE.get().ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Wire(io.RawIOBase):
    """Bytes of one answer as they come, until the deadline or the limit."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock, self._budget = raw, sock, MAX_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any writable buffer
        if self._budget <= 0:
            msg = "answer too large"
            raise OSError(msg)
        self._sock.settimeout(_left())
        count = self._raw.readinto(memoryview(buffer)[: self._budget])
        self._budget -= count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Wire(self.fp.detach(), sock))


class _Punctual(HTTPConnection):
    """A connection whose every step obeys the exchange's deadline; urllib3's own timeouts start anew with each step."""

    response_class = _Response

    def _new_conn(self) -> socket.socket:
        try:
            found = addresses_of(self.host.strip("[]"), self.port or self.default_port, _left())
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        sock = self._connect_to_any(found)
        sock.settimeout(_left())
        return sock

    def _connect_to_any(self, found: _Addresses) -> socket.socket:
        """Try the addresses in turn, each with its share of the time that is left."""
        failure: OSError = OSError("no address")
        for tried, (family, kind, protocol, _, address) in enumerate(found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(_left() / (len(found) - tried))
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.connect(address)
            except OSError as error:
                sock.close()
                failure = error
            else:
                return sock
        raise failure

    def send(self, data: Any) -> None:  # noqa: ANN401 - bytes, as all that this module sends
        exchange = _EXCHANGE.get()
        exchange.is_sent = False
        if self.sock is None:
            self.connect()
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(_left())
            rest = rest[self.sock.send(rest) :]
        exchange.is_sent = True


class _PunctualTLS(_Punctual, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Punctual


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _PunctualTLS


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status and headers of an answer, and the first `MAX_BODY_BYTES` of its body; None where it did not come to its end.

    Whoever shows the body takes care that it echoes no secret.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpClient:
    """One session to one place. Safe to share between threads."""

    def __init__(self, url: str, *, who: str, timeout_s: float, ca_file: str | None = None) -> None:
        self._url, self._who, self._timeout_s = url, f"{who} at {origin(url)}", timeout_s
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = ca_file or True
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter())

    @property
    def who(self) -> str:
        """Name and origin, for messages; no path, query or credentials."""
        return self._who

    def post(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send, and wait for status and headers, and for the body if it comes in time.

        DeliveryError without an answer; ``may_be_known`` from when all had been sent.
        """
        return self._send("POST", body, headers)

    def put(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """The same by PUT."""
        return self._send("PUT", body, headers)

    def _send(self, method: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        exchange = _Exchange(time.monotonic() + self._timeout_s)
        token = _EXCHANGE.set(exchange)
        try:
            return self._exchange(method, body, headers)
        except (requests.RequestException, HTTPError, OSError, UnicodeError) as error:
            failure = DeliveryError(self._explain(error), permanent=False, may_be_known=exchange.is_sent)
        finally:
            _EXCHANGE.reset(token)
        # Raised out here so that no traceback chains to the vendor's error, whose text holds the URL.
        raise failure

    def close(self) -> None:
        """Close the connections kept alive; may be called twice."""
        self._session.close()

    def _exchange(self, method: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        response = self._session.request(
            method,
            self._url,
            data=body,
            headers={"Accept-Encoding": "identity", "User-Agent": "rankwatch", **headers},
            timeout=self._timeout_s,
            allow_redirects=False,
            stream=True,
        )
        with response:
            kept = _read_away(response)
            return HttpAnswer(status=response.status_code, headers=response.headers, body=kept)

    def _explain(self, error: Exception) -> str:
        chain = list(_chain(error))
        if isinstance(error, requests.Timeout) or any(isinstance(link, TimeoutError) for link in chain):
            said = f"did not answer within {self._timeout_s:g} s"
        elif isinstance(error, requests.exceptions.SSLError):
            said = "has no certificate that can be trusted: check the URL's host, or give its authority as ca_file"
        elif any(isinstance(link, (NameResolutionError, UnicodeError, requests.exceptions.InvalidURL)) for link in chain):
            said = "has a host name that cannot be resolved: check the URL"
        elif any(isinstance(link, ConnectionRefusedError) for link in chain):
            said = "refused the connection: check that it runs and listens there"
        else:
            said = "broke the connection or did not speak HTTP"
        return f"{self._who} {said}"


def _read_away(response: requests.Response) -> bytes | None:
    """Read the body so that the connection can be used again; what does not come in time or measure costs the connection."""
    kept = bytearray()
    try:
        for piece in response.raw.stream(8192, decode_content=False):
            kept += piece[: MAX_BODY_BYTES - len(kept)]
    except (HTTPError, OSError):
        response.close()
        return None
    return bytes(kept)


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


_Addresses = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]
"""What ``socket.getaddrinfo`` gives."""

_LOCK = threading.Lock()
_UNDER_WAY: dict[tuple[str, int], Future[_Addresses]] = {}


def addresses_of(host: str, port: int, timeout_s: float) -> _Addresses:
    """TCP addresses of the host in the order in which to try them; TimeoutError in time, socket.gaierror where there are none.

    A resolver that hangs keeps one thread a name, however often that name is asked for.
    """
    with _LOCK:
        looked_up = _UNDER_WAY.get((host, port))
        if looked_up is None:
            looked_up = _UNDER_WAY[host, port] = Future()
            threading.Thread(target=_look_up, args=(host, port, looked_up), name="resolve", daemon=True).start()
    return looked_up.result(max(timeout_s, 0.0))


def _look_up(host: str, port: int, looked_up: Future[_Addresses]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
        looked_up.set_exception(error)
    else:
        looked_up.set_result(found)
    finally:
        with _LOCK:
            del _UNDER_WAY[host, port]


_ADVICE = {
    401: "check its credentials",
    403: "check its credentials",
    404: "check its URL",
    405: "check its URL",
    410: "check its URL",
    413: "the message is too large for it",
}
_LATER = frozenset({408, 421, 425, 429})
_OF_MESSAGE = frozenset({400, 413, 422})
"""What is said of a message and not of who sends it where."""
_REFUSED = 400
_BROKEN = 500


def require_accepted(answer: HttpAnswer, *, who: str, now: datetime, said: str | None = None, is_bounded: bool = False) -> None:
    """Return if the receiver took the message (2xx), else DeliveryError.

    Permanent: 4xx, which says that the same message will be refused again, but for 408, 421, 425 and 429. Not permanent:
    these, 5xx, after which the message may be known, and redirects, which are never followed. ``Retry-After`` is handed on.
    ``said``: what its body says, fit to be shown. ``is_bounded``: the message is as long however much it tells, so that a part
    of it would be refused no less.
    """
    status = answer.status
    if is_accepted(answer):
        return
    is_permanent = _REFUSED <= status < _BROKEN and status not in _LATER
    advice = _ADVICE.get(status, "it refuses this message" if is_permanent else "it will be tried again")
    if 300 <= status < _REFUSED:  # noqa: PLR2004 - likewise
        advice = "redirects are not followed: write the final URL"
    msg = f"{who} answered {status_name(answer)}: {advice}{f' ({said})' if said else ''}"
    raise DeliveryError(
        msg,
        permanent=is_permanent,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now),
        may_be_known=status >= _BROKEN,
        of_message=status in _OF_MESSAGE and not is_bounded,
    )


def is_accepted(answer: HttpAnswer) -> bool:
    """Whether the status says that the message was taken."""
    return 200 <= answer.status < 300  # noqa: PLR2004 - the statuses themselves are the clearest names


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as such or as a date; None when there is none to be read."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def status_name(answer: HttpAnswer) -> str:
    """Its status with the words that belong to it."""
    try:
        return f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        return str(answer.status)
