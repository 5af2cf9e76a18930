"""Encrypts connections, limits how long each may take, and limits how many there are."""

import asyncio
import ssl
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from monitor.model.immutable import immutable
from monitor.web.access import Access

_TLS_SHUTDOWN_S = 5.0
CONNECTION = "rankwatch.connection"
"""The state of each request has its `Connection` under this key."""


@immutable
class Limits:
    """Limits the use of the server by clients."""

    header_bytes: int = 16_384
    handshake_s: float = 10.0  # limits the TLS handshake
    exchange_s: float = 30.0  # limits a request until its answer was sent
    keep_alive_s: int = 75  # limits an idle connection. Scrapes usually come more often
    connections: int = 256  # if there are more, `abort_surplus` closes one


@dataclass(slots=True)
class Front:
    """All connections of one server. If ``access`` is replaced, new connections use the new one."""

    limits: Limits
    access: Access
    is_closing: bool = False
    connections: set["Connection"] = field(default_factory=set)

    def abort_surplus(self, newest: "Connection") -> None:
        """Abort one connection if there are too many.

        This is the connection with the lowest `Connection.claim_to_stay` of the connections that
        are not answering. If all others are answering, it is the newest one.
        """
        if len(self.connections) <= self.limits.connections:
            return
        others = self.connections - {newest}
        not_answering = [connection for connection in others if not connection.is_answering]
        aborted = min(not_answering, key=attrgetter("claim_to_stay"), default=newest)
        aborted.abort()

    def end_connections(self) -> None:
        """End each connection after its answer. Any thread may call this."""
        for connection in list(self.connections):
            with suppress(RuntimeError):  # the loop and the connection have ended
                connection.loop.call_soon_threadsafe(connection.shutdown)


class Connection(H11Protocol):
    """One connection. The ASGI state of each request contains its connection.

    A connection is aborted if the client sends or reads too slowly, but not while it is idle.
    """

    def __init__(
        self,
        front: Front,
        *,
        app_state: dict[str, Any],
        **options: Any,  # noqa: ANN401 - uvicorn's
    ) -> None:
        # A weak reference avoids a cycle, so the memory is freed as soon as the connection ends.
        super().__init__(app_state={**app_state, CONNECTION: weakref.proxy(self)}, **options)
        self._front = front
        self._born = self.loop.time()
        self._deadline = self.loop.call_later(front.limits.exchange_s, self._abort_if_busy)
        # Whether a request or its answer is under way. On a new connection, the client must send a
        # request before the deadline.
        self._is_busy = True
        self.is_authenticated = False
        """Whether one of its requests came from a client that may read everything."""
        # How many answers are being computed. `_is_busy` is also True while a request arrives.
        self._answering = 0
        # The task of `_encrypt`. None without encryption, and after the handshake.
        self._handshake: asyncio.Task[None] | None = None
        # Decrypted bytes of a request that arrived before `_encrypt` had passed the connection to
        # uvicorn.
        self._early_bytes: list[bytes] = []

    def connection_made(  # type: ignore[override]  # uvicorn narrows the type too
        self, transport: asyncio.Transport
    ) -> None:
        """Accept the connection, abort another one if there are too many, and start encryption."""
        # With TLS, ``_raw_transport`` sends encrypted bytes, and ``_transport`` takes plain bytes.
        self._raw_transport = transport
        self._transport = transport
        self._front.connections.add(self)
        self._front.abort_surplus(self)
        access = self._front.access
        if self._front.is_closing:
            self.abort()
        try:
            context = access.context()
        except BaseException:
            self.abort()  # otherwise the connection would be served without encryption
            raise
        # An aborted connection gets here too. No handshake may begin, because it would never end.
        if context is None:
            super().connection_made(transport)
        elif not transport.is_closing():
            transport.pause_reading()  # because start_tls must read every byte
            self._handshake = self.loop.create_task(self._encrypt(context, access))

    def data_received(self, data: bytes) -> None:
        """Read bytes of a request. Only the first bytes of a request start a new deadline."""
        if self._handshake is not None:
            self._early_bytes.append(data)  # uvicorn gets them after the handshake
            return
        is_new_request = not self._is_busy and not self._unsent
        if is_new_request:
            self._restart_deadline()
        self._is_busy = True
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline, and remove the connection from the server's connections."""
        self._deadline.cancel()
        self._front.connections.discard(self)
        is_at_uvicorn = self._handshake is None and self.transport is not None
        if is_at_uvicorn:
            super().connection_lost(exc)

    def begin_answer(self) -> None:
        """Record that an answer begins. Starts a new deadline if the last answer is complete."""
        if not self._is_busy:
            self._restart_deadline()
        self._is_busy = True
        self._answering += 1

    def end_answer(self) -> None:
        """Record that the answer is complete."""
        self._is_busy = False
        self._answering -= 1

    def shutdown(self) -> None:
        """End the connection after the current answer, or at once during the handshake."""
        if self._handshake is None:
            super().shutdown()
        else:
            self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._front.connections.discard(self)
        self._raw_transport.abort()  # a TLS transport cannot abort after it was closed twice

    @property
    def certificate(self) -> dict[str, object] | None:
        """The client's certificate. None if there is none, or if it was not verified."""
        certificate: dict[str, object] | None = self._transport.get_extra_info("peercert")
        return certificate

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being computed. False while bytes of an answer wait to be sent."""
        return self._answering > 0 and not self._unsent

    @property
    def claim_to_stay(self) -> tuple[bool, bool, float]:
        """A sort key. If a connection must be aborted, the lowest key is aborted first.

        Closing connections have the lowest keys, then connections that are not authenticated. Of
        two connections of one kind, the older one has the lower key.
        """
        return not self._transport.is_closing(), self.is_authenticated, self._born

    @property
    def _unsent(self) -> int:
        """The number of bytes that are not sent yet."""
        size = self._raw_transport.get_write_buffer_size()
        has_tls = self._transport is not self._raw_transport
        if has_tls and not self._transport.is_closing():
            size += self._transport.get_write_buffer_size()
        return size

    async def _encrypt(self, context: ssl.SSLContext, access: Access) -> None:
        """Do the TLS handshake. If it fails or the client is not admitted, end the connection."""
        raw = self._raw_transport
        encrypted = None
        if not raw.is_closing():  # on a closed connection start_tls would wait forever
            with suppress(OSError):  # includes ssl.SSLError and TimeoutError
                encrypted = await self.loop.start_tls(
                    raw,
                    self,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=self._front.limits.handshake_s,
                    ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
                )
        if (
            encrypted is None
            or encrypted.is_closing()
            or not access.admits(encrypted.get_extra_info("peercert"))
        ):
            self.abort()
            # uvicorn never got this connection, so it must not hear of its end. `connection_lost`
            # does not call uvicorn until ``_handshake`` is None.
            self.connection_lost(None)
            self._handshake = None
            return
        self._handshake = None
        self._transport = encrypted
        super().connection_made(encrypted)
        for data in self._early_bytes:
            self.data_received(data)
        self._early_bytes.clear()

    def _restart_deadline(self) -> None:
        """Give the current request and its answer the full time."""
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self._front.limits.exchange_s, self._abort_if_busy)

    def _abort_if_busy(self) -> None:
        """End the connection at its deadline, unless it is idle."""
        if self._is_busy or self._unsent:
            self.abort()
