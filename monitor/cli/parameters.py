"""Options that several commands share, functions that parse values, and access to the database."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.completion import (
    CONFIG_VARIABLE,
    complete_alerts,
    complete_comparisons,
    complete_metrics,
    complete_segments,
    complete_slots,
)
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.model.instants import FIRST_INSTANT, read_instant, utc_now

if TYPE_CHECKING:
    from monitor.storage import SqlStore

_PAIR = 2
# Commands use `DEFAULT_CONFIG` as its default.
Config = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar=CONFIG_VARIABLE,
        help="Configuration file.",
        show_default=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object on each line.")]
OneComparison = Annotated[
    str | None,
    typer.Argument(
        show_default=False,
        autocompletion=complete_comparisons,
        help="Name of a comparison, or of an entry with several candidates. Default: all.",
    ),
]
ComparisonArgument = Annotated[
    str, typer.Argument(autocompletion=complete_comparisons, help="Name of the comparison.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        autocompletion=complete_slots,
        help="First slot. Default: the oldest.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        autocompletion=complete_slots,
        help="Last slot, included. A date means its whole day in UTC. Default: the newest.",
    ),
]
StoredSlot = Annotated[
    str | None,
    typer.Option(
        "--slot",
        metavar="TIME",
        autocompletion=complete_slots,
        help="Slot of the run. 2d means the newest run that is at least two days old. Default: the "
        "newest finished run.",
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        "-m",
        autocompletion=complete_metrics,
        help="Name of a metric. Default: the first metric of the comparison.",
    ),
]
Segments = Annotated[
    list[str] | None,
    typer.Option(
        "--segment",
        "-s",
        autocompletion=complete_segments,
        help="Name of a segment, or `each` for every segment. May be repeated. Default: the "
        "segment `all`.",
    ),
]
OneSegment = Annotated[
    str | None,
    typer.Option(
        "--segment",
        "-s",
        autocompletion=complete_segments,
        help="Name of a segment. Default: all segments.",
    ),
]
SomeAlerts = Annotated[
    list[str] | None,
    typer.Option(
        "--alert",
        "-a",
        autocompletion=complete_alerts,
        help="Name of an alert. To name several alerts, repeat the option. Default: all.",
    ),
]
HtmlFile = Annotated[Path | None, typer.Option(help="Also write an HTML file with charts.")]
Author = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Your name. Default: the name of your account.",
        show_default=False,
    ),
]
Comment = Annotated[
    str, typer.Option("--comment", metavar="TEXT", help="The reason, for your colleagues.")
]


@contextmanager
def opened_database(config: Path) -> Iterator[tuple[SqlStore, Sequence[str]]]:
    """Open the configured store, and close it at the end.

    Yields the store and the names of the configured comparisons.
    """
    from monitor.settings.unchecked_settings import load_database_settings
    from monitor.storage import opened_store

    settings = load_database_settings(config)
    with opened_store(settings.database) as store:
        yield store, settings.comparison_names


def require_known(comparison: str | None, configured: Sequence[str]) -> None:
    """Raise ConfigError for an unknown name. Call it if nothing is stored under the name."""
    if comparison is None or comparison in configured:
        return
    problem = f"no comparison named {comparison!r}: nothing is stored under this name. "
    near = get_close_matches(comparison, configured, n=1)
    if near:
        raise ConfigError(f"{problem}Did you mean {near[0]!r}?")
    raise ConfigError(f"{problem}The configuration has {', '.join(configured)}")


def author_name(by: str | None) -> str:
    """Return the name in ``--by``, or the name of the account.

    Raises BadParameter if the account has no name.
    """
    try:
        author = by or getpass.getuser()
    except (OSError, KeyError):
        author = ""
    if not author.strip():
        raise typer.BadParameter("your account has no name: give your name with --by")
    return author.strip()


def parse_address(text: str, name: str) -> tuple[str, int]:
    """Parse ``host:port``.

    Raises BadParameter for any other text. The error contains ``name``.
    """
    from monitor.settings.addresses import split_address

    try:
        return split_address(text)
    except ValueError as error:
        raise typer.BadParameter(f"{name} {error}") from None


def parse_instant(text: str) -> datetime:
    """Parse an instant, see `read_instant`, or a time ago, such as ``2d``.

    Raises BadParameter for any other text.
    """
    ago = _read_duration(text)
    if ago is not None:
        return max(utc_now() - ago, FIRST_INSTANT)
    try:
        return read_instant(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}. Write a relative time as 3h or 2d") from None


def parse_until(text: str) -> datetime:
    """Parse the end of a period like `parse_instant`. But here a date means the end of its day.

    The end of today is the present time.
    """
    instant = parse_instant(text)
    try:
        date.fromisoformat(text)
    except ValueError:
        return instant
    end_of_day = instant + timedelta(days=1, microseconds=-1)
    return max(instant, min(end_of_day, utc_now()))


def parse_fixed(option: str, text: str) -> datetime:
    """Parse an instant. Raises BadParameter for a time ago, because its instant changes."""
    if is_time_ago(text):
        raise typer.BadParameter(
            f"{option} {text} depends on the present time: give a fixed time, such as 2024-01-08"
        )
    return parse_instant(text)


def parse_ahead(text: str) -> datetime:
    """Parse an instant like `parse_instant`. But here ``2h`` means in two hours."""
    ahead = _read_duration(text)
    if ahead is None:
        return parse_instant(text)
    return utc_now() + ahead


def parse_pair(option: str, pair: str) -> tuple[str, str]:
    """Parse the two values of ``A,B``. Raises BadParameter for anything else."""
    values = [value.strip() for value in pair.split(",")]
    if len(values) != _PAIR or values[0] == values[1] or not all(values):
        raise typer.BadParameter(
            f"{option} {pair!r} must have two values: write baseline,candidate"
        )
    return values[0], values[1]


@immutable
class SlotChoice:
    """The run of one slot, or the newest run up to a time. Without both it is the newest run."""

    slot: datetime | None = None
    until: datetime | None = None


def parse_slot(text: str | None) -> SlotChoice:
    """Parse ``--slot``. A time ago, such as ``2d``, chooses the newest run up to this time."""
    if text is None:
        return SlotChoice()
    if is_time_ago(text):
        return SlotChoice(until=parse_instant(text))
    return SlotChoice(slot=parse_instant(text))


def is_time_ago(text: str) -> bool:
    """Whether the text is a time ago, such as ``2d``."""
    return _read_duration(text) is not None


def _read_duration(value: str) -> timedelta | None:
    """Return a duration such as ``2d``, or None for any other value."""
    if not value[-1:].isalpha() or value.endswith("Z"):
        return None  # return early, because importing pydantic is slow
    from monitor.boundary.options import parse_duration

    try:
        return parse_duration(value)
    except ValueError:
        return None


def parse_period(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Parse ``--since`` and ``--until``. Raises BadParameter if the end is before the start."""
    first = None if since is None else parse_instant(since)
    last = None if until is None else parse_until(until)
    if first is not None and last is not None and last < first:
        raise typer.BadParameter(f"--until {until} is before --since {since}: give a later end")
    return first, last


def parse_span(text: str) -> timedelta:
    """Parse a duration such as ``90d`` or ``12h``. Raises BadParameter for any other text."""
    from monitor.boundary.options import parse_duration

    try:
        span = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from None
    if not span:
        raise typer.BadParameter(f"{text!r} is too short: give a duration of more than 0")
    return span
