"""Writes the causes of alerts, for alerts whose reason does not name the cause."""

from datetime import datetime

from monitor.model.alerts import Removed, RootCause
from monitor.model.instants import format_instant
from monitor.texts.run_reasons import with_cause


def write_stale(since: datetime, cause: RootCause, *, has_succeeded: bool) -> str:
    """Write a headline: ``no run has succeeded since the run of 2024-01-08 00:00 UTC: CAUSE``."""
    instant = f"{since:%Y-%m-%d %H:%M} UTC"
    never = f"yet, although rankwatch has waited since {instant}"
    wait = f"since the run of {instant}" if has_succeeded else never
    causes = []
    if cause.database_away_s:
        causes.append(f"rankwatch's database was away for {cause.database_away_s:,.0f} s")
    if cause.run_failure is not None:
        causes.append(cause.run_failure)
    return with_cause(f"no run has succeeded {wait}", ", and ".join(causes))


def write_missed(stale: str, missed_runs: int) -> str:
    """Add to the headline ``stale`` how many later runs failed or did not begin."""
    return f"{stale}; {missed_runs:,} later runs failed or did not begin"


def write_known_cause(slot: datetime, cause: str) -> str:
    """Write the cause that an earlier run of the same incident found."""
    return f"Known since the run of {format_instant(slot)}: {cause}"


def write_removed(removed: Removed) -> str:
    """Say what was removed from the configuration, which ended the alert."""
    of_rule = " from the rule in" if removed is Removed.SEGMENT else " from"
    return f"{removed} removed{of_rule} the configuration"


def write_beginning(alert: str, slot: datetime, cause: str) -> str:
    """Say with which alert and which cause the incident began."""
    return f"The incident began with {alert} in the run of {format_instant(slot)}: {cause}"
