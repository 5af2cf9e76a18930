"""The web server: an ASGI application in a thread of its own, behind a check of credentials and limits; signals are others'."""

import base64
import binascii
import errno
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from threading import Thread

import uvicorn
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.deadline import Deadline
from monitor.errors import ConfigError, MonitorError
from monitor.web.access import Access, Credentials, client_name
from monitor.web.connections import CONNECTION, Connection, Front, Limits

_BACKLOG = 128  # asyncio accepts as many in one go, before any can be made to give way
_START_S = 10.0
_POLL_S = 0.005
_LAST_PORT = 65535
_EVERYWHERE = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - only where the caller asks for it
_ADVICE = {
    errno.EADDRINUSE: (
        "another program (another rankwatch?) listens there; stop it or choose another port"
    ),
    errno.EACCES: "this user may not; choose a port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose one of its own",
}

# Answered without credentials, which probes can hardly send; strangers get yes or no, and no
# reason.
PROBES = frozenset({"/-/healthy", "/-/ready"})

# Answered under any name in `Host`: monitoring and deployments ask by the names of services, and
# these show no users.
ANY_HOST = re.compile(r"/-/healthy|/-/ready|/metrics|/api/v1/gate/[^/]*")

# Answered only where the web configuration file asks for credentials: without them requests must
# not change anything.
RELOAD = "/-/reload"

IS_AUTHENTICATED = "rankwatch.is_known"
"""In the scope of a request: whether the client may read everything."""

USER = "rankwatch.user"
"""In the scope of a request: the name of who sent it, None where nobody has to authenticate, who then may change nothing."""
MUST_AUTHENTICATE = "a web configuration file with basic_auth_users or verified client certificates"

_WRONG_HOST = (
    "this server does not answer under the name in the header Host: use its IP address, localhost, "
    "or the name in listen or external_url; or ask for passwords in web_config_file"
)
_MOST_HEADERS = 100
_MOST_WAITING = 32
_MOST_WAITING_OF_ONE = 4
PLAIN_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class WebServer:
    """Serves ``app`` to whom ``access`` admits, until it is stopped for good.

    An empty host is every address. Thread-safe.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        access: Access | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._host = host or _EVERYWHERE
        self._port = port
        limits = limits or Limits()
        self._front = Front(limits=limits, access=access or Access())
        self._guard = RequestGuard(app, self._front.access, header_bytes=limits.header_bytes)
        self._server = uvicorn.Server(_configuration(self._guard, self._front))
        self._thread: Thread | None = None

    def start(self) -> None:
        """Listen and serve.

        Returns when a request would be answered. ConfigError when the address cannot be had.
        """
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        self._thread = Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        self._thread.start()
        deadline = Deadline.after(_START_S)
        while not self._server.started:
            if deadline.is_past:
                self.stop()
                listener.close()
                msg = (
                    f"the web server on {_address(self._host, self._port)} did not start "
                    f"within {_START_S:g} s"
                )
                raise MonitorError(msg, permanent=False)
            time.sleep(_POLL_S)

    @property
    def url(self) -> str:
        """Where it serves, without a slash at the end; with the port really taken once started."""
        return f"{self._front.access.scheme}://{_address(self._host, self._port)}"

    @property
    def access(self) -> Access:
        """The access in force."""
        return self._front.access

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def follow(self, access: Access) -> None:
        """Put this access in force.

        Connections made under another encryption end once they have answered.
        """
        is_same = access.tls == self._front.access.tls
        self._front.access = self._guard.access = access
        if not is_same:
            self._front.end_connections()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Close the door, let answers under way finish, return after ``timeout_s`` at the latest.

        May be called twice.
        """
        self._server.config.timeout_graceful_shutdown = max(1, int(timeout_s) - 1)
        self._server.should_exit = True
        self._front.is_closing = True
        self._front.end_connections()  # uvicorn knows none that still agree on encryption
        if self._thread is not None:
            self._thread.join(timeout_s)


def _configuration(app: ASGIApp, front: Front) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=partial(Connection, front),  # type: ignore[arg-type]  # called as the class that uvicorn expects
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=front.limits.keep_alive_s,
        h11_max_incomplete_event_size=front.limits.header_bytes,
        workers=1,
    )


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= _LAST_PORT:
        msg = (
            f"cannot listen on {_address(host, port)}: no such port; choose one from 1 to "
            f"{_LAST_PORT}, or 0 for any"
        )
        raise ConfigError(msg)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ][0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
    except (socket.gaierror, UnicodeError):
        msg = (
            f"cannot listen on {_address(host, port)}: no such host; write listen as "
            "host:port, such as 127.0.0.1:29108"
        )
        raise ConfigError(msg) from None
    except OSError as error:
        number = error.errno or 0
        advice = _ADVICE.get(number, "choose another address")
        msg = f"cannot listen on {_address(host, port)}: {os.strerror(number).lower()}; {advice}"
        raise ConfigError(msg, permanent=number != errno.EADDRINUSE) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RequestGuard:
    """The application behind ``access``, replaceable from any thread. bcrypt has one thread: wrong passwords hold up nobody."""

    def __init__(self, app: ASGIApp, access: Access, *, header_bytes: int) -> None:
        self.access = access
        self._app, self._header_bytes = app, header_bytes
        self._thread = CapacityLimiter(1)
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or let the application do so."""
        access, connection = self.access, scope["state"][CONNECTION]
        scope[IS_AUTHENTICATED], scope[USER] = False, None
        connection.begin_answer()
        try:
            refusal = await self._refuse(access, scope)
            await (refusal or self._app)(
                scope, receive, send if scope[IS_AUTHENTICATED] else _ending(send)
            )
        finally:
            connection.end_answer()

    async def _refuse(self, access: Access, scope: Scope) -> Response | None:
        """The refusal of a request.

        None where it may go on, and then the scope holds whether the client is authenticated.
        """
        if _is_oversized(scope, self._header_bytes):
            return _say(431, "request header too large")
        if access.options.authenticates and not access.credentials:
            scope[USER] = client_name(scope["state"][CONNECTION].certificate)
        if refusal := await self._identify(access.credentials, scope):
            return refusal
        if scope["path"] == RELOAD and scope[USER] is None:
            return _say(403, f"reloading needs {MUST_AUTHENTICATE}")
        headers = Headers(scope=scope)
        if scope["path"] == RELOAD and not comes_from_here(headers):
            return _say(403, "this request comes from another site: nothing was reloaded")
        # Browsers always send it.
        if access.answers_to(headers.get("host", "localhost")):
            return None
        scope[IS_AUTHENTICATED] = scope["path"] not in PROBES
        return None if ANY_HOST.fullmatch(scope["path"]) else _say(421, _WRONG_HOST)

    async def _identify(self, credentials: Credentials, scope: Scope) -> Response | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not credentials:
            scope[IS_AUTHENTICATED] = True
            return None
        if not given and scope["path"] in PROBES:
            return None
        pair = _read_basic(given[0]) if len(given) == 1 else None
        if pair is not None and not credentials.remembers(*pair):
            who = (scope.get("client") or ("",))[0]
            if self._waiting.total() >= _MOST_WAITING or self._waiting[who] >= _MOST_WAITING_OF_ONE:
                return _say(503, "too many passwords to verify", {"Retry-After": "1"})
            pair = pair if await self._verify(credentials, pair, who) else None
        scope[IS_AUTHENTICATED] = pair is not None
        scope[USER] = pair and pair[0].decode()
        return (
            None
            if pair
            else _say(
                401,
                "unauthorized",
                {"WWW-Authenticate": 'Basic realm="rankwatch", charset="UTF-8"'},
            )
        )

    async def _verify(self, credentials: Credentials, pair: tuple[bytes, bytes], who: str) -> bool:
        self._waiting[who] += 1
        try:
            return await run_sync(
                credentials.verify, *pair, limiter=self._thread, abandon_on_cancel=True
            )
        finally:
            self._waiting[who] -= 1
            self._waiting += Counter()  # drops addresses that do not wait any more


def comes_from_here(headers: Headers) -> bool:
    """Whether no other site's page made a browser send this request.

    Over HTTPS browsers say what kind of site it came from, over HTTP from which. Other clients need
    not say either."""
    kind, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if kind is not None:
        return kind == "same-origin"
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _say(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers={**PLAIN_HEADERS, **(headers or {})})


def _read_basic(header: bytes) -> tuple[bytes, bytes] | None:
    scheme, _, coded = header.strip().partition(b" ")
    try:
        user, colon, password = base64.b64decode(coded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if scheme.lower() == b"basic" and colon else None


def _is_oversized(scope: Scope, most: int) -> bool:
    """What comes in one piece passes the parser's own limit, which is on what is incomplete."""
    size = (
        len(scope["raw_path"])
        + len(scope["query_string"])
        + sum(len(name) + len(value) for name, value in scope["headers"])
    )
    return size > most or len(scope["headers"]) > _MOST_HEADERS


def _ending(send: Send) -> Send:
    """Ends a stranger's connection with the answer, so that those of strangers are the first to go, not the last."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {
                **message,
                "headers": [*message.get("headers", ()), (b"connection", b"close")],
            }
        await send(message)

    return send_on
