"""Writes why a message is sent later, never, or again: clauses without a full stop."""

from collections.abc import Iterable
from datetime import datetime

from monitor.model.notifications import Silence
from monitor.model.rules import Severity

NEVER_SENT = "its start was never sent"
ENDED_UNSENT = "it ended before its start was sent"
ELSEWHERE = "routed to other receivers"
DRY_RUN = "dry run"
ACKNOWLEDGED = "acknowledged"


def write_silenced(silence: Silence) -> str:
    """Say who silenced the alert, until when, and why."""
    until = _write_time(silence.ends_at)
    return f"silence {silence.id} of {silence.author} until {until}: {silence.comment}"


def write_maintenance(window: str, ends_at: datetime) -> str:
    """Say which maintenance window delays the message, and until when."""
    return f"maintenance {window} until {_write_time(ends_at)}"


def write_inhibited(alert: str) -> str:
    """Say which firing alert makes it impossible to judge drift."""
    return f"drift cannot be judged while {alert} fires"


def write_waiting_end(alert: str) -> str:
    """Say which alert must end before the incident's end is sent."""
    return f"waits for the end of its incident, because {alert} is still firing"


def write_more_severe(before: Severity, now: Severity) -> str:
    """Say that an incident is sent again because its severity rose."""
    return f"its severity rose from {before} to {now}"


def write_more_users(before: float, now: float) -> str:
    """Say that an incident is sent again because it concerns more users."""
    if before < 1:
        return "it now concerns users, and concerned none at the last page"
    return f"it now concerns {now / before:.1f} times as many users as at the last page"


def write_joined(faults: Iterable[str]) -> str:
    """Say that an incident is sent again because a fault of another kind joined it."""
    return f"another fault joined: {', '.join(faults)}"


def _write_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
