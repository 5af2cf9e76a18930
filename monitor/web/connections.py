"""Connections before uvicorn's, which lack all this: encryption chosen at each, deadlines, and a bound on how many are open."""

import asyncio
import ssl
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from monitor.web.access import Access

_GOODBYE_S = 5.0
CONNECTION = "rankwatch.connection"
"""In the state of a request: the `Connection` that it came by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the server one client may take."""

    header_bytes: int = 16_384
    handshake_s: float = 10.0  # to agree on encryption
    exchange_s: float = 30.0  # from the first byte, or the connection, until the answer has left
    keep_alive_s: int = 75  # idle: more than the usual scrape interval
    connections: int = 256  # one more, and the oldest that waits without a request gives way


@dataclass(slots=True)
class Front:
    """The connections of one server. An ``access`` put in here holds for those that come next."""

    limits: Limits
    access: Access
    is_closing: bool = False
    connections: set["Connection"] = field(default_factory=set)

    def make_room(self, newest: "Connection") -> None:
        """Where there are too many, one gives way: of those that wait for no answer the least regular, then the oldest."""
        open_ones = [each for each in self.connections if not each.is_gone]
        if len(open_ones) > self.limits.connections:
            waiting = (each for each in open_ones if each is not newest and not each.is_answering)
            min(waiting, key=lambda each: each.claim_to_stay, default=newest).abort()

    def end_connections(self) -> None:
        """End each connection once it has answered. May be called from any thread."""
        for connection in list(self.connections):
            with suppress(RuntimeError):  # its loop has ended, and so has it
                connection.loop.call_soon_threadsafe(connection.shutdown)


class Connection(H11Protocol):
    """One connection, in its requests' ASGI state.

    Slow senders and readers and the silent are aborted; idle ones are not.
    """

    def __init__(self, front: Front, *, app_state: dict[str, Any], **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        # A proxy makes no cycle: what a connection took is free as soon as it ends.
        super().__init__(app_state={**app_state, CONNECTION: weakref.proxy(self)}, **options)
        self._front = front
        self._born, self._deadline = (
            self.loop.time(),
            self.loop.call_later(front.limits.exchange_s, self._cut_off),
        )
        self._is_busy, self._has_asked, self._answering = True, False, 0
        self._handshake: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrowed as uvicorn does
        """Take the connection, let another go where there are too many, and encrypt it where that is wanted."""
        self._line = self._transport = transport  # bytes on the wire, and behind encryption
        self._front.connections.add(self)
        self._front.make_room(self)
        access = self._front.access
        if self._front.is_closing:
            self.abort()
        try:
            context = access.context()
        except BaseException:
            self.abort()  # left alone, it would be served without encryption
            raise
        if context is None:
            super().connection_made(transport)
        elif not transport.is_closing():
            transport.pause_reading()  # start_tls wants every byte
            self._handshake = self.loop.create_task(self._encrypt(context, access))

    def data_received(self, data: bytes) -> None:
        """Start a new exchange if the last one is over.

        More bytes of the same do not extend its time.
        """
        if self._handshake is not None:
            self._early.append(data)  # came right behind the handshake
            return
        if not self._is_busy and not self._unsent:
            self._arm()
        self._is_busy = True
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._deadline.cancel()
        self._front.connections.discard(self)
        if self._handshake is None and self.transport is not None:
            super().connection_lost(exc)

    def begin_answer(self) -> None:
        """A request has come; one that was sent ahead begins a new exchange."""
        if not self._is_busy:
            self._arm()
        self._is_busy = self._has_asked = True
        self._answering += 1

    def end_answer(self) -> None:
        """Its answer was handed over."""
        self._is_busy = False
        self._answering -= 1

    def shutdown(self) -> None:
        """End once the answer under way has left; at once before there was a request."""
        if self._handshake is None:
            super().shutdown()
        else:
            self.abort()

    def abort(self) -> None:
        """End it at once."""
        self._line.abort()  # a transport of TLS that was closed twice knows no abort any more

    @property
    def certificate(self) -> dict[str, object] | None:
        """The client's certificate, where it was verified."""
        found: dict[str, object] | None = self._transport.get_extra_info("peercert")
        return found

    @property
    def is_answering(self) -> bool:
        """Whether a request has come and its answer is being made.

        Not whether its reader takes it.
        """
        return self._answering > 0 and not self._unsent

    @property
    def is_gone(self) -> bool:
        """Whether it holds nothing any more.

        One that is only being closed may wait for its client.
        """
        return self._line.is_closing() and not self._unsent

    @property
    def claim_to_stay(self) -> tuple[bool, bool, float]:
        """Order of giving way: closing connections, then those without a request so far, then the others; the oldest first."""
        return not self._transport.is_closing(), self._has_asked, self._born

    @property
    def _unsent(self) -> int:
        behind = (
            0
            if self._transport is self._line or self._transport.is_closing()
            else self._transport.get_write_buffer_size()
        )
        return behind + self._line.get_write_buffer_size()

    async def _encrypt(self, context: ssl.SSLContext, access: Access) -> None:
        line, encrypted = self._line, None
        if not line.is_closing():  # start_tls would wait for what is gone
            with suppress(OSError):  # ssl.SSLError, a time-out, a client that went away
                encrypted = await self.loop.start_tls(
                    line,
                    self,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=self._front.limits.handshake_s,
                    ssl_shutdown_timeout=_GOODBYE_S,
                )
        if (
            encrypted is None
            or encrypted.is_closing()
            or not access.admits(encrypted.get_extra_info("peercert"))
        ):
            self.abort()
            self.connection_lost(None)
            self._handshake = None
            return
        self._handshake, self._transport = None, encrypted
        super().connection_made(encrypted)
        for data in self._early:
            self.data_received(data)
        self._early.clear()

    def _arm(self) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self._front.limits.exchange_s, self._cut_off)

    def _cut_off(self) -> None:
        if self._is_busy or self._unsent:
            self.abort()
