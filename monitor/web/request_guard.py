"""ASGI middleware before the pages: asks for credentials, refuses oversized requests."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.web.access import Access, Credentials, client_name
from monitor.web.connections import CONNECTION

# Answered without credentials, which probes can hardly send; strangers get yes or no, and no reason.
PROBES = frozenset({"/-/healthy", "/-/ready"})

# Answered only where the web configuration file asks for credentials: without them requests must not change anything.
RELOAD = "/-/reload"

IS_AUTHENTICATED = "rankwatch.is_known"
"""In the scope of a request: whether the client may read everything."""

USER = "rankwatch.user"
"""In the scope of a request: the name of who sent it, None where nobody has to authenticate, who then may change nothing."""
MUST_AUTHENTICATE = "a web configuration file with basic_auth_users or verified client certificates"

_MOST_HEADERS = 100
_MOST_WAITING = 32
_MOST_WAITING_OF_ONE = 4
PLAIN_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class RequestGuard:
    """The application behind ``access``, which may be replaced at any moment from any thread.

    bcrypt runs in one thread, and few wait for it, fewer from one address: wrong passwords, however many, take one core and
    never hold up those whose password was right before.
    """

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
            await (refusal or self._app)(scope, receive, send if scope[IS_AUTHENTICATED] else _ending(send))
        finally:
            connection.end_answer()

    async def _refuse(self, access: Access, scope: Scope) -> Response | None:
        """The refusal of a request; None where it may go on, and then the scope holds whether the client is authenticated."""
        if _is_oversized(scope, self._header_bytes):
            return _say(431, "request header too large")
        if access.options.authenticates and not access.credentials:
            scope[USER] = client_name(scope["state"][CONNECTION].certificate)
        if refusal := await self._identify(access.credentials, scope):
            return refusal
        if scope["path"] == RELOAD and scope[USER] is None:
            return _say(403, f"reloading needs {MUST_AUTHENTICATE}")
        return None

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
        return None if pair else _say(401, "unauthorized", {"WWW-Authenticate": 'Basic realm="rankwatch", charset="UTF-8"'})

    async def _verify(self, credentials: Credentials, pair: tuple[bytes, bytes], who: str) -> bool:
        self._waiting[who] += 1
        try:
            return await run_sync(credentials.verify, *pair, limiter=self._thread, abandon_on_cancel=True)
        finally:
            self._waiting[who] -= 1
            self._waiting += Counter()  # drops addresses that do not wait any more


def _say(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers={**PLAIN_HEADERS, **(headers or {})})


def _read_basic(header: bytes) -> tuple[bytes, bytes] | None:
    """User and password of a header; None when it is not of that form."""
    scheme, _, coded = header.strip().partition(b" ")
    try:
        user, colon, password = base64.b64decode(coded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if scheme.lower() == b"basic" and colon else None


def _is_oversized(scope: Scope, most: int) -> bool:
    """What comes in one piece passes the parser's own limit, which is on what is incomplete."""
    size = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in scope["headers"])
    return size > most or len(scope["headers"]) > _MOST_HEADERS


def _ending(send: Send) -> Send:
    """Ends a stranger's connection with the answer, so that those of strangers are the first to go, not the last."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return send_on
