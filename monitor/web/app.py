"""The routes: pages for people, the same as JSON, /metrics, /-/healthy, /-/ready and /-/reload."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any, Protocol

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from monitor.errors import ConfigError, DatabaseError, InputError, MonitorError, SourceError
from monitor.web.forms import (
    GATE,
    OUTCOMES,
    SERVER_ANSWERS,
    Form,
    FormTokens,
    act,
    answer_gate,
    describe_gate,
    read_form,
)
from monitor.web.pages import PAGES, PARAMETERS, AbsentPageError, Page, Query, Site
from monitor.web.pages.rendering import read_static, render
from monitor.web.pages.site import UnanswerableError, alert_url
from monitor.web.server import IS_AUTHENTICATED, MUST_AUTHENTICATE, PLAIN_HEADERS, RELOAD, USER

Metrics = Callable[[str, str], tuple[bytes, Mapping[str, str]]]
"""Makes the metrics page for the request's Accept and Accept-Encoding: its body and headers. Called in a worker thread."""

Reload = Callable[[], bool]
"""Reads the configuration again.

False when the old one stays in force. Called in a worker thread, one at a time.
"""

_HEALTH_S = 5.0
_RENDERERS = 2
_SCRAPES = 32
_READERS = 4
_PAGE_S = 20.0
_OURS = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HTML = {**PLAIN_HEADERS, "Content-Security-Policy": _OURS, "Referrer-Policy": "same-origin"}
_FAILURES: tuple[tuple[type[MonitorError], int, str], ...] = (
    (AbsentPageError, 404, "not here"),
    (UnanswerableError, 409, "this comparison cannot answer that"),
    (SourceError, 503, "a source is away"),
    (DatabaseError, 503, "the database is away"),
    (MonitorError, 400, "this cannot be asked"),
)
"""Statuses and titles of errors: the first kind that fits."""
_STATIC = {
    "rankwatch.css": "text/css",
    "rankwatch.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Health(Protocol):
    """How the process is doing, asked in a worker thread.

    Later than 5 s is bad. Reasons are shown to clients: no secrets.
    """

    def unhealthy(self) -> str | None:
        """Why the process should be restarted.

        None while its loops are alive. Asks nothing outside the process.
        """

    def unready(self) -> str | None:
        """Why the process cannot do its work yet or just now.

        None once database and first publication are good.
        """


def create_app(*, site: Site, metrics: Metrics, health: Health, reload: Reload) -> Starlette:
    """The application over these, to be served behind a `RequestGuard`, which decides who may read everything and reload."""
    # Pages wait for few threads of their own: two hundred that are opened at once do not hold up a
    # scrape or a run.
    threads, tokens = CapacityLimiter(_READERS), FormTokens()
    form, html = _form(site, tokens, CapacityLimiter(1)), partial(_render, tokens)
    gate = _reader(site, CapacityLimiter(_READERS), partial(answer_gate, site), as_json=True)
    pages = [
        route
        for page in PAGES
        for route in (
            Route(
                page.path,
                _reader(site, threads, partial(html, page, site), as_json=False),
                name=page.template,
            ),
            Route(
                page.api,
                _reader(site, threads, partial(_to_json, page, site), as_json=True),
                name=page.api,
            ),
        )
    ]

    app = Starlette(
        routes=[
            *pages,
            *(Route(path, form, methods=["POST"]) for path in ("/alerts", "/alerts/{key}")),
            Route(GATE, gate, methods=["GET", "POST"]),
            Route(
                "/api/v1/openapi.json",
                lambda _: JSONResponse(describe_api(), headers=PLAIN_HEADERS),
            ),
            Route("/static/{name}", _static),
            Route("/metrics", _scraper(metrics)),
            Route("/-/healthy", _probe(health.unhealthy, "healthy")),
            Route("/-/ready", _probe(health.unready, "ready")),
            Route(RELOAD, _reloader(reload), methods=["POST"]),
        ]
    )
    app.router.redirect_slashes = False  # to whatever host the client names
    return app


def _shown(page: Page, site: Site, request: Request) -> Any:  # noqa: ANN401 - what any page shows
    return page.read(site, Query(path=request.path_params, chosen=request.query_params))


def _reader(
    site: Site, threads: CapacityLimiter, read: Callable[[Request], Response], *, as_json: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        fail = partial(_fail, site, as_json=as_json)
        try:
            with move_on_after(_PAGE_S):
                return await run_sync(read, request, limiter=threads, abandon_on_cancel=True)
            return fail(
                504,
                "this took too long",
                f"not read within {_PAGE_S:g} s: choose a shorter period, or ask again",
            )
        except (ConfigError, InputError, SourceError, DatabaseError) as error:
            return fail(*_explain(error))

    return endpoint


def _explain(error: MonitorError) -> tuple[int, str, str]:
    """Status, title and reason of the answer where this error was raised."""
    reason = str(error)
    if isinstance(error, DatabaseError):
        reason += ". The overview shows what was last known."
    status, title = next(
        (status, title) for kind, status, title in _FAILURES if isinstance(error, kind)
    )
    return status, title, reason


def _render(tokens: FormTokens, page: Page, site: Site, request: Request) -> Response:
    shown = _shown(page, site, request)
    user, outcome = request.scope[USER], OUTCOMES.get(request.query_params.get("done", ""))
    token = None if user is None else tokens.issue(user, site.clock.now().isoformat())
    shown = {"page": shown, "prefix": site.prefix, "user": user, "token": token, "outcome": outcome}
    return HTMLResponse(render(page.template, **shown), headers=_HTML)


def _form(
    site: Site, tokens: FormTokens, thread: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    """Does what a form asks for, and leads back to the page on which it stood."""

    async def endpoint(request: Request) -> Response:
        user, key = request.scope[USER], request.path_params.get("key", "")
        fail = partial(_fail, site, as_json=False)
        if user is None:
            return fail(
                403, "nothing was changed", f"to change anything here needs {MUST_AUTHENTICATE}"
            )
        try:
            fields = await read_form(request)
            form = Form(
                user=user,
                issued=tokens.verify(fields.get("token", ""), user),
                key=key,
                fields=fields,
            )
            outcome = await run_sync(act, site, form, limiter=thread)
        except HTTPException as error:
            return fail(error.status_code, "nothing was changed", error.detail)
        except ConfigError as error:
            return fail(422, "nothing was changed", str(error))
        except DatabaseError as error:
            return fail(
                503,
                "the database is away",
                f"{error}. Look whether it was done before you try again.",
            )
        return RedirectResponse(
            f"{site.prefix}{alert_url(key) if key else '/alerts'}?done={outcome}",
            303,
            PLAIN_HEADERS,
        )

    return endpoint


def _to_json(page: Page, site: Site, request: Request) -> Response:
    body = _adapter(page.shows).dump_json(_shown(page, site, request))
    return Response(body, media_type="application/json", headers=PLAIN_HEADERS)


def _fail(site: Site, status: int, title: str, reason: str, *, as_json: bool) -> Response:
    if as_json:
        return JSONResponse({"error": title, "reason": reason}, status, headers=PLAIN_HEADERS)
    return HTMLResponse(
        render("absent.html", title=title, reason=reason, prefix=site.prefix), status, headers=_HTML
    )


@cache
def _adapter(shows: type) -> TypeAdapter[Any]:
    return TypeAdapter(shows)


@cache
def describe_api() -> dict[str, Any]:
    """The OpenAPI description of the pages as JSON, and of the gate."""
    paths: dict[str, Any] = {GATE: describe_gate()}
    schemas: dict[str, Any] = {}
    for page in PAGES:
        schema = _adapter(page.shows).json_schema(
            mode="serialization", ref_template="#/components/schemas/{model}"
        )
        schemas |= schema.pop("$defs", {})
        schemas[page.shows.__name__] = schema
        paths[page.api] = {"get": _describe_page(page)}
    info = {"title": "rankwatch", "version": "1", "description": "What the pages show, as JSON."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _describe_page(page: Page) -> dict[str, Any]:
    text = {"type": "string"}
    names = [part.strip("{}") for part in page.api.split("/") if part.startswith("{")]
    of_path = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
    of_query = [
        {
            "name": name,
            "in": "query",
            "required": name in page.required,
            "description": PARAMETERS[name],
            "schema": text,
        }
        for name in (*page.required, *page.optional)
    ]
    statuses = {
        "400": "This cannot be asked.",
        "404": "There is no such comparison, run, user or incident.",
        **SERVER_ANSWERS,
    }
    content = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{page.shows.__name__}"}}
    }
    failures = {status: {"description": description} for status, description in statuses.items()}
    return {
        "summary": (page.read.__doc__ or "").splitlines()[0],
        "parameters": [*of_path, *of_query],
        "responses": {
            "200": {"description": "What the page shows.", "content": content},
            **failures,
        },
    }


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return PlainTextResponse("no such file\n", 404, headers=PLAIN_HEADERS)
    headers = {**PLAIN_HEADERS, "Cache-Control": "max-age=3600"}
    return Response(read_static(name), media_type=_STATIC[name], headers=headers)


def _scraper(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    # Few threads render; scrapes that would wait behind too many are refused rather than kept.
    threads, under_way = CapacityLimiter(_RENDERERS), CapacityLimiter(_SCRAPES)

    async def page(request: Request) -> Response:
        if not under_way.available_tokens:
            return PlainTextResponse(
                "too many scrapes at once\n", 503, headers={**PLAIN_HEADERS, "Retry-After": "1"}
            )
        accept, encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))
        async with under_way:
            body, headers = await run_sync(
                metrics, accept, encoding, limiter=threads, abandon_on_cancel=True
            )
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
            "not reloaded, the old configuration stays in force: see the log\n",
            500,
            headers=PLAIN_HEADERS,
        )

    return page
