"""How much of the server one client may take."""

from __future__ import annotations

from dataclasses import dataclass


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
