"""The web server: an ASGI application in a thread of its own, within limits; signals are left to the process."""

from __future__ import annotations

import errno
import os
import socket
import time
from functools import partial
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from monitor.deadline import Deadline
from monitor.errors import ConfigError, MonitorError
from monitor.web.access import Access
from monitor.web.connections import Connection, Front, Limits
from monitor.web.request_guard import RequestGuard

_BACKLOG = 128  # asyncio accepts as many in one go, before any can be made to give way
_START_S = 10.0
_POLL_S = 0.005
_LAST_PORT = 65535
_EVERYWHERE = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - only where the caller asks for it
_ADVICE = {
    errno.EADDRINUSE: "another program (another rankwatch?) listens there; stop it or choose another port",
    errno.EACCES: "this user may not; choose a port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose one of its own",
}


class WebServer:
    """Serves ``app`` on host and port, an empty host being every address of the machine, to clients that ``access`` admits.

    ``start``, ``follow`` and ``stop`` may be called from any thread; a stopped server stays stopped.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, access: Access | None = None, limits: Limits | None = None
    ) -> None:
        self._host = host or _EVERYWHERE
        self._port = port
        limits = limits or Limits()
        self._front = Front(limits=limits, access=access or Access())
        self._guard = RequestGuard(app, self._front.access, header_bytes=limits.header_bytes)
        self._server = uvicorn.Server(_configuration(self._guard, self._front))
        self._thread: Thread | None = None

    def start(self) -> None:
        """Listen and serve; returns when a request would be answered. ConfigError when the address cannot be had."""
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        self._thread = Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        self._thread.start()
        deadline = Deadline.after(_START_S)
        while not self._server.started:
            if deadline.is_past:
                self.stop()
                listener.close()
                msg = f"the web server on {_address(self._host, self._port)} did not start within {_START_S:g} s"
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
        """Put this access in force. Connections made under another encryption end once they have answered."""
        is_same = access.tls == self._front.access.tls
        self._front.access = self._guard.access = access
        if not is_same:
            self._front.end_connections()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Close the door, let answers under way finish, return after ``timeout_s`` at the latest; may be called twice."""
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
        msg = f"cannot listen on {_address(host, port)}: no such port; choose one from 1 to {_LAST_PORT}, or 0 for any"
        raise ConfigError(msg)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (socket.gaierror, UnicodeError):
        msg = f"cannot listen on {_address(host, port)}: no such host; write listen as host:port, such as 127.0.0.1:29108"
        raise ConfigError(msg) from None
    except OSError as error:
        number = error.errno or 0
        advice = _ADVICE.get(number, "choose another address")
        msg = f"cannot listen on {_address(host, port)}: {os.strerror(number).lower()}; {advice}"
        raise ConfigError(msg, permanent=number != errno.EADDRINUSE) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
