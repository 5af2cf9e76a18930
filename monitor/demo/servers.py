"""The demo's web servers: both recommenders, and its on-call, which receives webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from monitor.demo.shop import Shop
from monitor.web.server import WebServer

HOST = "127.0.0.1"


@contextmanager
def serve_routes(*routes: BaseRoute, host: str = HOST, port: int = 0) -> Iterator[str]:
    """Serve the routes while the block lasts; gives the server's address, such as ``http://127.0.0.1:41234``.

    Port 0 stands for any that is free. ConfigError when the address cannot be used.
    """
    server = WebServer(Starlette(routes=routes), host, port)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


class Recommenders:
    """Both recommenders of a shop, under ``/baseline`` and ``/candidate``, with the lists of day 0 at first."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.retrain(0, is_broken=False)

    def retrain(self, day: int, *, is_broken: bool) -> None:
        """Train both models on the day and serve what they say from then on."""
        # Replaced as a whole, so that no answer mixes two trainings.
        self.lists = self.shop.lists(day, is_broken=is_broken)

    @property
    def route(self) -> Route:
        """Where lists are had: ``/{arm}/api/recommend/{user}``, best items first."""
        return Route("/{arm}/api/recommend/{user}", self._recommend)

    async def _recommend(self, request: Request) -> Response:
        items = self.lists.get(request.path_params["arm"], {}).get(request.path_params["user"])
        return JSONResponse({"error": "no such user"}, 404) if items is None else JSONResponse(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAlert:
    """One alert that a webhook reported as new. ``status`` is ``firing`` or ``resolved``."""

    at: datetime
    status: str
    alert: str
    segment: str


class OnCall:
    """Collects the alerts of webhooks, oldest first."""

    def __init__(self) -> None:
        self._by_firing: dict[tuple[str, str], ReceivedAlert] = {}

    @property
    def received(self) -> tuple[ReceivedAlert, ...]:
        """All so far; may be read from any thread."""
        return tuple(self._by_firing.copy().values())

    @property
    def route(self) -> Route:
        """Where webhooks are taken: ``/on-call/page``."""
        return Route("/on-call/page", self._take, methods=["POST"])

    async def _take(self, request: Request) -> Response:
        now = datetime.now(UTC)
        # A message lists all that fires, and names each firing by a key of its own: what is known is no news.
        for alert in json.loads(await request.body())["alerts"]:
            status, labels = alert["status"], alert["labels"]
            new = ReceivedAlert(at=now, status=status, alert=labels["alertname"], segment=labels["segment"])
            self._by_firing.setdefault((alert["annotations"]["dedup_key"], status), new)
        return Response(status_code=204)
