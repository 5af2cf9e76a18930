"""Runs an ASGI application in its own thread, and limits who may use it and how much."""

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
from starlette.types import ASGIApp, Receive, Scope, Send

from monitor.boundary.deadline import Deadline
from monitor.model.errors import ConfigError, MonitorError
from monitor.web.access import Access, Credentials, client_name
from monitor.web.connections import CONNECTION, Connection, Front, Limits

_BACKLOG = 128  # so many connections may be accepted before we can abort one
_START_S = 10.0
_POLL_S = 0.005
_EVERYWHERE = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - on request
_ADVICE = {
    errno.EADDRINUSE: (
        "another program (perhaps a second rankwatch) listens there; stop it or choose another port"
    ),
    errno.EACCES: "this user may not use the port; choose a port above 1023",
    errno.EADDRNOTAVAIL: "this machine does not have this address; choose one of its addresses",
}

# Requests for these paths need no credentials, because many probes cannot send any. A client that
# is not authenticated gets no reason.
PROBES = frozenset({"/-/healthy", "/-/ready"})

# Requests for these paths may have any name in the header `Host`, because monitoring and
# deployments use the names of services. The answers show no users.
PATHS_FOR_ANY_HOST = re.compile(r"/-/healthy|/-/ready|/metrics|/api/v1/gate/[^/]*")

IS_AUTHENTICATED = "rankwatch.is_authenticated"
"""Under this key the scope of a request says whether the client may read everything."""

CLIENT_NAME = "rankwatch.user"
"""Under this key the scope of a request has the client's name.

The name is None if clients need not authenticate. Then the client may change nothing.
"""
_WRONG_HOST_MESSAGE = (
    "this server does not accept the name in the header Host: use its IP address, localhost, or "
    "the name in listen or external_url; or require passwords in web_config_file"
)
_MOST_WAITING_LOGINS = 32
_MOST_WAITING_LOGINS_OF_ONE = 4
PLAIN_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class WebServer:
    """Serves ``app`` to the clients that ``access`` admits. It can be started once.

    If the host is empty, the server listens on all addresses of the machine. Threads may share it.
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
        self._front = Front(limits=limits or Limits(), access=access or Access())
        self._guard = RequestGuard(app, self._front)
        self._server = uvicorn.Server(_uvicorn_configuration(self._guard, self._front))
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the server. Returns as soon as it answers requests.

        Raises ConfigError if the address cannot be used, and MonitorError if the server does not
        start in time.
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
                raise MonitorError(
                    f"the web server on {_address(self._host, self._port)} did not start "
                    f"within {_START_S:g} s",
                    permanent=False,
                )
            time.sleep(_POLL_S)

    @property
    def url(self) -> str:
        """The address of the server, without a slash at the end. The start replaces the port 0."""
        return f"{self._front.access.scheme}://{_address(self._host, self._port)}"

    @property
    def access(self) -> Access:
        """The access that the server uses now."""
        return self._front.access

    @property
    def is_alive(self) -> bool:
        """Whether the server's thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def use_access(self, access: Access) -> None:
        """Use this access now. If its TLS options are new, connections end after their answers."""
        is_tls_changed = access.tls != self._front.access.tls
        self._front.access = access
        if is_tls_changed:
            self._front.end_connections()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop listening, and finish the current answers. Returns after at most ``timeout_s``.

        This method may be called twice.
        """
        # uvicorn gets one second less, but at least one, so that it closes all connections in time.
        self._server.config.timeout_graceful_shutdown = max(1, int(timeout_s) - 1)
        self._server.should_exit = True
        self._front.is_closing = True
        # uvicorn ends no connection during the TLS handshake, so such connections are ended here.
        self._front.end_connections()
        if self._thread is not None:
            self._thread.join(timeout_s)


def _uvicorn_configuration(app: ASGIApp, front: Front) -> uvicorn.Config:
    """Return uvicorn's options: no WebSockets, no logs, and `Connection` for each connection."""
    return uvicorn.Config(
        app,
        http=partial(Connection, front),  # type: ignore[arg-type]  # uvicorn expects a class
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
    """Return a socket that listens on this address. Raises ConfigError if this is impossible."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_ = addresses[0]
        is_dual_stack = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(
            (host, port),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=is_dual_stack,
        )
    except (socket.gaierror, UnicodeError):
        raise ConfigError(
            f"cannot listen on {_address(host, port)}: the host is unknown; write listen as "
            "host:port, such as 127.0.0.1:29108"
        ) from None
    except OSError as error:
        code = error.errno or 0
        advice = _ADVICE.get(code, "choose another address")
        msg = f"cannot listen on {_address(host, port)}: {os.strerror(code).lower()}; {advice}"
        raise ConfigError(msg, permanent=code != errno.EADDRINUSE) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RequestGuard:
    """Passes requests to the application if the client may send them.

    Another thread verifies passwords, so that wrong passwords do not delay other requests.
    """

    def __init__(self, app: ASGIApp, front: Front) -> None:
        self._app = app
        self._front = front
        self._password_thread = CapacityLimiter(1)
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application."""
        connection = scope["state"][CONNECTION]
        scope[IS_AUTHENTICATED] = False
        scope[CLIENT_NAME] = None
        connection.begin_answer()
        try:
            refusal = await self._find_refusal(self._front.access, scope)
            connection.is_authenticated |= scope[IS_AUTHENTICATED]
            answer = refusal or self._app
            await answer(scope, receive, send)
        finally:
            connection.end_answer()

    async def _find_refusal(self, access: Access, scope: Scope) -> Response | None:
        """Return the answer that refuses the request. None if the application may answer it.

        A request is refused if its client may not read the pages, or if its header Host has an
        unknown name. Sets `IS_AUTHENTICATED` and `CLIENT_NAME` in the scope.
        """
        identifies_by_certificate = access.options.authenticates and not access.credentials
        if identifies_by_certificate:
            scope[CLIENT_NAME] = client_name(scope["state"][CONNECTION].certificate)
        refusal = await self._identify(access.credentials, scope)
        if refusal is not None:
            return refusal
        # `answers_to` protects only browsers, which always send the header Host. A request without
        # this header is from another program, and is answered like a request for localhost.
        host = Headers(scope=scope).get("host", "localhost")
        if access.answers_to(host):
            return None
        # A page of another site may have sent this request. So only a few paths are answered. A
        # client that is not authenticated gets no details in the answer of a probe.
        if scope["path"] in PROBES:
            scope[IS_AUTHENTICATED] = False
        if PATHS_FOR_ANY_HOST.fullmatch(scope["path"]):
            return None
        return plain_answer(421, _WRONG_HOST_MESSAGE)

    async def _identify(self, credentials: Credentials, scope: Scope) -> Response | None:
        """Find out who the client is. Sets `IS_AUTHENTICATED` and `CLIENT_NAME`, and returns None.

        ``credentials`` has the configured users and passwords. If there are none, every client may
        read everything, and has no name. Returns a refusal if the client sends no login or a wrong
        one, or if too many logins wait to be verified. A probe without a login is not refused, but
        is not authenticated either.
        """
        has_users = bool(credentials)
        if not has_users:
            scope[IS_AUTHENTICATED] = True
            return None
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        if not values and scope["path"] in PROBES:
            return None
        login = None
        if len(values) == 1:
            login = _read_basic(values[0])
        if login is None:
            return _unauthorized()
        if not credentials.remembers(*login):
            address, _ = scope.get("client") or ("", 0)
            too_many_wait = self._waiting.total() >= _MOST_WAITING_LOGINS
            if too_many_wait or self._waiting[address] >= _MOST_WAITING_LOGINS_OF_ONE:
                return plain_answer(503, "too many passwords to verify", {"Retry-After": "1"})
            if not await self._verify(credentials, login, address):
                return _unauthorized()
        user, _ = login
        scope[IS_AUTHENTICATED] = True
        scope[CLIENT_NAME] = user.decode()
        return None

    async def _verify(
        self,
        credentials: Credentials,
        login: tuple[bytes, bytes],
        address: str,
    ) -> bool:
        """Return whether the password is right. Counts the clients that wait, by address."""
        self._waiting[address] += 1
        try:
            return await run_sync(
                credentials.verify,
                *login,
                limiter=self._password_thread,
                abandon_on_cancel=True,
            )
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]


def plain_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with one line of plain text."""
    return PlainTextResponse(f"{text}\n", status, headers={**PLAIN_HEADERS, **(headers or {})})


def _unauthorized() -> Response:
    challenge = 'Basic realm="rankwatch", charset="UTF-8"'
    return plain_answer(401, "unauthorized", {"WWW-Authenticate": challenge})


def _read_basic(header: bytes) -> tuple[bytes, bytes] | None:
    """Return user and password in a header ``Authorization``. None if it is not a valid one."""
    scheme, _, coded = header.strip().partition(b" ")
    try:
        login = base64.b64decode(coded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    user, colon, password = login.partition(b":")
    if scheme.lower() != b"basic" or not colon:
        return None
    return user, password
