"""One event loop and one pool of connections for all pulls of this process.

Opening a connection costs more than a request, so pulls share connections. Shared connections do
not mix the pulls, because each request has its own headers, and cookies are not stored. Each set of
trusted authorities has its own connections.
"""

import asyncio
import atexit
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import aiohttp
from aiohttp.connector import AddrInfoType

from monitor.boundary.deadline import start_daemon
from monitor.boundary.link_local import refuse_link_local
from monitor.model.errors import SourceError
from monitor.sources.http import HttpOptions

_T = TypeVar("_T")
_Pull: TypeAlias = Callable[[aiohttp.ClientSession], Coroutine[None, None, _T]]

_OPEN_WHILE_IDLE_S = 0.5
"""How long an idle connection stays open.

This is shorter than servers allow. With many hosts, a longer time would use all sockets of the
process.
"""
_ADDRESS_S = 10
"""How long a host's address is cached."""

MAY_BE_LINK_LOCAL = ContextVar("MAY_BE_LINK_LOCAL", default=False)
"""Whether the current pull may connect to link-local addresses."""


def open_socket(info: AddrInfoType) -> socket.socket:
    """A socket for a connection to this address.

    Raises LinkLocalError if the address is not allowed.
    """
    if not MAY_BE_LINK_LOCAL.get():
        refuse_link_local(info[4][0])
    return socket.socket(*info[:3])


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call in its own daemon thread.

    So a name server that hangs delays neither other hosts nor the end of the process.
    """

    def submit(self, fn: Callable[..., _T], /, *args: object, **named: object) -> Future[_T]:
        """Call the function in a new thread."""
        return start_daemon(partial(fn, *args, **named), "resolve")


class _PullLoop:
    """A thread with an event loop and a session."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_DaemonThreads())
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._run, name="http-pulls", daemon=True)
        self._thread.start()

    def run(self, pull: _Pull[_T]) -> _T:
        """Run the pull and return its result. The pull itself must end at its deadline."""
        return asyncio.run_coroutine_threadsafe(self._with_session(pull), self._loop).result()

    def end(self) -> None:
        """End the thread and its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1.0)

    async def _with_session(self, pull: _Pull[_T]) -> _T:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Each pull limits its own requests by ``concurrency``.
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_OPEN_WHILE_IDLE_S,
                    ttl_dns_cache=_ADDRESS_S,
                    socket_factory=open_socket,
                ),
                # The session of one user must not influence the list of another.
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # read_body decompresses at most max_bytes
            )
            # aiohttp would repeat a request that ``retries`` and ``requests_a_day`` do not count.
            self._session._retry_connection = False  # noqa: SLF001
        return await pull(self._session)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        if self._session is not None:
            self._loop.run_until_complete(self._session.close())
        # This does not wait for the threads of the resolver, because they may hang.
        self._loop.close()


_lock = threading.Lock()


@cache
def _shared_loop() -> _PullLoop:
    loop = _PullLoop()
    atexit.register(loop.end)
    return loop


def run_pull(pull: _Pull[_T]) -> _T:
    """Run the pull with the session that all pulls of this process share."""
    with _lock:
        loop = _shared_loop()
    return loop.run(pull)


def tls_settings(options: HttpOptions) -> ssl.SSLContext | None:
    """The TLS settings for these options. None means the system's settings.

    Raises SourceError if a file cannot be read.
    """
    paths = options.model_dump(include={"ca_file", "cert_file", "key_file"}, exclude_none=True)
    if not paths:
        return None
    try:
        versions = []
        for path in paths.values():
            status = Path(path).stat()
            versions.append((status.st_ino, status.st_mtime_ns))
        return _load(tuple(versions), **paths)
    except OSError as error:  # ssl.SSLError is one
        names = " and ".join(f"{name} {path}" for name, path in paths.items())
        raise SourceError(
            f"cannot read certificates from {names}: "
            f"{error.strerror or 'they contain no certificate or key'}"
        ) from None


@lru_cache(maxsize=64)
def _load(
    _versions: tuple[tuple[int, int], ...],
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
) -> ssl.SSLContext:
    # Pulls with the same context share connections. If a file is replaced, a new context is made.
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file is not None:
        # Without a password here, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
    return context
