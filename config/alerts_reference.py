"""The table of rankwatch's own alerts in docs/runbooks/index.md."""

import re
from collections.abc import Mapping
from pathlib import Path

from monitor.model.rules import Severity
from monitor.service.daemon.outage import DATABASE_AWAY
from monitor.settings.comparison_options import CONDITION_ALERTS
from monitor.settings.configuration import Settings
from monitor.settings.runbooks import OTHER_METRIC, OWN_RULE
from monitor.settings.translation import to_comparison

PAGES = Path(__file__).parents[1] / "docs/runbooks"
_FILE = {"file": {"path": "lists.csv", "user": "user", "items": "items"}}
DEFAULT = {
    "name": "home-feed",
    "every": "1h",
    "users": {"all": True},
    "baseline": _FILE,
    "candidate": _FILE,
    "noise_floor": {"serve": True},
    "rules": "default",
}
"""A comparison that has every default rule."""


UNPAIRED = {
    "name": "checkout-test",
    "every": "1d",
    "unpaired": {
        "log": {"file": {**_FILE["file"], "served": {"time": "at", "within": "1d"}}},
        "arm": "variant",
        "baseline": "a",
        "candidate": "b",
        "split": {"a": 0.5, "b": 0.5},
        "before": "2026-11-01",
    },
    "rules": "default",
}
"""An unpaired comparison that has every default rule."""


def severities() -> Mapping[str, Severity]:
    """The severity of every default alert."""
    of_alerts = {DATABASE_AWAY: Severity.CRITICAL}
    settings = Settings.model_validate({"comparisons": [DEFAULT, UNPAIRED]})
    for comparison in map(to_comparison, settings.comparisons):
        of_alerts.update({rule.alert: rule.severity for rule in comparison.judging.rules})
    return of_alerts


def alerts_reference() -> str:
    """One row for each alert: its name with its runbook, its severity, and what it reports."""
    lines = ["| alert | severity | what it reports |", "|---|---|---|"]
    conditions = {DATABASE_AWAY, *CONDITION_ALERTS.values()}
    by_alert = severities()
    ordered = sorted(by_alert, key=lambda alert: (alert not in conditions, alert))
    for alert in ordered:
        lines.append(f"| [{alert}]({alert}.md) | {by_alert[alert]} | {_report_of(alert)} |")
    for page, severity in ((OTHER_METRIC, "warning"), (OWN_RULE, "as set in the rule")):
        lines.append(f"| [{page}]({page}.md) | {severity} | {_report_of(page)} |")
    return "\n".join(lines)


def _report_of(alert: str) -> str:
    """The first sentence of the runbook."""
    text = (PAGES / f"{alert}.md").read_text()
    found = re.search(r"\*\*[^*\n]*\n\n(.+?\.)(?=\s)", text, re.DOTALL)
    return found[1] if found else ""
