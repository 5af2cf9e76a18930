"""How the demo is shown: frame by frame on a terminal, line by line elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from monitor.demo.frame import frame
from monitor.demo.lines import Lines
from monitor.demo.status import DemoStatus


class View(Protocol):
    """Takes one status after the other."""

    def show(self, status: DemoStatus) -> None:
        """Show how things stand now."""


class LiveView:
    """Redraws one frame in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, status: DemoStatus) -> None:
        """Draw the status in the terminal's present size; one line stays free for the cursor."""
        width, height = self._live.console.size
        self._live.update(frame(status, width=width, height=height - 1), refresh=True)


class LineView:
    """Prints what is new, a line each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines = Lines()

    def show(self, status: DemoStatus) -> None:
        """Print the runs and notes that no earlier status had."""
        for line in self._lines.new(status):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """The view that suits the console: frames need a terminal that moves its cursor and shows Unicode."""
    if not console.is_terminal or console.is_dumb_terminal or not console.encoding.startswith("utf"):
        yield LineView(console)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveView(live)
