"""How the commands print: tables for people on standard output, JSON lines for machines, progress on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def say(text: str = "") -> None:
    """Print one line as it is, never folded or coloured."""
    sys.stdout.write(text + "\n")


def print_json(value: object) -> None:
    """Print one JSON object on one line; instants as ISO 8601, what is no number as null."""
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table; a column is right-aligned where its name ends in ``>``. Cells are text, never markup."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", title_style="bold")
    for column in columns:
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200)
    console.print(table)


_STYLES = {
    "ok": "green",
    "quiet": "green",
    "pending": "yellow",
    "insufficient": "yellow",
    "firing": "bold red",
    "failed": "bold red",
    "abandoned": "red",
}


def instant(value: datetime) -> str:
    """ISO 8601 in UTC, to the second where that is exact."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def number(value: float | None, digits: int = 4) -> str:
    """A score for a table, ``-`` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def progress() -> Progress:
    """A progress bar on standard error that leaves nothing behind, silent where that is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
