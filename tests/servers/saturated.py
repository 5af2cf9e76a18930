"""A server that answers so many requests at once and collapses above: how long it takes, and one over sockets.

More than ``CAPACITY`` requests at once slow each other down so that fewer are answered; more than twice as many it refuses.
"""

import asyncio

CAPACITY, SERVICE_S = 16, 0.05


def seconds_for(at_once: int) -> float:
    """How long a request takes among as many."""
    return SERVICE_S * max(1.0, at_once / CAPACITY) ** 2


class Saturated(asyncio.Protocol):
    """One connection, a request after the other."""

    at_once = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        if Saturated.at_once >= 2 * CAPACITY:
            self._transport.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        else:
            Saturated.at_once += 1
            asyncio.get_running_loop().call_later(seconds_for(Saturated.at_once), self._answer)

    def _answer(self) -> None:
        Saturated.at_once -= 1
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]")
