"""Texts about the cause of alerts that do not name it."""

from datetime import datetime

from monitor.model.instants import format_instant
from monitor.model.root_causes import RootCause


def write_stale(since: datetime, missed_runs: int, cause: RootCause, *, has_succeeded: bool) -> str:
    """``no run has succeeded since that of 2024-01-08 00:00 UTC: CAUSE; 3 ...``.

    Without a full stop.
    """
    instant = f"{since:%Y-%m-%d %H:%M} UTC"
    wait = f"since that of {instant}" if has_succeeded else f"yet, waited for since {instant}"
    causes = []
    if cause.database_away_s:
        causes.append(f"rankwatch's database was away for {cause.database_away_s:,.0f} s")
    if cause.run_failure is not None:
        causes.append(cause.run_failure)
    missed = f"{missed_runs:,} later runs failed or did not begin"
    if causes:
        missed = f"{', and '.join(causes)}; {missed}"
    return f"no run has succeeded {wait}: {missed}"


def write_known_cause(slot: datetime, cause: str) -> str:
    """The cause that an earlier run of the same incident named."""
    return f"Known since the run of {format_instant(slot)}: {cause}"


def write_beginning(alert: str, slot: datetime, cause: str) -> str:
    """The alert with which the incident began."""
    return f"The incident began with {alert} in the run of {format_instant(slot)}: {cause}"
