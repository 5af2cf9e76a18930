"""The web server: an ASGI application in a thread of its own, within limits; signals are left to the process."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from threading import Event, Thread

import uvicorn
from starlette.types import ASGIApp

from monitor.errors import ConfigError, MonitorError
from monitor.web.access import Access
from monitor.web.connections import Door, GuardedProtocol, Limits, guarded
from monitor.web.request_guard import RequestGuard

_BACKLOG = 128  # asyncio accepts as many in one go, before any can be made to give way
_START_S = 10.0
_LAST_PORT = 65535
_EVERYWHERE = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - only where the caller asks for it
_ADVICE = {
    errno.EADDRINUSE: "another program (another rankwatch?) listens there; stop it or choose another port",
    errno.EACCES: "this user may not; choose a port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose one of its own",
}


class WebServer:
    """Serves ``app`` on host and port, an empty host being every address of the machine, to those whom ``access`` lets in.

    ``start``, ``follow`` and ``stop`` may be called from any thread; a stopped server stays stopped.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, access: Access | None = None, limits: Limits | None = None
    ) -> None:
        self._host = host or _EVERYWHERE
        self._port = port
        limits = limits or Limits()
        self._door = Door(access or Access())
        self._guard = RequestGuard(app, self._door.access, header_bytes=limits.header_bytes)
        self._server = _Server(_configuration(self._guard, guarded(limits, self._door), limits))
        self._thread: Thread | None = None

    def start(self) -> None:
        """Listen and serve; returns when a request would be answered. ConfigError when the address cannot be had."""
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        self._thread = Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        self._thread.start()
        if not self._server.is_serving.wait(_START_S):
            self.stop()
            listener.close()
            msg = f"the web server on {_address(self._host, self._port)} did not start within {_START_S:g} s"
            raise MonitorError(msg, permanent=False)

    @property
    def url(self) -> str:
        """Where it serves, without a slash at the end; with the port really taken once started."""
        return f"{self._door.access.scheme}://{_address(self._host, self._port)}"

    @property
    def access(self) -> Access:
        """Whom it lets in now."""
        return self._door.access

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def follow(self, access: Access) -> None:
        """Let in whom this lets in from now on. Connections made under another encryption end with what they are answering."""
        is_same = access.tls == self._door.access.tls
        self._door.access = self._guard.access = access
        if not is_same:
            self._server.end_connections()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Close the door, let answers under way finish, return after ``timeout_s`` at the latest; may be called twice."""
        self._server.config.timeout_graceful_shutdown = max(1, int(timeout_s) - 1)
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout_s)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_serving = Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self.is_serving.set()

    def end_connections(self) -> None:
        """End each connection once it has answered."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_connections)

    def _end_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.shutdown()


def _configuration(app: ASGIApp, protocol: type[GuardedProtocol], limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
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
        timeout_keep_alive=limits.keep_alive_s,
        h11_max_incomplete_event_size=limits.header_bytes,
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
