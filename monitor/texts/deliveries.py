"""Writes why a message is sent later, never, or again, and whether receivers get messages.

Reasons are clauses without a full stop.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from monitor.model.instants import format_second
from monitor.model.notifications import Silence
from monitor.model.pages import ReceiverHealth
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
        return "it now concerns users, and concerned none at the last notification"
    return f"it now concerns {now / before:.1f} times as many users as at the last notification"


def write_joined(faults: Iterable[str]) -> str:
    """Say that an incident is sent again because a fault of another kind joined it."""
    return f"another fault joined: {', '.join(faults)}"


def write_receivers(receivers: Mapping[str, ReceiverHealth], *, has_alerted: bool = True) -> str:
    """Say for each receiver whether it accepted its last message. These are sentences.

    Reminders are not stored, so they do not count.

    ``has_alerted`` is whether an alert of the comparison fires or has ended.
    """
    if not receivers:
        return "No receiver is configured. Only web pages and Prometheus show alerts."
    sentences = []
    for name, record in receivers.items():
        sentences.append(_write_receiver(name, record, has_alerted=has_alerted))
    return " ".join(sentences)


def _write_receiver(name: str, health: ReceiverHealth, *, has_alerted: bool) -> str:
    if health.is_failing and health.last_error_at is not None:
        failed_at = format_second(health.last_error_at)
        return f"The receiver {name} has failed since {failed_at}: {health.reason}."
    if health.last_success_at is not None:
        return (
            f"Apart from reminders, the receiver {name} accepted its last message at "
            f"{format_second(health.last_success_at)}."
        )
    unsent = f"No message to the receiver {name} was needed so far"
    if has_alerted:
        unsent = f"No message has been sent to the receiver {name} yet"
    return f"{unsent}. To see whether it works: rankwatch notify test {name}."


def _write_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
