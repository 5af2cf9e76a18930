"""The pages: /metrics, /-/healthy, /-/ready, and one that links them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

Metrics = Callable[[str, str], tuple[bytes, Mapping[str, str]]]
"""Makes the metrics page for the request's Accept and Accept-Encoding: its body and headers. Called in a worker thread."""

_HEALTH_S = 5.0
_RENDERERS = 2
_SCRAPES = 32
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LANDING = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>rankwatch</title></head>
<body>
<h1>rankwatch</h1>
<p>Watches how far two recommenders drift apart.</p>
<ul>
<li><a href="metrics">metrics</a>: what Prometheus scrapes</li>
<li><a href="-/healthy">healthy</a>: whether the process works</li>
<li><a href="-/ready">ready</a>: whether it has its database and shows results</li>
</ul>
</body>
</html>
"""


class Health(Protocol):
    """How the process is doing. Called in a worker thread; an answer that takes longer than 5 s counts as a bad one.

    Reasons are shown to whoever asks: they hold no secret.
    """

    def unhealthy(self) -> str | None:
        """Why the process should be restarted; None while its loops are alive. Asks nobody outside the process."""

    def unready(self) -> str | None:
        """Why the process cannot do its work yet or just now; None once database and first publication are good."""


def create_app(*, metrics: Metrics, health: Health) -> Starlette:
    """The application over these two."""
    return Starlette(
        routes=[
            Route("/", _landing),
            Route("/metrics", _MetricsPage(metrics).answer),
            Route("/-/healthy", _probe(health.unhealthy, "healthy")),
            Route("/-/ready", _probe(health.unready, "ready")),
        ]
    )


async def _landing(_: Request) -> Response:
    return HTMLResponse(_LANDING, headers={**_HEADERS, "Content-Security-Policy": "default-src 'none'"})


class _MetricsPage:
    """Renders in few threads; turns away who would have to wait behind too many."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._threads = CapacityLimiter(_RENDERERS)
        self._open = 0

    async def answer(self, request: Request) -> Response:
        if self._open >= _SCRAPES:
            return PlainTextResponse("too many scrapes at once\n", 503, headers={**_HEADERS, "Retry-After": "1"})
        accept, encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))
        self._open += 1
        try:
            body, headers = await run_sync(self._metrics, accept, encoding, limiter=self._threads, abandon_on_cancel=True)
        finally:
            self._open -= 1
        return Response(body, headers={**_HEADERS, **headers})


def _probe(ask: Callable[[], str | None], word: str) -> Callable[[Request], Awaitable[Response]]:
    threads = CapacityLimiter(_RENDERERS)

    async def page(_: Request) -> Response:
        reason: str | None = f"no answer within {_HEALTH_S:g} s"
        with move_on_after(_HEALTH_S):
            reason = await run_sync(ask, limiter=threads, abandon_on_cancel=True)
        text, status = (f"{word}\n", 200) if reason is None else (f"not {word}: {reason}\n", 503)
        return PlainTextResponse(text, status, headers=_HEADERS)

    return page
