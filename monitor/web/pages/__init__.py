"""The pages for people, and the same as JSON: a function reads what a page shows, a template shows it.

A new page is a module with its reading function, a template, and a line in `PAGES`; a forgotten template fails a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monitor.web.pages.alerts import AlertPage, AlertsPage, read_alert_page, read_alerts_page
from monitor.web.pages.comparison import ComparisonPage, read_comparison_page
from monitor.web.pages.overview import DaemonPage, Overview, read_daemon_page, read_overview_page
from monitor.web.pages.run import RunPage, UserPage, read_run_page, read_user_page
from monitor.web.pages.site import AbsentPageError, Query, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: where it lies as HTML and as JSON, what it shows, and its template."""

    path: str
    api: str
    read: Callable[[Site, Query], Any]
    shows: type
    template: str


_COMPARISON, _API = "/c/{name}", "/api/v1/comparisons"
PAGES = (
    Page(path="/", api=_API, read=read_overview_page, shows=Overview, template="overview.html"),
    Page(path=_COMPARISON, api=f"{_API}/{{name}}", read=read_comparison_page, shows=ComparisonPage, template="comparison.html"),
    Page(
        path=f"{_COMPARISON}/runs/{{slot}}",
        api=f"{_API}/{{name}}/runs/{{slot}}",
        read=read_run_page,
        shows=RunPage,
        template="run.html",
    ),
    Page(path=f"{_COMPARISON}/users", api=f"{_API}/{{name}}/users", read=read_user_page, shows=UserPage, template="user.html"),
    Page(
        path=f"{_COMPARISON}/users/{{user}}",
        api=f"{_API}/{{name}}/users/{{user}}",
        read=read_user_page,
        shows=UserPage,
        template="user.html",
    ),
    Page(path="/alerts", api="/api/v1/alerts", read=read_alerts_page, shows=AlertsPage, template="alerts.html"),
    Page(path="/alerts/{key}", api="/api/v1/alerts/{key}", read=read_alert_page, shows=AlertPage, template="alert.html"),
    Page(path="/daemon", api="/api/v1/daemon", read=read_daemon_page, shows=DaemonPage, template="daemon.html"),
)
