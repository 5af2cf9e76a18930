"""Pages for people, and the same data as JSON.

A module reads the data of a page, and a template shows it. `PAGES` lists both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monitor.web.pages.alerts import AlertPage, AlertsPage, read_alert_page, read_alerts_page
from monitor.web.pages.comparison import ComparisonPage, read_comparison_page
from monitor.web.pages.overview import DaemonPage, Overview, read_daemon_page, read_overview_page
from monitor.web.pages.parameters import (
    AlertsQuery,
    ComparisonQuery,
    NamedUserQuery,
    PageQuery,
    UserQuery,
)
from monitor.web.pages.run import RunPage, UserPage, read_run_page, read_user_page
from monitor.web.pages.site import PageRequest, Site


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its path, the function that reads its data, and its template.

    ``data_type`` is the type of the data. ``query`` describes the parameters. ``menu`` is the text
    of the page's link in the header of all pages.
    """

    path: str
    read: Callable[[Site, PageRequest], Any]
    data_type: type
    template: str
    query: type[PageQuery] = PageQuery
    menu: str | None = None

    @property
    def api(self) -> str:
        """The path of the data as JSON. For the overview it is /api/v1/comparisons."""
        if self.path == "/":
            return "/api/v1/comparisons"
        return f"/api/v1{self.path}".replace("/v1/c/", "/v1/comparisons/")


PAGES = (
    Page("/", read_overview_page, Overview, "overview.html", menu="comparisons"),
    Page("/c/{name}", read_comparison_page, ComparisonPage, "comparison.html", ComparisonQuery),
    Page("/c/{name}/runs/{slot}", read_run_page, RunPage, "run.html"),
    Page("/c/{name}/users", read_user_page, UserPage, "user.html", NamedUserQuery),
    Page("/c/{name}/users/{user}", read_user_page, UserPage, "user.html", UserQuery),
    Page("/alerts", read_alerts_page, AlertsPage, "alerts.html", AlertsQuery, "alerts"),
    Page("/alerts/{key}", read_alert_page, AlertPage, "alert.html"),
    Page("/daemon", read_daemon_page, DaemonPage, "daemon.html", menu="daemon"),
)
MENU = tuple(page for page in PAGES if page.menu is not None)
"""The pages that the header of every page links."""
