"""Benchmarks: each module's `run` measures ours beside what a user would use instead, in one process run. `make bench`."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. All columns but the first are aligned to the right."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if table.columns else "left")
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=160).print(table)
