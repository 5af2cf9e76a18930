"""What the demo shows: frames on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from rich import box
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from monitor.demo.simulation import SEGMENTS, DemoStatus, LogNote, NoteKind
from monitor.demo.story import CHAPTER_TEXTS, Chapter
from monitor.demo.workspace import DEMO_METRICS, SHOWN_METRIC
from monitor.model import ALL, AlertState, Run, RunStatus, State

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest ``width`` values (1 or more) as bars, oldest first: 0 and below is the lowest, 1 and above the highest."""
    return "".join(_BARS[min(max(int(value * len(_BARS)), 0), len(_BARS) - 1)] for value in values[-width:])


_CHAPTER_STYLES = {Chapter.HEALTHY: "green", Chapter.BROKEN: "bold red", Chapter.HEALED: "green"}
_STATE_STYLES = {State.QUIET: "green", State.PENDING: "yellow", State.FIRING: "bold red"}
_LOUDNESS = {State.FIRING: 0, State.PENDING: 1, State.QUIET: 2}
_RUN_STYLES = {RunStatus.OK: "green", RunStatus.RUNNING: "dim"}
_NOTE_STYLES = {
    NoteKind.STORY: "cyan",
    NoteKind.FIRING: "bold red",
    NoteKind.RESOLVED: "bold green",
    NoteKind.NOTIFIED: "magenta",
}
_TITLES = {"extended_tau": "ext. tau", SHOWN_METRIC: "rbo"}
# Lines, of which each part has some at any height: header with its box, segments with their head, two alerts of two lines.
_HEADER, _TABLES, _ALERTS, _FOOTER = 4, len(SEGMENTS) + 1, 2, 2
_FEWEST_NOTES, _MOST_NOTES = 2, 8
_RUNS_WIDTH, _NAME_WIDTH, _VALUE_WIDTH = 49, 13, 5


def render_frame(status: DemoStatus, *, width: int, height: int) -> RenderableType:
    """Draw the status in ``width`` columns (80 or more) and ``height`` lines (23 or more)."""
    left = height - _HEADER - _TABLES - 2 * _ALERTS - _FOOTER - 2  # two titles
    notes = min(max(left, _FEWEST_NOTES), _MOST_NOTES)
    frame, middle = Layout(), Layout()
    middle.split_row(Layout(_runs(status), size=_RUNS_WIDTH), Layout(_segments(status, width - _RUNS_WIDTH)))
    frame.split_column(
        Layout(_header(status), size=_HEADER),
        middle,
        Layout(_titled("alerts", _alerts(status)), size=2 * _ALERTS + 1),
        Layout(_titled("log", _log(status, notes)), size=notes + 1),
        Layout(_footer(status), size=_FOOTER),
    )
    return frame


def _titled(title: str, lines: Sequence[Text]) -> RenderableType:
    return Group(Rule(Text(title, style="bold"), align="left", style="dim"), *lines)


def _header(status: DemoStatus) -> RenderableType:
    scene = status.scene
    story = Text(CHAPTER_TEXTS[scene.chapter], style=_CHAPTER_STYLES[scene.chapter])
    minutes, seconds = divmod(int(status.elapsed_s), 60)
    title = Text(f"rankwatch demo, day {scene.day}, {minutes}:{seconds:02d}", style="bold")
    return Panel(story, title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _runs(status: DemoStatus) -> RenderableType:
    table = _table()
    table.add_column("run", width=8)
    table.add_column("status", width=7)
    table.add_column("users", width=7, justify="right")
    for metric in DEMO_METRICS:
        title = _TITLES.get(metric, metric)
        table.add_column(title, width=max(len(title), _VALUE_WIDTH), justify="right")
    for run in status.seen.runs:
        state = Text(run.status, style=_RUN_STYLES.get(run.status, "red"), overflow="ellipsis")
        users = "" if run.asked is None else f"{run.paired or 0}/{run.asked}"
        table.add_row(_clock(run.slot), state, users, *_means(run, status))
    return table


def _means(run: Run, status: DemoStatus) -> list[str]:
    means = status.seen.means[run.slot]
    return ["" if (mean := means.get((ALL, metric))) is None else f"{mean:.3f}" for metric in DEMO_METRICS]


def _segments(status: DemoStatus, width: int) -> RenderableType:
    """Where each segment stands by the metric that the rules look at, and how it went."""
    bars = max(width - _NAME_WIDTH - _VALUE_WIDTH - 2, 1)
    table = _table()
    table.add_column("segment", width=_NAME_WIDTH)
    table.add_column(_TITLES[SHOWN_METRIC], width=_VALUE_WIDTH, justify="right")
    table.add_column("each run", width=bars)
    loud = {alert.segment: alert.state for alert in reversed(_by_loudness(status.seen.alerts))}
    for segment in SEGMENTS:
        trend = status.seen.trend(segment)
        style = _STATE_STYLES[loud.get(segment, State.QUIET)]
        value = f"{trend[-1]:.3f}" if trend else ""
        table.add_row(Text(segment), Text(value, style=style), Text(sparkline(trend, bars), style=style))
    return table


def _alerts(status: DemoStatus) -> list[Text]:
    """Alerts that are not quiet, loudest first, two lines each."""
    loud = [alert for alert in _by_loudness(status.seen.alerts) if alert.state is not State.QUIET][:_ALERTS]
    lines = [line for alert in loud for line in (_alert_line(alert), _line(" " * 9, alert.reason))]
    quiet = f"all {len(status.seen.alerts)} quiet"
    nothing = quiet if status.seen.alerts else f"nothing judged yet: a run is due every {status.every}"
    return lines or [Text(nothing, style="green")]


def _by_loudness(alerts: Sequence[AlertState]) -> list[AlertState]:
    return sorted(alerts, key=lambda alert: (_LOUDNESS[alert.state], alert.alert != "SimilarityLow", alert.segment))


def _alert_line(alert: AlertState) -> Text:
    return _line(
        (f"{alert.state.upper():<8}", _STATE_STYLES[alert.state]),
        (f" {alert.alert} {alert.segment}", "bold"),
        (f"  {alert.severity}, since {_clock(alert.since)}", "dim"),
    )


def _log(status: DemoStatus, rows: int) -> list[Text]:
    # Runs have a table of their own.
    return [_note_line(note) for note in status.notes if note.kind is not NoteKind.RUN][-rows:]


def _note_line(note: LogNote) -> Text:
    return _line((_clock(note.at), "dim"), " ", (f"{note.kind.upper():<8}", _NOTE_STYLES[note.kind]), " ", note.text)


def _footer(status: DemoStatus) -> RenderableType:
    files = status.workspace
    page = ("page ", "dim"), (f"{status.url}/", "underline"), ("  metrics ", "dim"), "/metrics"
    return Group(
        _line(*page, ("   Ctrl-C stops everything", "bold")),
        _line((f"{files.config.name}, {files.database.name} and {files.log.name} are in ", "dim"), str(files.directory)),
    )


def _table() -> Table:
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")


def _opening_lines(status: DemoStatus) -> Iterator[str]:
    files = status.workspace
    yield f"Configuration {files.config}, database {files.database}, log {files.log}"
    yield f"Page {status.url}/, metrics {status.url}/metrics"


@contextmanager
def open_view(console: Console) -> Iterator[Callable[[DemoStatus], None]]:
    """Show each status as suits the console: frames need a terminal that moves its cursor and shows Unicode."""
    if not console.is_terminal or console.is_dumb_terminal or not console.encoding.startswith("utf"):
        printed = set[LogNote]()

        def print_new(status: DemoStatus) -> None:
            new = [note for note in status.notes if note not in printed]
            lines = [f"{_clock(note.at)} {note.kind.upper():<8} {note.text}" for note in new]
            for line in lines if printed else (*_opening_lines(status), *lines):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            printed.update(new)

        yield print_new
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def redraw(status: DemoStatus) -> None:
            width, height = console.size
            live.update(render_frame(status, width=width, height=height), refresh=True)

        yield redraw
