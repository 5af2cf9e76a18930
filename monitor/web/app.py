"""The routes: /metrics, /-/healthy, /-/ready, /-/reload, and for people a page of all comparisons and one of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from monitor.model import LatestRun
from monitor.web.pages import render_comparison, render_index
from monitor.web.request_guard import IS_AUTHENTICATED, PLAIN_HEADERS, RELOAD

Metrics = Callable[[str, str], tuple[bytes, Mapping[str, str]]]
"""Makes the metrics page for the request's Accept and Accept-Encoding: its body and headers. Called in a worker thread."""

Latest = Callable[[], Sequence[LatestRun]]
"""What was last published of each comparison; from memory, at once."""

Notice = Callable[[], str | None]
"""What people should know of this daemon before all else, as that it stands by; None when there is nothing. From memory."""

Reload = Callable[[], bool]
"""Reads the configuration again; False when the old one stays in force. Called in a worker thread, one at a time."""

_HEALTH_S = 5.0
_RENDERERS = 2
_SCRAPES = 32
_HTML = {**PLAIN_HEADERS, "Content-Security-Policy": "default-src 'none'"}


class Health(Protocol):
    """How the process is doing. Called in a worker thread; an answer that takes longer than 5 s counts as a bad one.

    Reasons are shown to clients that may read the pages: they hold no secret.
    """

    def unhealthy(self) -> str | None:
        """Why the process should be restarted; None while its loops are alive. Asks nothing outside the process."""

    def unready(self) -> str | None:
        """Why the process cannot do its work yet or just now; None once database and first publication are good."""


def create_app(*, metrics: Metrics, health: Health, latest: Latest, notice: Notice, reload: Reload) -> Starlette:
    """The application over these, to be served behind a `RequestGuard`, which decides who may read everything and reload."""
    # No parameter has a default: so mypy finds data that a page shows and the daemon does not hand over.

    async def index(_: Request) -> Response:
        return HTMLResponse(render_index(latest(), notice()), headers=_HTML)

    async def comparison(request: Request) -> Response:
        name = request.path_params["name"]
        found = next((each for each in latest() if each.run.comparison == name), None)
        if found is None:
            return PlainTextResponse("no such comparison, or no run of it has ended yet\n", 404, headers=PLAIN_HEADERS)
        return HTMLResponse(render_comparison(found), headers=_HTML)

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/comparisons/{name}", comparison),
            Route("/metrics", _scraper(metrics)),
            Route("/-/healthy", _probe(health.unhealthy, "healthy")),
            Route("/-/ready", _probe(health.unready, "ready")),
            Route(RELOAD, _reloader(reload), methods=["POST"]),
        ]
    )
    app.router.redirect_slashes = False  # to whatever host the client names
    return app


def _scraper(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    # Few threads render; scrapes that would wait behind too many are refused rather than kept.
    threads, under_way = CapacityLimiter(_RENDERERS), CapacityLimiter(_SCRAPES)

    async def page(request: Request) -> Response:
        if not under_way.available_tokens:
            return PlainTextResponse("too many scrapes at once\n", 503, headers={**PLAIN_HEADERS, "Retry-After": "1"})
        accept, encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))
        async with under_way:
            body, headers = await run_sync(metrics, accept, encoding, limiter=threads, abandon_on_cancel=True)
        return Response(body, headers={**PLAIN_HEADERS, **headers})

    return page


def _probe(ask: Callable[[], str | None], word: str) -> Callable[[Request], Awaitable[Response]]:
    threads = CapacityLimiter(_RENDERERS)

    async def page(request: Request) -> Response:
        reason: str | None = f"no answer within {_HEALTH_S:g} s"
        with move_on_after(_HEALTH_S):
            reason = await run_sync(ask, limiter=threads, abandon_on_cancel=True)
        if reason is None:
            return PlainTextResponse(f"{word}\n", headers=PLAIN_HEADERS)
        why = f": {reason}" if request.scope[IS_AUTHENTICATED] else ""
        return PlainTextResponse(f"not {word}{why}\n", 503, headers=PLAIN_HEADERS)

    return page


def _reloader(reload: Reload) -> Callable[[Request], Awaitable[Response]]:
    threads = CapacityLimiter(1)

    async def page(_: Request) -> Response:
        if await run_sync(reload, limiter=threads):
            return PlainTextResponse("configuration reloaded\n", headers=PLAIN_HEADERS)
        return PlainTextResponse(
            "not reloaded, the old configuration stays in force: see the log\n", 500, headers=PLAIN_HEADERS
        )

    return page
