"""One event loop and one pool of connections for all pulls of this process: opening them costs more than asking.

They carry nothing of whose request it was: headers go with each request, cookies are not kept, and each set of trusted
authorities has connections of its own.
"""

import asyncio
import atexit
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from aiohttp.connector import AddrInfoType

from monitor.errors import SourceError
from monitor.link_local import refuse_link_local

T = TypeVar("T")

_IDLE_S = 0.5
"""How long a connection waits for another request: less than servers wait, and not so long that many hosts take all sockets."""
_ADDRESS_S = 10
"""How long a host's address is kept."""
_LOOK_S = 2.0
_MANY = 4
"""Pulls at once that one run alone does not make."""

MAY_BE_LINK_LOCAL = ContextVar("MAY_BE_LINK_LOCAL", default=False)
"""Of the pull at hand."""


def open_socket(info: AddrInfoType) -> socket.socket:
    """A socket for a connection to this address, whatever name led there.

    LinkLocalError where it may not be asked.
    """
    if not MAY_BE_LINK_LOCAL.get():
        refuse_link_local(info[4][0])
    return socket.socket(*info[:3])


class _DaemonThreads(ThreadPoolExecutor):
    """A thread for each call: name servers that hang hold up neither other hosts nor the end of the process."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:  # noqa: ANN401 - as its base has it
        """Call it in a daemon thread of its own."""
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **named))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                future.set_exception(error)

        future.set_running_or_notify_cancel()
        threading.Thread(target=call, name="resolve", daemon=True).start()
        return future


class _PullLoop:
    """A thread with an event loop and a session.

    ``under_way`` is changed under the lock of this module.
    """

    def __init__(self) -> None:
        self.under_way = 0
        self.is_busy = False
        self._looked = (time.monotonic(), 0.0)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_DaemonThreads())
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._run, name="http-pulls", daemon=True)
        self._thread.start()

    def run(self, pull: Callable[[aiohttp.ClientSession], Coroutine[None, None, T]]) -> T:
        """The outcome of the pull, which ends by its own deadline."""
        return asyncio.run_coroutine_threadsafe(self._with_session(pull), self._loop).result()

    def end(self) -> None:
        """End the thread and its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1.0)

    async def _with_session(
        self, pull: Callable[[aiohttp.ClientSession], Coroutine[None, None, T]]
    ) -> T:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Each pull bounds its own requests by ``concurrency``.
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_IDLE_S,
                    ttl_dns_cache=_ADDRESS_S,
                    socket_factory=open_socket,
                ),
                # One user's session must not colour another's list
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # read_body inflates, no further than max_bytes
            )
        self._look()
        return await pull(self._session)

    def _look(self) -> None:
        """From time to time, whether this thread kept half a core busy since it looked before."""
        (before, used_before), now, used = self._looked, time.monotonic(), time.thread_time()
        if now - before >= _LOOK_S:
            self.is_busy = used - used_before > (now - before) / 2
            self._looked = (now, used)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        if self._session is not None:
            self._loop.run_until_complete(self._session.close())
        # Threads of the resolver may hang: they are not waited for.
        self._loop.close()


_lock = threading.Lock()
_current: _PullLoop | None = None


def run_pull(pull: Callable[[aiohttp.ClientSession], Coroutine[None, None, T]]) -> T:
    """Run the pull with the session that all pulls of this process share."""
    global _current  # noqa: PLW0603 - one a process
    with _lock:
        if _current is None:
            _current = _PullLoop()
        mine = _current
        mine.under_way += 1
    try:
        return mine.run(pull)
    finally:
        with _lock:
            mine.under_way -= 1


def is_busy() -> bool:
    """Whether the pulls of several runs at once keep half a core busy."""
    return (current := _current) is not None and current.is_busy and current.under_way >= _MANY


@atexit.register
def _end() -> None:
    # Before the interpreter takes its parts away.
    if _current is not None and not _current.under_way:
        _current.end()


def _forget() -> None:
    global _lock, _current
    # The loop of the process that forked this one has no thread here.
    _lock, _current = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def trust(
    ca_file: str | None, cert_file: str | None = None, key_file: str | None = None
) -> ssl.SSLContext | None:
    """Whom to trust and what certificate to show, None for the system's and none.

    SourceError when a file cannot be read.
    """
    files = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
    given = {name: path for name, path in files.items() if path is not None}
    try:
        found = tuple(Path(path).stat() for path in given.values())
        return (
            _context(
                ca_file, cert_file, key_file, *((each.st_ino, each.st_mtime_ns) for each in found)
            )
            if given
            else None
        )
    except OSError as error:  # ssl.SSLError is one
        named = " and ".join(f"{name} {path}" for name, path in given.items())
        raise SourceError(
            f"cannot read certificates from {named}: {error.strerror or 'it holds none'}"
        ) from None


@lru_cache(maxsize=64)
def _context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, *_changed: tuple[int, int]
) -> ssl.SSLContext:
    # Connections are shared by those of one context: a file that is replaced gets another.
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file, password="")  # none is asked for on a terminal
    return context
