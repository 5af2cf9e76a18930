"""Pages for people, and the same as JSON: a module reads what a page shows, a template shows it, and `PAGES` lists both."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monitor.web.pages.alerts import AlertPage, AlertsPage, read_alert_page, read_alerts_page
from monitor.web.pages.comparison import ComparisonPage, read_comparison_page
from monitor.web.pages.overview import DaemonPage, Overview, read_daemon_page, read_overview_page
from monitor.web.pages.run import RunPage, UserPage, read_run_page, read_user_page
from monitor.web.pages.site import AbsentPageError, Query, Site


@dataclass(frozen=True, slots=True)
class Page:
    """One page: where it lies as HTML, what reads it, what it shows, its template, and what its query may name."""

    path: str
    read: Callable[[Site, Query], Any]
    shows: type
    template: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Where it lies as JSON: the overview is the list of comparisons, whose own pages lie below it."""
        return "/api/v1" + re.sub("^/(c(?=/)|$)", "/comparisons", self.path)


PARAMETERS = {
    "metric": (
        "Metric to show; by default that of the newest run's first rule. An unknown one is ignored."
    ),
    "segment": "Segment to show, by default all users. An unknown one is ignored.",
    "period": "1d, 7d, 30d, 90d or 1y. Another one is ignored.",
    "from": "First slot, such as 2024-01-08T00:00:00Z, in place of a period.",
    "to": "Last slot, such as 2024-01-08T00:00:00Z; by default the newest.",
    "slot": "Slot of the run, such as 2024-01-08T00:00:00Z; by default the newest.",
    "id": "The user.",
}
"""What queries may name."""

PAGES = (
    Page("/", read_overview_page, Overview, "overview.html"),
    Page(
        "/c/{name}",
        read_comparison_page,
        ComparisonPage,
        "comparison.html",
        optional=("metric", "segment", "period", "from", "to"),
    ),
    Page("/c/{name}/runs/{slot}", read_run_page, RunPage, "run.html"),
    Page(
        "/c/{name}/users",
        read_user_page,
        UserPage,
        "user.html",
        required=("id",),
        optional=("slot",),
    ),
    Page("/c/{name}/users/{user}", read_user_page, UserPage, "user.html", optional=("slot",)),
    Page("/alerts", read_alerts_page, AlertsPage, "alerts.html"),
    Page("/alerts/{key}", read_alert_page, AlertPage, "alert.html"),
    Page("/daemon", read_daemon_page, DaemonPage, "daemon.html"),
)
