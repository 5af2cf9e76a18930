"""What a reader of an alert needs at night: its state in one sentence, its urgency, commands.

Commands are quoted for a shell. Names must be printable and on one line.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.instants import format_instant
from monitor.model.rules import Severity

SILENCE_FOR = "2h"
CHECK_DATABASE = "rankwatch db check"
"""The command that says whether the database can be used."""

NEW_LEVEL = "The lists did not return to the old level: accept the change, or roll it back."
"""What to do if an alert ended because its level became normal."""

_URGENCY: Mapping[Severity, str] = {
    Severity.CRITICAL: "Critical: look at it now.",
    Severity.WARNING: "Warning: look at it within this working day.",
    Severity.INFO: "Info: nobody has to act at night.",
}


def write_urgency(severity: Severity) -> str:
    """How soon somebody has to look at a firing alert."""
    return _URGENCY[severity]


def write_firing(extent: str, since: datetime) -> str:
    """For whom an alert fires, and since when. ``extent`` is such as ``country=UK``."""
    return f"Still going on for {extent}, since {format_instant(since)}."


def write_over(extent: str, since: datetime, ended_at: datetime) -> str:
    """For whom an alert fired, and from when to when."""
    return f"Over for {extent}: {format_instant(since)} to {format_instant(ended_at)}."


def show_command(comparison: str, slot: datetime | None) -> str:
    """The command that shows the run of this slot, or the newest run."""
    command = f"rankwatch show {shlex.quote(comparison)}"
    return command if slot is None else f"{command} --slot {format_instant(slot)}"


def runs_command(comparison: str) -> str:
    """The command that lists the runs."""
    return f"rankwatch runs {shlex.quote(comparison)}"


def acknowledge_command(comparison: str) -> str:
    """The command that acknowledges all firing alerts of the comparison."""
    return f"rankwatch alerts ack {shlex.quote(comparison)}"


def silence_command(matchers: Sequence[str]) -> str:
    """The command that silences the alerts that match."""
    return f"rankwatch silence add {shlex.join(matchers)} --for {SILENCE_FOR}"
