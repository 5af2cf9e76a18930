"""The demo's on-call: takes webhooks, checks their signatures, and keeps what it was told and did not know."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from monitor.receivers.webhook import verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert that a webhook told as new. ``status`` is ``firing`` or ``resolved``; all is None in what is not signed."""

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
        self._told: dict[str, str] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All so far, oldest first."""
        with self._lock:
            return tuple(self._notices)

    def app(self) -> web.Application:
        """The web application: takes a POST on ``/page``."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/page", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        body, now = await request.read(), datetime.now(UTC)
        is_signed = verify(self._secret, request.headers, body, now=now)
        with self._lock:
            self._notices += self._news(body, now) if is_signed else [Notice(at=now, is_signed=False)]
        return web.Response(status=204 if is_signed else 401)

    def _news(self, body: bytes, now: datetime) -> list[Notice]:
        """What was not known yet: a message lists all that fires, and names each firing by a key of its own."""
        news = []
        for alert in json.loads(body)["alerts"]:
            key, status, labels = alert["annotations"]["dedup_key"], alert["status"], alert["labels"]
            if self._told.get(key) != status:
                news.append(Notice(at=now, is_signed=True, status=status, alert=labels["alertname"], segment=labels["segment"]))
            self._told[key] = status
        return news
