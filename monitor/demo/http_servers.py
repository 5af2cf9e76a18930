"""HTTP servers for one block of the demo, and its on-call, which receives webhooks and checks their signatures."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from monitor.receivers.webhook import verify
from monitor.web.server import WebServer

HOST = "127.0.0.1"


@contextmanager
def serve_app(app: Starlette, host: str = HOST, port: int = 0) -> Iterator[str]:
    """Serve the application while the block lasts; gives its address, such as ``http://127.0.0.1:41234``.

    Port 0 stands for any that is free. ConfigError when the address cannot be used.
    """
    server = WebServer(app, host, port)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAlert:
    """One alert that a webhook reported as new. ``status`` is ``firing`` or ``resolved``; all is None in what is not signed."""

    at: datetime
    is_signed: bool
    status: str | None = None
    alert: str | None = None
    segment: str | None = None


class OnCallServer:
    """Collects the alerts of webhooks; ``received`` may be read from any thread."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._received: list[ReceivedAlert] = []
        self._statuses: dict[str, str] = {}

    @property
    def received(self) -> tuple[ReceivedAlert, ...]:
        """All so far, oldest first."""
        with self._lock:
            return tuple(self._received)

    def app(self) -> Starlette:
        """The web application: takes a POST on ``/page``."""
        return Starlette(routes=[Route("/page", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        body, now = await request.body(), datetime.now(UTC)
        is_signed = verify(self._secret, request.headers, body, now=now)
        with self._lock:
            self._received += self._new_alerts(body, now) if is_signed else [ReceivedAlert(at=now, is_signed=False)]
        return Response(status_code=204 if is_signed else 401)

    def _new_alerts(self, body: bytes, now: datetime) -> list[ReceivedAlert]:
        """Alerts that were not known yet."""
        found = []
        # A message lists all that fires, and names each firing by a key of its own.
        for alert in json.loads(body)["alerts"]:
            key, status, labels = alert["annotations"]["dedup_key"], alert["status"], alert["labels"]
            if self._statuses.get(key) != status:
                found.append(
                    ReceivedAlert(at=now, is_signed=True, status=status, alert=labels["alertname"], segment=labels["segment"])
                )
            self._statuses[key] = status
        return found
