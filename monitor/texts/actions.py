"""Writes what a reader of an alert needs at night: its state, its urgency, and commands.

Commands are quoted for a shell. Callers pass only names that are printable and on one line.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.instants import format_instant
from monitor.model.rules import Severity

SILENCE_FOR = "2h"
CHECK_DATABASE = "rankwatch db check"
"""This command checks whether rankwatch can use the database."""

NEW_LEVEL = "The lists did not return to the old level. Accept the change, or roll it back."
"""The advice if an alert ended because rankwatch now expects the changed level."""

_URGENCY: Mapping[Severity, str] = {
    Severity.CRITICAL: "Critical: look at it now.",
    Severity.WARNING: "Warning: look at it within this working day.",
    Severity.INFO: "Info: nobody has to act at night.",
}


def write_urgency(severity: Severity) -> str:
    """Say how soon somebody has to look at a firing alert."""
    return _URGENCY[severity]


def write_firing(extent: str, since: datetime) -> str:
    """Say for which users an alert fires, and since when. ``extent`` can be ``country=UK``."""
    return f"Still going on for {extent}, since {format_instant(since)}."


def write_over(extent: str, since: datetime, ended_at: datetime) -> str:
    """Say for which users an alert fired, when it began, and when it ended."""
    return f"Over for {extent}: {format_instant(since)} to {format_instant(ended_at)}."


def show_command(comparison: str, slot: datetime | None) -> str:
    """Return the command that shows the run of this slot. If ``slot`` is None, the newest run."""
    command = f"rankwatch show {shlex.quote(comparison)}"
    return command if slot is None else f"{command} --slot {format_instant(slot)}"


def runs_command(comparison: str) -> str:
    """Return the command that lists the runs of the comparison."""
    return f"rankwatch runs {shlex.quote(comparison)}"


def acknowledge_command(comparison: str) -> str:
    """Return the command that acknowledges all firing alerts of the comparison."""
    return f"rankwatch alerts ack {shlex.quote(comparison)}"


def silence_command(matchers: Sequence[str]) -> str:
    """Return the command that silences the alerts with these properties."""
    return f"rankwatch silence add {shlex.join(matchers)} --for {SILENCE_FOR}"
