"""uvicorn's HTTP protocol with a deadline for every exchange and a bound on open connections; it has neither of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from monitor.web.limits import Limits


class GuardedProtocol(H11Protocol):
    """One connection. Slow senders, slow readers and the silent are aborted; idle keep-alive is left to uvicorn's timer."""

    limits = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's arguments, passed through
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_busy = True
        self._born = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrowed as uvicorn does
        """Take the connection, and let another go where there are too many."""
        super().connection_made(transport)
        self._arm()
        stay = [one for one in self.connections if isinstance(one, GuardedProtocol) and not one.transport.is_closing()]
        if len(stay) > self.limits.connections:
            stay.remove(self)
            (_gives_way(stay) or self).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Start a new exchange if the last one is over; more bytes of the same do not extend its time."""
        if not self._is_busy and not self.transport.get_write_buffer_size():
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

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        super().connection_lost(exc)

    @property
    def is_answering(self) -> bool:
        """Whether a whole request has come and its answer is being made."""
        return self._has_asked and not self.cycle.response_complete

    @property
    def _has_asked(self) -> bool:
        return bool(self.cycle)  # uvicorn's annotation hides that it is None before the first request

    @property
    def claim_to_stay(self) -> tuple[bool, float]:
        """Who has never asked anything goes before who has; then the older goes."""
        return self._has_asked, self._born

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(self.limits.exchange_s, self._cut_off)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self) -> None:
        if self._is_busy or self.transport.get_write_buffer_size():
            self.transport.abort()


def _gives_way(connections: Iterable[GuardedProtocol]) -> GuardedProtocol | None:
    waiting = (one for one in connections if not one.is_answering)
    return min(waiting, key=lambda one: one.claim_to_stay, default=None)


def guarded(limits: Limits) -> type[GuardedProtocol]:
    """The protocol with these limits, as uvicorn wants it: a class."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})
