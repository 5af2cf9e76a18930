"""Output of the commands: tables and JSON lines on standard output, errors and progress on standard error, files by name."""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import typer

from monitor.errors import describe_fault
from monitor.redaction import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress

    from monitor.model.rankings import Arm, CoverageReason
    from monitor.model.runs import Evidence, PullProgress

# rich is imported where it draws: `--version`, `--json` and completion need none of it.

TRACEBACK_VARIABLE = "RANKWATCH_TRACEBACK"
UNHEALTHY_EXIT = 1
SOURCE_EXIT = 3
DELIVERY_EXIT = 5
OUTPUT_EXIT = 74
INTERRUPTED_EXIT, TERMINATED_EXIT = 130, 143  # as a shell has them
VERDICT_EXITS = {"safe": 0, "breach": 1, "inconclusive": 2}
USAGE_EXIT, INTERNAL_EXIT = (
    64,
    70,
)  # of `gate`, none of whose errors may end as a verdict does; as in sysexits.h


_PIPE_WIDTH = 10_000
_LEAST_WIDTH = 12
_GAP = 2
_LARGE = 1e4  # evidence of rules that learn may have any size
_STYLES = {
    "ok": "green",
    "quiet": "green",
    "pending": "yellow",
    "insufficient": "yellow",
    "firing": "bold red",
    "failed": "bold red",
    "abandoned": "red",
}


def print_line(text: str = "") -> None:
    """Print a line as it is, never folded or coloured, nor obeyed: ids and file contents may hold anything."""
    sys.stdout.write(escape_controls(text) + "\n")


def print_error(text: str) -> None:
    """Print a line about what went wrong on standard error."""
    typer.echo(f"rankwatch: {escape_controls(text)}", err=True)


def report_internal(error: Exception) -> None:
    """Print the type of an unexpected error and its place in our code.

    The error's text can quote data. It is printed only if RANKWATCH_TRACEBACK is set.
    """
    print_error(
        f"internal error: {describe_fault(error)}. This is a fault of rankwatch: please report it. "
        f"{TRACEBACK_VARIABLE}=1 shows the traceback, which can contain data."
    )
    if _shows_tracebacks():
        traceback.print_exception(error)


def _shows_tracebacks() -> bool:
    return bool(os.environ.get(TRACEBACK_VARIABLE))


def report_unwritten(error: OSError) -> None:
    """Print what could not be written, unless whoever read the output has gone, as ``head`` does."""
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return
    with suppress(OSError):
        typer.echo(
            f"rankwatch: {error.filename or 'output'}: {error.strerror or type(error).__name__}",
            err=True,
        )


def print_json(*values: object) -> None:
    """Print each as a JSON object on one line; instants as ISO 8601, NaN and infinities as null."""
    is_unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    for value in values:
        sys.stdout.write(json.dumps(_plain(value), ensure_ascii=not is_unicode) + "\n")
        sys.stdout.flush()


def indented_json(value: object) -> str:
    """The same object as the text of a file, one key a line."""
    return json.dumps(_plain(value), indent=2) + "\n"


def pick(value: object, *names: str) -> dict[str, object]:
    """Return these attributes by name, in this order."""
    return {name: getattr(value, name) for name in names}


def coverage_dict(reasons: Mapping[tuple[Arm, CoverageReason], int]) -> dict[str, int]:
    """Return how many users were not compared, by ``arm.reason``."""
    return {f"{arm}.{reason}": count for (arm, reason), count in reasons.items()}


def _format(value: datetime) -> str:
    from monitor.model.instants import format_instant

    return format_instant(value)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return _format(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None
) -> None:
    """Print a table.

    A column is right-aligned where its name ends in ``>``. Cells are text, never markup.

    On a terminal texts fold, but no number or short word; into a pipe every row is one line.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if title is not None:
        print_line(_one_line(title))
    cells = [tuple(map(_one_line, row)) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    is_terminal = sys.stdout.isatty()
    least = 0
    for number, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        name = column.removesuffix(">")
        widest = max(map(cell_len, (name, *(row[number] for row in cells))))
        narrowest = widest if justify == "right" else min(widest, _LEAST_WIDTH)
        least += narrowest + _GAP
        table.add_column(
            name, justify=justify, overflow="fold", min_width=narrowest, no_wrap=not is_terminal
        )
    for row in cells:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console = Console(width=None if is_terminal else _PIPE_WIDTH)
    with console.capture() as drawn:
        console.print(
            table,
            width=max(console.width, least),
            crop=False,
            no_wrap=False,
            soft_wrap=least > console.width,
        )
    # The last column is padded to the widest cell, which into a pipe is of no use.
    sys.stdout.write(
        drawn.get()
        if is_terminal
        else "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
    )


def print_records(
    records: Iterable[Mapping[str, object]],
    columns: str,
    *,
    as_json: bool,
    title: str | None = None,
) -> None:
    """Print each record as a JSON object, or all of them as a table of these keys, ``>`` behind those of numbers."""
    if as_json:
        print_json(*records)
    else:
        print_table(*cells_of(records, columns), title=title)


def cells_of(
    records: Iterable[Mapping[str, object]], columns: str
) -> tuple[list[str], list[list[str]]]:
    """The names of these columns and a row of text a record."""
    names = columns.split()
    rows = [[cell(record.get(name.removesuffix(">"))) for name in names] for record in records]
    return [name.replace("_", " ") for name in names], rows


def cell(value: object) -> str:
    """A value as tables show it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, float):
        return number(value) if abs(value) < _LARGE else f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _one_line(text: str) -> str:
    return escape_controls(text).replace("\n", "\\n")


def instant(value: datetime) -> str:
    """ISO 8601 in UTC for people, to the second."""
    return _format(value.replace(microsecond=0))


def number(value: float | None, digits: int = 4) -> str:
    """A score for a table, ``-`` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def progress() -> Progress:
    """A progress bar on standard error that leaves nothing behind, silent where that is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def show_pull(bars: Progress, comparison: str, pull: PullProgress) -> None:
    """Show how far a pull of a comparison has come, in a bar of its own."""
    name = f"{comparison} {pull.what}"
    known = {bar.description: bar.id for bar in bars.tasks}
    bars.update(
        known[name] if name in known else bars.add_task(name),
        completed=pull.answered + pull.failed,
        total=pull.users,
    )


def print_evidence(users: Iterable[Evidence], titles: Mapping[str, str]) -> None:
    """Print both lists of each user side by side, with the scores."""
    from monitor.presentation import side_by_side

    def name(item: str) -> str:
        return f"{titles[item]} ({item})" if item in titles else item

    for each in users:
        lists = enumerate(side_by_side(each.baseline, each.candidate), start=1)
        rows = [(str(rank), name(left), name(right), moved) for rank, (left, right, moved) in lists]
        print_line()
        print_table(
            ("", "baseline", "candidate", ""), rows, title=f"user {each.user}   {scores_line(each)}"
        )


def scores_line(evidence: Evidence) -> str:
    """The user's scores on one line."""
    return "  ".join(f"{metric} {number(value)}" for metric, value in evidence.scores.items())


def write_whole(path: Path, text: str) -> None:
    """Write the text whole or not at all, but as it comes to what is open already (``/dev/stdout``); OSError names the path."""
    from monitor.files import replace_file

    stream = _stream_of(path)
    if stream is None:
        replace_file(path, text.encode())
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_page(path: Path, title: str, template: str, pages: Sequence[object]) -> None:
    """Write what this template makes of each page as one HTML file that needs nothing else, and print where it lies."""
    from monitor.web.pages.report import Section, in_one_file

    write_whole(
        path,
        in_one_file(
            title,
            (Section(address="", title=title, template=template, page=page) for page in pages),
        ),
    )
    print_written(path)


def print_written(path: Path) -> None:
    """Print on standard error where the output lies now: standard output may be a table, or the file itself."""
    typer.echo(f"written: {escape_controls(str(path))}", err=True)


def require_writable(path: Path) -> None:
    """OSError now where `write_whole` would fail as things are; nothing is written."""
    from monitor.files import require_replaceable

    if _stream_of(path) is None:
        require_replaceable(path)


def _stream_of(path: Path) -> TextIO | None:
    """The stream of this process that writes to the path, None where none does."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(number)):
                return stream
    return None


def log_errors_only() -> None:
    """Log errors alone, for people, on standard error: what a command that runs slots or asks sources does first."""
    from monitor.service.logs import configure

    configure("console", "error", shows_tracebacks=_shows_tracebacks())
