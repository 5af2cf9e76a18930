"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

CONFIG_VARIABLE = "RANKWATCH_CONFIG"
Config = Annotated[
    Path,
    typer.Option("--config", "-c", envvar=CONFIG_VARIABLE, help="Configuration file.", show_default=True),
]
"""Default `DEFAULT_CONFIG`."""
DEFAULT_CONFIG = Path("rankwatch.yaml")
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a line instead of a table.")]
OneComparison = Annotated[str | None, typer.Option("--comparison", help="Only this comparison; the same as the argument.")]
OneName = Annotated[str | None, typer.Argument(metavar="[COMPARISON]", show_default=False, help="Only this comparison.")]


def only_one(name: str | None, comparison: str | None) -> str | None:
    """The comparison that the argument or the option names; wrong usage where they name different ones."""
    if None not in (name, comparison) and name != comparison:
        msg = f"the argument names {name!r} and --comparison names {comparison!r}: give one of them"
        raise typer.BadParameter(msg)
    return comparison if name is None else name


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 time; without a zone it is UTC, and a bare date is midnight UTC."""
    try:
        given = datetime.fromisoformat(text)
        instant = given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except (ValueError, OverflowError):
        msg = f"{text!r} is no ISO 8601 time: write 2024-01-08 or 2024-01-08T06:00:00Z"
        raise typer.BadParameter(msg) from None
    if instant < EARLIEST:
        msg = f"{text!r} lies before {EARLIEST:%Y-%m-%d}, where slots begin"
        raise typer.BadParameter(msg)
    return instant


def parse_span(text: str) -> timedelta:
    """Read a length of time as the configuration has it: ``90d``, ``12h``."""
    from monitor.options import parse_duration

    try:
        span = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not isinstance(span, timedelta) or not span:
        msg = f"{text!r} must be more than nothing"
        raise typer.BadParameter(msg)
    return span
