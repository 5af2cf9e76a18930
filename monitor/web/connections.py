"""How much of the server one client may take."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from monitor.web.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the web server.

    ``handshake_s``: how long a client may take to agree on encryption. ``exchange_s``: from the first byte (or the connection)
    until the answer has left; whoever is slower is cut off. ``keep_alive_s``: how long a connection may lie idle, more than the
    usual scrape interval. ``connections``: open ones; one more and the oldest that waits without a request gives way.
    """

    header_bytes: int = 16_384
    handshake_s: float = 10.0
    exchange_s: float = 30.0
    keep_alive_s: int = 75
    connections: int = 256


_GOODBYE_S = 5.0
_TOO_LARGE = 431


@dataclass(slots=True)
class Door:
    """Whom connections are let in by; what is put in here holds for those that come next."""

    access: Access


class GuardedProtocol(H11Protocol):
    """One connection. Slow senders, slow readers and the silent are aborted; idle keep-alive is left to uvicorn's timer."""

    limits = Limits()
    door = Door(Access())

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's arguments, passed through
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_busy = True
        self._born = self.loop.time()
        self._line: asyncio.Transport | None = None  # what encrypted bytes go through
        self._handshake: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrowed as uvicorn does
        """Take the connection, let another go where there are too many, and encrypt it where that is wanted."""
        self.transport = transport
        self.connections.add(self)
        self._arm()
        self._make_room()
        access = self.door.access
        try:
            context = access.context()
        except BaseException:
            self.abort()  # left alone, it would be served without encryption
            raise
        if context is None:
            super().connection_made(transport)
        elif not transport.is_closing():
            self._line = transport
            transport.pause_reading()  # start_tls wants every byte
            self._handshake = self.loop.create_task(self._encrypt(transport, context, access))

    def data_received(self, data: bytes) -> None:
        """Start a new exchange if the last one is over; more bytes of the same do not extend its time."""
        if self._handshake is not None:
            self._early.append(data)  # came right behind the handshake
            return
        if not self._is_busy and not self._unsent:
            self._arm()
        self._is_busy = True
        super().data_received(data)

    def on_response_complete(self) -> None:
        """End the exchange, or go on with a request that was sent ahead."""
        self._is_busy = False
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is not answered:
            self._is_busy = True
            self._arm()

    def send_400_response(self, msg: str) -> None:
        """Say 431 where the parser gave up for size."""
        error = sys.exc_info()[1]
        if not isinstance(error, h11.RemoteProtocolError) or error.error_status_hint != _TOO_LARGE:
            super().send_400_response(msg)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        answer = h11.Response(status_code=_TOO_LARGE, headers=headers, reason=b"Request Header Fields Too Large")
        for event in (answer, h11.Data(data=b"request header too large\n"), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End once the answer under way has left; at once before there was a request."""
        if self._handshake is not None:
            self.abort()
        else:
            super().shutdown()

    @property
    def is_answering(self) -> bool:
        """Whether a whole request has come and its answer is being made; not whether its reader takes it."""
        return self._has_asked and not self.cycle.response_complete and not self._unsent

    @property
    def _has_asked(self) -> bool:
        return bool(self.cycle)  # uvicorn's annotation hides that it is None before the first request

    @property
    def _unsent(self) -> int:
        if self._line is None:
            return self.transport.get_write_buffer_size()
        waiting = 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()
        return waiting + self._line.get_write_buffer_size()

    @property
    def is_gone(self) -> bool:
        """Whether it holds nothing any more. One that is only being closed may wait for its client."""
        return (self._line or self.transport).is_closing() and not self._unsent

    @property
    def claim_to_stay(self) -> tuple[bool, bool, float]:
        """Who is leaving goes before who has never asked anything, those before who has; then the older goes."""
        return not self.transport.is_closing(), self._has_asked, self._born

    async def _encrypt(self, line: asyncio.Transport, context: ssl.SSLContext, access: Access) -> None:
        encrypted: asyncio.Transport | None = None
        if not line.is_closing():  # start_tls would wait for what is gone
            with suppress(OSError):  # ssl.SSLError, a time-out, and whoever went away
                encrypted = await self.loop.start_tls(
                    line,
                    self,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=self.limits.handshake_s,
                    ssl_shutdown_timeout=_GOODBYE_S,
                )
        self._handshake = None
        if encrypted is None or encrypted.is_closing() or not access.admits(encrypted.get_extra_info("peercert")):
            line.abort()
            self.connection_lost(None)
            return
        super().connection_made(encrypted)
        for data in self._early:
            self.data_received(data)
        self._early.clear()

    def _make_room(self) -> None:
        stay = [one for one in self.connections if isinstance(one, GuardedProtocol) and not one.is_gone]
        if len(stay) > self.limits.connections:
            stay.remove(self)
            (_gives_way(stay) or self).abort()

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(self.limits.exchange_s, self._cut_off)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self) -> None:
        if self._is_busy or self._unsent:
            self.abort()

    def abort(self) -> None:
        """End it at once."""
        (self._line or self.transport).abort()  # a transport of TLS that was closed twice knows no abort any more


def _gives_way(connections: Iterable[GuardedProtocol]) -> GuardedProtocol | None:
    waiting = (one for one in connections if not one.is_answering)
    return min(waiting, key=lambda one: one.claim_to_stay, default=None)


def guarded(limits: Limits, door: Door) -> type[GuardedProtocol]:
    """The protocol with these limits and this door, as uvicorn wants it: a class."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits, "door": door})
