"""Options that several commands share, functions that parse their values, and the database."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from monitor.model.errors import ConfigError

if TYPE_CHECKING:
    from monitor.storage import SqlStore

CONFIG_VARIABLE = "RANKWATCH_CONFIG"
# The default is `DEFAULT_CONFIG`.
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
DEFAULT_CONFIG = Path("rankwatch.yaml")

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on each line instead of a table.")
]
OneComparison = Annotated[
    str | None,
    typer.Argument(
        metavar="[COMPARISON]",
        show_default=False,
        help="Name of a comparison, or of a family of candidates. Default: all.",
    ),
]
ComparisonName = Annotated[str, typer.Argument(help="Name of the comparison.")]
Author = Annotated[
    str | None,
    typer.Option("--by", help="Your name. Default: your account.", show_default=False),
]
Comment = Annotated[str, typer.Option("--comment", "-m", help="The reason, for your colleagues.")]


class ListingGroup(TyperGroup):
    """A group of commands whose default command is ``ls``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of click
        """Insert ``ls`` if the first argument is not a command."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["ls", *args])


@contextmanager
def opened_database(config: Path) -> Iterator[tuple[SqlStore, Sequence[str]]]:
    """Open the configured store, and close it at the end.

    Yields the store and the names of the configured comparisons.
    """
    from monitor.settings.excerpt import load_database_settings
    from monitor.storage import opened_store

    settings = load_database_settings(config)
    with opened_store(settings.database) as store:
        yield store, settings.comparison_names


def require_known(comparison: str | None, configured: Sequence[str]) -> None:
    """Raise ConfigError for a name that is neither configured nor stored, such as a typo."""
    if comparison is not None and comparison not in configured:
        raise ConfigError(
            f"no comparison named {comparison!r}: nothing is stored under this name. The "
            f"configuration has {', '.join(configured)}"
        )


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

    Raises BadParameter, which contains ``name``, for any other text.
    """
    from monitor.settings.addresses import split_address

    try:
        return split_address(text)
    except ValueError as error:
        raise typer.BadParameter(f"{name} {error}") from None


def parse_instant(text: str) -> datetime:
    """Parse an instant, see `read_instant`. Raises BadParameter for any other text."""
    from monitor.model.instants import read_instant

    try:
        return read_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_period(start: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """Parse ``--from`` and ``--to``. Raises BadParameter if the end is before the start."""
    first = None if start is None else parse_instant(start)
    last = None if end is None else parse_instant(end)
    if first is not None and last is not None and last < first:
        raise typer.BadParameter(f"--to {end} is before --from {start}: give a later end")
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
