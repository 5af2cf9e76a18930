"""Output of the commands.

Tables and JSON lines go to standard output. Errors and progress go to standard error.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import typer

from monitor.boundary.redaction import escape_controls
from monitor.model.errors import describe_fault
from monitor.model.instants import format_second
from monitor.texts.wording import write_cell, write_number

if TYPE_CHECKING:
    from rich.progress import Progress

    from monitor.model.runs import Evidence, PullProgress, Summary

# Functions import rich only when they need it, so that `--version`, `--json` and completion are
# quick.

TRACEBACK_VARIABLE = "RANKWATCH_TRACEBACK"
UNHEALTHY_EXIT = 1
SOURCE_EXIT = 3
DELIVERY_EXIT = 5
OUTPUT_EXIT = 74
# A shell uses the same codes.
INTERRUPTED_EXIT = 130
TERMINATED_EXIT = 143
VERDICT_EXITS = {"safe": 0, "breach": 1, "inconclusive": 2}
# Codes for errors of `gate`, from sysexits.h. They differ from the codes of verdicts.
USAGE_EXIT = 64
INTERNAL_EXIT = 70

_LEAST_TEXT = 40  # columns of a terminal for a text that is broken into lines
_COLUMN_GAP = 2
# larger numbers are written in short form, because evidence of learned rules can be huge
_LEAST_SHORT_FORM = 1e4
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
    """Print a line unchanged, without colours and line breaks.

    Control characters are escaped, because ids and files may contain them.
    """
    sys.stdout.write(escape_controls(text) + "\n")


def print_error(text: str) -> None:
    """Print a line about an error on standard error."""
    typer.echo(f"rankwatch: {escape_controls(text)}", err=True)


def report_internal(error: Exception) -> None:
    """Print the type of an unexpected error and its place in our code.

    The error's text is printed only if RANKWATCH_TRACEBACK is set, because it may quote data.
    """
    print_error(
        f"internal error: {describe_fault(error)}. This is a bug in rankwatch: please report it. "
        f"{TRACEBACK_VARIABLE}=1 shows the traceback, but it may contain data."
    )
    if _shows_tracebacks():
        traceback.print_exception(error)


def _shows_tracebacks() -> bool:
    return bool(os.environ.get(TRACEBACK_VARIABLE))


def report_unwritten(error: OSError) -> None:
    """Print which output could not be written. Print nothing if it is a closed pipe."""
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return
    with suppress(OSError):
        cause = error.strerror or type(error).__name__
        typer.echo(f"rankwatch: {error.filename or 'output'}: {cause}", err=True)


def print_json(*values: object) -> None:
    """Print each value as a JSON object on one line.

    Instants are written in ISO 8601. NaN and infinities are written as null.
    """
    is_unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    for value in values:
        sys.stdout.write(json.dumps(_as_json_value(value), ensure_ascii=not is_unicode) + "\n")
        sys.stdout.flush()


def indented_json(value: object) -> str:
    """Return the value as JSON for a file, with one key on each line."""
    return json.dumps(_as_json_value(value), indent=2) + "\n"


def attributes_of(value: object, *names: str) -> dict[str, object]:
    """Return these attributes of the value by name, in this order."""
    return {name: getattr(value, name) for name in names}


def summary_dict(summary: Summary) -> dict[str, Any]:
    """Return a summary in the form of the JSON output."""
    names = "segment metric n n_undefined mean standard_error statistics"
    return attributes_of(summary, *names.split())


def _as_json_value(value: object) -> object:
    """Return the value in types that JSON has. NaN and infinity become null."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, inf_nan_mode="null", fallback=dict)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
) -> None:
    """Print a table. If there are no rows, only the title is printed.

    A column is right-aligned if its name ends with ``>``. Cells are text, never markup. On a
    terminal, texts in the last column are broken into lines. If the terminal is too narrow for
    this, they are below their row. Otherwise, for example in a pipe, every row is one line.
    """
    from rich.cells import cell_len

    if title is not None:
        print_line(_one_line(title))
    cells = [tuple(map(_one_line, row)) for row in rows]
    if not cells:
        return
    names = [column.removesuffix(">") for column in columns]
    are_numbers = [column.endswith(">") for column in columns]
    widths = []
    for number, name in enumerate(names):
        widths.append(max([cell_len(name), *(cell_len(row[number]) for row in cells)]))
    is_terminal = sys.stdout.isatty()
    least_width = sum(widths[:-1]) + _COLUMN_GAP * (len(widths) - 1) + min(widths[-1], _LEAST_TEXT)
    is_narrow = is_terminal and least_width > shutil.get_terminal_size().columns
    if is_terminal and not is_narrow:
        _draw_on_terminal(names, are_numbers, cells)
        return
    is_below = is_narrow and not are_numbers[-1]
    if is_below:
        del widths[-1]
    # rich would take ten times as long.
    for row in (names, *cells):
        line = ""
        for cell, width, is_number in zip(row, widths, are_numbers, strict=False):
            blanks = " " * (width - cell_len(cell))
            padded = blanks + cell if is_number else cell + blanks
            line += padded + " " * _COLUMN_GAP
        if is_below and row[-1] != "-":
            line = f"{line.rstrip()}\n    {row[-1]}"
        sys.stdout.write(f"{line.rstrip()}\n")


def _draw_on_terminal(
    names: Sequence[str],
    are_numbers: Sequence[bool],
    cells: Iterable[Sequence[str]],
) -> None:
    """Draw a table with colours. Texts in its last column are broken into lines."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, (name, is_number) in enumerate(zip(names, are_numbers, strict=True), start=1):
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place < len(names))
    for row in cells:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    # On a terminal without cursor control, rich would take 80 columns.
    width, height = shutil.get_terminal_size()
    console = Console(width=width, height=height)
    with console.capture() as drawn:
        console.print(table)
    sys.stdout.write(drawn.get())


def print_objects(
    objects: Iterable[Mapping[str, object]],
    columns: str,
    *,
    as_json: bool,
    title: str | None = None,
    empty: str | None = None,
    omits_empty_columns: bool = False,
) -> None:
    """Print each object as JSON on one line, or all objects as a table with these keys.

    If a key ends with ``>``, its column has numbers. If there are no rows, ``empty`` is printed,
    which says what to do next.
    """
    if as_json:
        print_json(*objects)
        return
    titles, rows = cells_of(objects, columns)
    if not rows and empty is not None:
        print_line(empty)
        return
    if omits_empty_columns:
        # The places of the columns that have a value in at least one row.
        places = [place for place in range(len(titles)) if any(row[place] != "-" for row in rows)]
        titles = [titles[place] for place in places]
        rows = [[row[place] for place in places] for row in rows]
    print_table(titles, rows, title=title)


def join_segments(rows: Iterable[Mapping[str, Any]], keys: str) -> list[dict[str, Any]]:
    """Return one row for all segments with the same values of these keys.

    It is the row of the segment with the most users. Its segment says how many more there are.
    """
    groups: dict[object, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(itemgetter(*keys.split())(row), []).append(row)
    joined = []
    for group in groups.values():
        widest = dict(max(group, key=itemgetter("users")))
        if len(group) > 1:
            widest["segment"] += f" and {len(group) - 1:,} more"
        joined.append(widest)
    return joined


def cells_of(
    objects: Iterable[Mapping[str, object]], columns: str
) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and a row of texts for each object."""
    keys = columns.replace(">", "").split()
    rows = [[table_cell(record.get(key)) for key in keys] for record in objects]
    return [column.replace("_", " ") for column in columns.split()], rows


def table_cell(value: object) -> str:
    """Return a value as the text of a table cell."""
    if isinstance(value, float) and abs(value) >= _LEAST_SHORT_FORM:
        return f"{value:.4g}"
    return write_cell(value, format_second)


def _one_line(text: str) -> str:
    return escape_controls(text).replace("\n", "\\n")


def progress_bar() -> Progress:
    """Return a progress bar on standard error. It disappears at the end.

    If standard error is not a terminal, nothing is shown.
    """
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
    """Show how far a pull is. Each pull of a comparison has its own bar."""
    name = f"{comparison} {pull.what}"
    tasks = {bar.description: bar.id for bar in bars.tasks}
    task = tasks[name] if name in tasks else bars.add_task(name)
    bars.update(task, completed=pull.answered + pull.failed, total=pull.users)


def print_evidence(users: Iterable[Evidence], titles: Mapping[str, str]) -> None:
    """Print both lists of each user side by side, with the user's scores.

    If each user is served by one arm only, they are the pre-test and current lists.
    """
    from monitor.measures.presentation import side_by_side
    from monitor.model.statistics import arm_of_scores

    def name(item: str) -> str:
        if item in titles:
            return f"{titles[item]} ({item})"
        return item

    for user in users:
        rows = []
        pairs = side_by_side(user.baseline, user.candidate)
        for rank, (left, right, moved) in enumerate(pairs, start=1):
            rows.append((str(rank), name(left), name(right), moved))
        print_line()
        title = f"user {user.user}   {scores_line(user)}".rstrip()
        heads = ("baseline", "candidate")
        arm = arm_of_scores(user.scores)
        if arm is not None:
            heads = ("before", f"now ({arm})")
        print_table(("", *heads, ""), rows, title=title)


def scores_line(evidence: Evidence) -> str:
    """Return the user's scores as one line, without those that are undefined."""
    scores = []
    for metric, value in evidence.scores.items():
        if value is not None:
            scores.append(f"{metric} {write_number(value)}")
    return "  ".join(scores)


def write_whole(path: Path, text: str) -> None:
    """Write the complete text, or write nothing.

    If the path is an open stream of this process, such as ``/dev/stdout``, the text is written to
    the stream. Raises OSError with the path.
    """
    from monitor.boundary.files import replace_file

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
    """Render the pages with the template into one HTML file, and print its path."""
    from monitor.web.pages.report import Section, in_one_file

    sections = [Section(address="", title=title, template=template, page=page) for page in pages]
    write_whole(path, in_one_file(title, sections))
    print_written(path)


def print_written(path: Path) -> None:
    """Print the path of the written file on standard error.

    Standard output is not used, because it may contain a table or be the file itself.
    """
    typer.echo(f"written: {escape_controls(str(path))}", err=True)


def require_writable(path: Path) -> None:
    """Raise OSError if `write_whole` could not write to this path now. Writes nothing."""
    from monitor.boundary.files import require_replaceable

    if _stream_of(path) is None:
        require_replaceable(path)


def _stream_of(path: Path) -> TextIO | None:
    """Return the stream of this process that writes to the path, or None."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(number)):
                return stream
    return None


def log_errors_only() -> None:
    """Log only errors, on standard error, in the form for people.

    Commands that run slots or ask sources call this first.
    """
    from monitor.service.logs import configure_logs

    configure_logs("console", "error", shows_tracebacks=_shows_tracebacks())
