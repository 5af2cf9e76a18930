"""The routes: pages, their data as JSON, /metrics, /-/healthy, /-/ready and /-/reload."""

import re
from collections.abc import Callable, Mapping
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

from monitor.model.errors import ConfigError, DatabaseError, InputError, MonitorError, SourceError
from monitor.web.documentation import ABSENT_MESSAGE, Documentation
from monitor.web.forms import (
    FAILURE,
    FORM_RESULTS,
    GATE,
    Form,
    FormTokens,
    answer_gate,
    describe_failures,
    describe_gate,
    execute_form,
    read_form,
    require_user,
)
from monitor.web.pages import MENU, PAGES, Page, PageRequest, Site
from monitor.web.pages.parameters import describe_path, describe_query, read_query
from monitor.web.pages.rendering import read_static, render
from monitor.web.pages.site import (
    AbsentPageError,
    ForbiddenError,
    SlowPageError,
    UnanswerableError,
    alert_url,
)
from monitor.web.server import (
    CLIENT_NAME,
    IS_AUTHENTICATED,
    PLAIN_HEADERS,
    plain_answer,
)

RenderMetrics = Callable[[str, str], tuple[bytes, Mapping[str, str]]]
"""Returns body and headers of the metrics page for these headers Accept and Accept-Encoding.

It is called in a worker thread.
"""

ReadSite = Callable[[], Site]
"""Returns the data for one request for a page. It never waits."""

Reload = Callable[[], bool]
"""Reads the configuration again. Returns False if it was refused and the old one stays in use.

It is called in a worker thread, and never twice at the same time.
"""

OPENAPI_PATH = "/api/v1/openapi.json"
_HEALTH_S = 5.0
_RENDER_THREADS = 2
_PROBE_THREADS = 2
_MOST_SCRAPES = 32
_READ_THREADS = 4
_PAGE_S = 20.0
_CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_PAGE_HEADERS = {
    **PLAIN_HEADERS,
    "Content-Security-Policy": _CONTENT_POLICY,
    "Referrer-Policy": "same-origin",
}
_DOCUMENT_HEADERS = {
    # The theme's style sheet contains its icons as data.
    "Content-Security-Policy": _CONTENT_POLICY.replace("img-src 'self'", "img-src 'self' data:"),
    # A browser asks again each time, and gets 304 unless rankwatch was upgraded.
    "Cache-Control": "private, no-cache",
}
_FAILURES: tuple[tuple[type[MonitorError], int, str], ...] = (
    (AbsentPageError, 404, "not here"),
    (UnanswerableError, 409, "this comparison cannot answer that"),
    (ForbiddenError, 403, "nothing was changed"),
    (SlowPageError, 504, "the page took too long"),
    (SourceError, 503, "a source does not answer"),
    (DatabaseError, 503, "the database is away"),
    (MonitorError, 400, "this request cannot be answered"),
)
"""The status and the title of the answer for each kind of error. The first match is used.

The last row matches every error that has no row of its own.
"""
_ANSWERS = {
    "400": "A parameter is missing or cannot be read.",
    "404": "The comparison, run, user or incident does not exist.",
}
"""What the statuses of pages mean, in addition to `SERVER_ANSWERS`."""
_STATIC = {
    "rankwatch.css": "text/css",
    "rankwatch.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Health(Protocol):
    """The state of the process. Its methods are called in a worker thread.

    If a method does not return within 5 s, the probe fails. The returned reasons contain no
    secrets, because clients see them.
    """

    def unhealthy(self) -> str | None:
        """Return why the process should be restarted, or None while its loops are alive.

        This does not depend on anything outside the process.
        """

    def unready(self) -> str | None:
        """Return why the process cannot work now.

        Returns None if the database answers and the first results were published.
        """


def create_app(
    *,
    site: ReadSite,
    metrics: RenderMetrics,
    health: Health,
    reload: Reload,
    documentation: Documentation | None = None,
) -> Starlette:
    """Return the application. Each request calls ``site`` once for the data of pages.

    ``documentation`` is the site at /docs/. By default it is the site in the package. `WebServer`
    wraps the application in a `RequestGuard`, which decides who may read everything and who may
    reload.
    """
    documentation = documentation or Documentation()
    # Pages have a few threads of their own, so that many requests for pages delay no scrape.
    threads = CapacityLimiter(_READ_THREADS)
    tokens = FormTokens()
    routes = []
    for page in PAGES:
        html = partial(_answer_in_thread, threads, partial(_answer_page, tokens, page, site))
        as_json = partial(_answer_in_thread, threads, partial(_answer_json, page, site))
        routes.append(Route(page.path, html, name=page.template))
        routes.append(Route(page.api, as_json, name=page.api))
    # Forms are executed one at a time, and so are reloads. All others have their own threads, so
    # that nothing waits for pages, and a probe does not wait for the other probe.
    form = partial(_answer_form, site, tokens, CapacityLimiter(1))
    gate = partial(_answer_in_thread, CapacityLimiter(_READ_THREADS), partial(answer_gate, site))
    docs = partial(
        _answer_in_thread,
        CapacityLimiter(_READ_THREADS),
        partial(_answer_document, site, documentation),
    )
    # Few threads render metrics.
    scrape = partial(
        _answer_scrape, metrics, CapacityLimiter(_MOST_SCRAPES), CapacityLimiter(_RENDER_THREADS)
    )
    healthy = partial(_answer_probe, "healthy", health.unhealthy, CapacityLimiter(_PROBE_THREADS))
    ready = partial(_answer_probe, "ready", health.unready, CapacityLimiter(_PROBE_THREADS))
    routes += [
        Route("/alerts", form, methods=["POST"]),
        Route("/alerts/{key}", form, methods=["POST"]),
        Route(GATE, gate, methods=["GET", "POST"]),
        Route(OPENAPI_PATH, _answer_openapi),
        Route("/static/{name}", _answer_static),
        Route("/docs", docs),
        Route("/docs/{path:path}", docs),
        Route("/metrics", scrape),
        Route("/-/healthy", healthy),
        Route("/-/ready", ready),
        Route("/-/reload", partial(_answer_reload, reload, CapacityLimiter(1)), methods=["POST"]),
    ]
    # Each handler also handles the subclasses of its kind of error, such as AbsentPageError.
    handlers: dict[Any, Any] = {HTTPException: _refuse_address}
    for kind in (ConfigError, InputError, SourceError, DatabaseError):
        handlers[kind] = partial(_answer_error, site)
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # redirects would go to any host in the header Host
    return app


def _read_page(page: Page, site: Site, request: Request) -> Any:  # noqa: ANN401 - of any page
    """Return the data of the page for this request, an object of the type ``page.data_type``."""
    parameters = read_query(page.query, request).model_dump(by_alias=True, exclude_unset=True)
    return page.read(site, PageRequest(path=request.path_params, chosen=parameters))


async def _answer_in_thread(
    threads: CapacityLimiter, read: Callable[[Request], Response], request: Request
) -> Response:
    """Call ``read`` in a thread, and wait at most `_PAGE_S` seconds for its answer."""
    with move_on_after(_PAGE_S):
        return await run_sync(read, request, limiter=threads, abandon_on_cancel=True)
    # This is reached only if the time is over.
    raise SlowPageError(f"no data within {_PAGE_S:g} s: choose a shorter period, or try again")


async def _answer_error(read_site: ReadSite, request: Request, error: MonitorError) -> Response:
    """Answer with the reason for the error, as JSON or as a page."""
    reason = str(error)
    if isinstance(error, DatabaseError):
        reason += ". The overview shows the last state."
    status, title = next(
        (status, title) for kind, status, title in _FAILURES if isinstance(error, kind)
    )
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": title, "reason": reason}, status, headers=PLAIN_HEADERS)
    return _error_page(read_site().prefix, status, title, reason)


def _answer_page(tokens: FormTokens, page: Page, read_site: ReadSite, request: Request) -> Response:
    """Answer with the page as HTML. Users who may change something get a token for its forms."""
    site = read_site()
    user = request.scope[CLIENT_NAME]
    token = None
    if user is not None:
        token = tokens.issue(user, site.clock.now().isoformat())
    body = render(
        page.template,
        page=_read_page(page, site, request),
        prefix=site.prefix,
        menu=MENU,
        user=user,
        token=token,
        outcome=FORM_RESULTS.get(request.query_params.get("done", "")),
    )
    return HTMLResponse(body, headers=_PAGE_HEADERS)


async def _answer_form(
    read_site: ReadSite, tokens: FormTokens, threads: CapacityLimiter, request: Request
) -> Response:
    """Execute a form in ``threads``, and then redirect to the page with the form.

    If a form cannot be executed, answer with the reason.
    """
    user = require_user(request)
    site = read_site()
    # The page of one incident has the incident's key in its address.
    incident = request.path_params.get("key", "")
    try:
        fields = await read_form(request)
        shown_at = tokens.verify(fields.get("token", ""), user)
        form = Form(user=user, shown_at=shown_at, incident=incident, fields=fields)
        outcome = await run_sync(execute_form, site, form, limiter=threads)
    except ConfigError as error:
        return _error_page(site.prefix, 422, "nothing was changed", str(error))
    except DatabaseError as error:
        reason = f"{error}. Before you try again, check whether the change was made."
        return _error_page(site.prefix, 503, "the database is away", reason)
    path = alert_url(incident) if incident else "/alerts"
    # With status 303 the browser loads the page and does not send the form again.
    return RedirectResponse(f"{site.prefix}{path}?done={outcome}", 303, PLAIN_HEADERS)


def _answer_json(page: Page, read_site: ReadSite, request: Request) -> Response:
    body = _adapter(page.data_type).dump_json(_read_page(page, read_site(), request))
    return Response(body, media_type="application/json", headers=PLAIN_HEADERS)


async def _refuse_address(request: Request, error: Exception) -> Response:
    """Refuse a request whose address has no route, or whose method the route does not accept."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this error only
    headers = {**PLAIN_HEADERS, **(error.headers or {})}
    if not request.url.path.startswith("/api/"):
        return PlainTextResponse(error.detail, error.status_code, headers=headers)
    return JSONResponse(
        {"error": error.detail, "reason": f"see {OPENAPI_PATH}"}, error.status_code, headers=headers
    )


def _error_page(prefix: str, status: int, title: str, reason: str) -> Response:
    body = render("absent.html", title=title, reason=reason, prefix=prefix, menu=MENU)
    return HTMLResponse(body, status, headers=_PAGE_HEADERS)


@cache
def _adapter(data_type: type) -> TypeAdapter[Any]:
    return TypeAdapter(data_type)


@cache
def describe_api() -> dict[str, Any]:
    """Return the OpenAPI description of the gate, and of the pages' data as JSON."""
    paths: dict[str, Any] = {GATE: describe_gate()}
    schemas: dict[str, Any] = {"Failure": FAILURE}
    for page in PAGES:
        schema = _adapter(page.data_type).json_schema(
            mode="serialization", ref_template="#/components/schemas/{model}"
        )
        schemas |= schema.pop("$defs", {})
        schemas[page.data_type.__name__] = schema
        paths[page.api] = {"get": _describe_page(page)}
    info = {"title": "rankwatch", "version": "1", "description": "The data of the pages as JSON."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _describe_page(page: Page) -> dict[str, Any]:
    """Describe the data of the page in OpenAPI."""
    path_names = re.findall("{([a-z]+)}", page.api)
    parameters = [*map(describe_path, path_names), *describe_query(page.query)]
    content = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{page.data_type.__name__}"}}
    }
    return {
        # The first line of the docstring says what the page has.
        "summary": (page.read.__doc__ or "").splitlines()[0],
        "parameters": parameters,
        "responses": {
            "200": {"description": "The data of the page.", "content": content},
            **describe_failures(_ANSWERS),
        },
    }


async def _answer_openapi(_: Request) -> Response:
    return JSONResponse(describe_api(), headers=PLAIN_HEADERS)


async def _answer_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return plain_answer(404, "no such file")
    headers = {**PLAIN_HEADERS, "Cache-Control": "max-age=3600"}
    return Response(read_static(name), media_type=_STATIC[name], headers=headers)


def _answer_document(
    read_site: ReadSite, documentation: Documentation, request: Request
) -> Response:
    """Answer with a file of the documentation."""
    prefix = read_site().prefix
    path = request.path_params.get("path")  # None for /docs without a slash at its end
    if path is None or documentation.lacks_slash(path):
        folder = f"{path}/" if path else ""
        return RedirectResponse(f"{prefix}/docs/{folder}", 308, PLAIN_HEADERS)
    file = documentation.read(path)
    if file is None:
        if documentation.is_built:
            reason = f"There is no such page. Start at {prefix}/docs/."
        else:
            reason = ABSENT_MESSAGE
        return _error_page(prefix, 404, "no documentation here", reason)
    headers = {**_PAGE_HEADERS, **_DOCUMENT_HEADERS, "ETag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


async def _answer_scrape(
    metrics: RenderMetrics, scrapes: CapacityLimiter, threads: CapacityLimiter, request: Request
) -> Response:
    """Answer with the metrics. Refuse a scrape if too many other ``scrapes`` already wait."""
    if not scrapes.available_tokens:
        return plain_answer(503, "too many scrapes at once", {"Retry-After": "1"})
    accept = request.headers.get("accept", "")
    encoding = request.headers.get("accept-encoding", "")
    async with scrapes:
        body, headers = await run_sync(
            metrics,
            accept,
            encoding,
            limiter=threads,
            abandon_on_cancel=True,
        )
    return Response(body, headers={**PLAIN_HEADERS, **headers})


async def _answer_probe(
    state: str,
    find_problem: Callable[[], str | None],
    threads: CapacityLimiter,
    request: Request,
) -> Response:
    """Answer 200 if the daemon is in this state, and else 503.

    ``find_problem`` returns why the daemon is not in this state, or else None. Only authenticated
    clients get this text.
    """
    problem: str | None = None
    with move_on_after(_HEALTH_S) as time_limit:
        problem = await run_sync(find_problem, limiter=threads, abandon_on_cancel=True)
    if time_limit.cancelled_caught:
        problem = f"no answer within {_HEALTH_S:g} s"
    if problem is None:
        return plain_answer(200, state)
    if not request.scope[IS_AUTHENTICATED]:
        return plain_answer(503, f"not {state}")
    return plain_answer(503, f"not {state}: {problem}")


async def _answer_reload(reload: Reload, threads: CapacityLimiter, request: Request) -> Response:
    """Read the configuration again."""
    require_user(request)
    if await run_sync(reload, limiter=threads):
        return plain_answer(200, "configuration reloaded")
    return plain_answer(500, "not reloaded, the old configuration stays in use: see the log")
