"""The demo's on-call: takes webhooks, checks their signatures, and keeps what it was told."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from monitor.receivers.webhook import verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One webhook as it came in. ``status`` is ``firing`` or ``resolved``; the rest is None in a notice that is not signed."""

    at: datetime
    is_signed: bool
    status: str | None = None
    alert: str | None = None
    segment: str | None = None


class OnCall:
    """Collects notices; ``notices`` may be read from any thread."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._notices: list[Notice] = []

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All so far, oldest first."""
        with self._lock:
            return tuple(self._notices)

    def app(self) -> web.Application:
        """The web application: takes a POST on ``/page``."""
        app = web.Application(client_max_size=64 * 1024)
        app.router.add_post("/page", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        notice = self._read(request.headers, await request.read())
        with self._lock:
            self._notices.append(notice)
        return web.Response(status=204 if notice.is_signed else 401)

    def _read(self, headers: Mapping[str, str], body: bytes) -> Notice:
        now = datetime.now(UTC)
        if not verify(self._secret, headers, body, now=now):
            return Notice(at=now, is_signed=False)
        told = json.loads(body)
        return Notice(at=now, is_signed=True, status=told["status"], alert=told["alert"], segment=told["segment"])
