"""What the demo shows: frames on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from monitor.demo.shop import ACTIVITIES, COUNTRIES
from monitor.demo.simulation import DemoStatus, LogNote
from monitor.demo.story import CHAPTER_TEXTS
from monitor.demo.workspace import SHOWN_METRIC
from monitor.model import ALL, State

SEGMENTS = (ALL, *(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ACTIVITIES))
_BARS = "▁▂▃▄▅▆▇█"
_STATE_STYLES = {State.QUIET: "green", State.PENDING: "yellow", State.FIRING: "bold red"}
_NOTE_STYLES = {"STORY": "cyan", "RUN": "dim", "FIRING": "bold red", "RESOLVED": "bold green", "NOTIFIED": "magenta"}
_NAME_WIDTH, _VALUE_WIDTH = 13, 5
# Lines of a frame: the story in its box, segments with their head, a rule above the log, the address and the way out.
_STORY_LINES, _OTHER_LINES = 4, len(SEGMENTS) + 3


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest ``width`` values (1 or more) as bars, oldest first: 0 and below is the lowest, 1 and above the highest."""
    return "".join(_BARS[min(max(int(value * len(_BARS)), 0), len(_BARS) - 1)] for value in values[-width:])


def render_frame(status: DemoStatus, url: str, *, width: int, height: int) -> RenderableType:
    """Draw the status in ``width`` columns (80 or more) and ``height`` lines (20 or more)."""
    notes = [_note_line(note) for note in status.notes][-max(height - _STORY_LINES - _OTHER_LINES, 1) :]
    rule = Rule(Text("log", style="bold"), align="left", style="dim")
    end = _line(("page ", "dim"), (f"{url}/", "underline"), ("   Ctrl-C stops everything", "bold"))
    return Group(_story(status), _segments(status, width), rule, *notes, end)


def _story(status: DemoStatus) -> Panel:
    minutes, seconds = divmod(int(status.elapsed_s), 60)
    title = Text(f"rankwatch demo, day {status.scene.day}, {minutes}:{seconds:02d}", style="bold")
    style = "bold red" if status.scene.is_broken else "green"
    story = Text(CHAPTER_TEXTS[status.scene.chapter], style=style)
    return Panel(story, title=title, title_align="left", border_style="dim", height=_STORY_LINES)


def _segments(status: DemoStatus, width: int) -> Table:
    """Where each segment stands by the metric that the rules look at, and how it went."""
    bars = width - _NAME_WIDTH - _VALUE_WIDTH - 2
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("segment", width=_NAME_WIDTH)
    table.add_column("rbo", width=_VALUE_WIDTH, justify="right")
    table.add_column("each run", width=bars)
    for segment in SEGMENTS:
        states = {alert.state for alert in status.alerts if alert.segment == segment}
        style = next((style for state, style in reversed(_STATE_STYLES.items()) if state in states), "green")
        trend = status.trend(segment, SHOWN_METRIC)
        value = f"{trend[-1]:.3f}" if trend else ""
        table.add_row(segment, Text(value, style=style), Text(sparkline(trend, bars), style=style))
    return table


def _note_line(note: LogNote) -> Text:
    return _line((_clock(note.at), "dim"), " ", (f"{note.kind:<8}", _NOTE_STYLES[note.kind]), " ", note.text)


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")


@contextmanager
def open_view(console: Console, url: str) -> Iterator[Callable[[DemoStatus], None]]:
    """Show each status as suits the console: frames need a terminal that moves its cursor and shows Unicode."""
    if not console.is_terminal or console.is_dumb_terminal or not console.encoding.startswith("utf"):
        printed = set[LogNote]()

        def print_new(status: DemoStatus) -> None:
            for note in status.notes:
                if note not in printed:
                    line = f"{_clock(note.at)} {note.kind:<8} {note.text}"
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
                    printed.add(note)

        yield print_new
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def redraw(status: DemoStatus) -> None:
            width, height = console.size
            live.update(render_frame(status, url, width=width, height=height), refresh=True)

        yield redraw
