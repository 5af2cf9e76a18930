"""What the demo shows: frames on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from monitor.demo.simulation import DemoStatus, LogNote, NoteKind
from monitor.demo.story import CHAPTER_TEXTS, Chapter
from monitor.demo.workspace import DEMO_METRICS, SHOWN_METRIC
from monitor.model import ALL, AlertState, Run, RunStatus, State

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest ``width`` values as bars, oldest first: 0 and below is the lowest bar, 1 and above the highest."""
    newest = values[-width:] if width > 0 else ()
    return "".join(_BARS[min(max(int(value * len(_BARS)), 0), len(_BARS) - 1)] for value in newest)


_CHAPTER_STYLES = {Chapter.HEALTHY: "green", Chapter.BROKEN: "bold red", Chapter.HEALED: "green"}
_STATE_STYLES = {State.QUIET: "green", State.PENDING: "yellow", State.FIRING: "bold red"}
_LOUDNESS = {State.FIRING: 0, State.PENDING: 1, State.QUIET: 2}
_NOTE_STYLES = {
    NoteKind.STORY: "cyan",
    NoteKind.FIRING: "bold red",
    NoteKind.RESOLVED: "bold green",
    NoteKind.NOTIFIED: "magenta",
    NoteKind.WRONG: "bold red",
}
_TITLES = {"extended_tau": "ext. tau", SHOWN_METRIC: "rbo"}
_STORY_LINES, _ALERTS, _FOOTER_LINES, _FEWEST_NOTES, _MOST_NOTES, _FEWEST_ROWS = 2, 2, 2, 2, 8, 3
_RUNS_WIDTH = 47
_GAP = 2
_NAME_WIDTH, _VALUE_WIDTH = 13, 5


def render_frame(status: DemoStatus, *, width: int, height: int) -> RenderableType:
    """Draw the status in ``width`` columns (80 or more) and ``height`` lines (23 or more)."""
    # Fixed are header, table head, two titles, two lines an alert, and the footer; of the rest segments come before notes.
    left = height - (_STORY_LINES + 2) - 1 - 2 - 2 * _ALERTS - _FOOTER_LINES
    notes = min(max(left - len(status.segments), _FEWEST_NOTES), _MOST_NOTES)
    rows = max(left - notes, _FEWEST_ROWS)
    middle = Table.grid(padding=(0, _GAP, 0, 0))
    middle.add_column(width=_RUNS_WIDTH)
    middle.add_column()
    middle.add_row(_runs(status, rows), _segments(status, rows, width - _RUNS_WIDTH - _GAP))
    return Group(
        _header(status), middle, _titled("alerts"), *_alerts(status), _titled("log"), _log(status, notes), _footer(status)
    )


def _titled(title: str) -> Rule:
    return Rule(Text(title, style="bold"), align="left", style="dim")


def _header(status: DemoStatus) -> RenderableType:
    scene = status.scene
    story = Text(CHAPTER_TEXTS[scene.chapter], style=_CHAPTER_STYLES[scene.chapter])
    minutes, seconds = divmod(int(status.elapsed_s), 60)
    title = Text(f"rankwatch demo, day {scene.day}, {minutes}:{seconds:02d}", style="bold")
    return Panel(story, title=title, title_align="left", box=box.ROUNDED, border_style="dim", height=_STORY_LINES + 2)


def _runs(status: DemoStatus, rows: int) -> RenderableType:
    table = _table()
    table.add_column("run", width=8)
    table.add_column("status", width=7)
    table.add_column("users", width=7, justify="right")
    for metric in DEMO_METRICS:
        title = _TITLES.get(metric, metric)
        table.add_column(title, width=max(len(title), _VALUE_WIDTH), justify="right")
    shown = status.seen.runs[:rows]
    for run in shown:
        table.add_row(_clock(run.slot), _status(run), _users(run), *_means(run, status))
    for _ in range(rows - len(shown)):
        table.add_row("")
    return table


def _status(run: Run) -> Text:
    styles = {RunStatus.OK: "green", RunStatus.RUNNING: "dim"}
    return Text(run.status, style=styles.get(run.status, "red"), overflow="ellipsis")


def _users(run: Run) -> str:
    return "" if run.asked is None else f"{run.paired or 0}/{run.asked}"


def _means(run: Run, status: DemoStatus) -> list[str]:
    means = status.seen.means.get(run.slot, {})
    return ["" if (mean := means.get((ALL, metric))) is None else f"{mean:.3f}" for metric in DEMO_METRICS]


def _segments(status: DemoStatus, rows: int, width: int) -> RenderableType:
    """Where each segment stands by the metric that the rules look at, and how it went."""
    bars = max(width - _NAME_WIDTH - _VALUE_WIDTH - 2, 1)
    table = _table()
    table.add_column("segment", width=_NAME_WIDTH)
    table.add_column(_TITLES[SHOWN_METRIC], width=_VALUE_WIDTH, justify="right")
    table.add_column("each run", width=bars)
    loud = {alert.segment: alert.state for alert in reversed(_by_loudness(status.seen.alerts))}
    for segment in status.segments[:rows]:
        trend = status.seen.trend(segment)
        style = _STATE_STYLES[loud.get(segment, State.QUIET)]
        value = f"{trend[-1]:.3f}" if trend else ""
        table.add_row(Text(segment), Text(value, style=style), Text(sparkline(trend, bars), style=style))
    return table


def _alerts(status: DemoStatus) -> list[RenderableType]:
    """Alerts that are not quiet, loudest first, two lines each."""
    loud = [alert for alert in _by_loudness(status.seen.alerts) if alert.state is not State.QUIET][:_ALERTS]
    lines = [line for alert in loud for line in (_alert_line(alert), _line(" " * 9, alert.reason))]
    if not lines:
        quiet = f"all {len(status.seen.alerts)} quiet"
        lines = [Text(quiet if status.seen.alerts else f"nothing judged yet: a run is due every {status.every}", style="green")]
    # Always as many lines, so that what stands below does not jump.
    return [*lines, *(Text("") for _ in range(2 * _ALERTS - len(lines)))]


def _by_loudness(alerts: Sequence[AlertState]) -> list[AlertState]:
    return sorted(alerts, key=lambda alert: (_LOUDNESS[alert.state], alert.alert != "SimilarityLow", alert.segment))


def _alert_line(alert: AlertState) -> Text:
    return _line(
        (f"{alert.state.upper():<8}", _STATE_STYLES[alert.state]),
        (f" {alert.alert} {alert.segment}", "bold"),
        (f"  {alert.severity}, since {_clock(alert.since)}", "dim"),
    )


def _log(status: DemoStatus, rows: int) -> RenderableType:
    lines = [_note_line(note) for note in status.notes[-rows:]]
    return Group(*lines, *(Text("") for _ in range(rows - len(lines))))


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


@dataclass(slots=True)
class NewLines:
    """The lines of each status that no earlier one had."""

    _runs: set[datetime] = field(default_factory=set)
    _notes: set[LogNote] = field(default_factory=set)
    _is_begun: bool = False

    def new(self, status: DemoStatus) -> list[str]:
        """The new lines of this status, in the order in which things happened."""
        head = [] if self._is_begun else list(_opening_lines(status))
        self._is_begun = True
        timed = [*self._new_notes(status), *self._new_runs(status)]
        return head + [f"{_clock(at)} {text}" for at, text in sorted(timed, key=lambda one: one[0])]

    def _new_notes(self, status: DemoStatus) -> Iterator[tuple[datetime, str]]:
        for note in status.notes:
            if note not in self._notes:
                self._notes.add(note)
                yield note.at, f"{note.kind.upper():<8} {note.text}"

    def _new_runs(self, status: DemoStatus) -> Iterator[tuple[datetime, str]]:
        for run in status.seen.runs:
            # A run that ended between two queries of one reading has no means yet: it is printed at the next one.
            is_whole = run.status is not RunStatus.OK or run.slot in status.seen.means
            if run.finished_at is not None and is_whole and run.slot not in self._runs:
                self._runs.add(run.slot)
                yield run.finished_at, _run_text(run, status)


def _opening_lines(status: DemoStatus) -> Iterator[str]:
    files = status.workspace
    yield f"Configuration {files.config}, database {files.database}, log {files.log}"
    yield f"Page {status.url}/, metrics {status.url}/metrics"


def _run_text(run: Run, status: DemoStatus) -> str:
    means = status.seen.means.get(run.slot, {})
    values = [f"{metric} {value:.3f}" for metric in DEMO_METRICS if (value := means.get((ALL, metric))) is not None]
    reason = [run.reason] if run.reason else []
    return " ".join([f"RUN      {run.status} paired {run.paired or 0}/{run.asked or 0}", *values, *reason])


@contextmanager
def open_view(console: Console) -> Iterator[Callable[[DemoStatus], None]]:
    """Show each status as suits the console: frames need a terminal that moves its cursor and shows Unicode."""
    if not console.is_terminal or console.is_dumb_terminal or not console.encoding.startswith("utf"):
        lines = NewLines()

        def print_new(status: DemoStatus) -> None:
            for line in lines.new(status):
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield print_new
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def redraw(status: DemoStatus) -> None:
            width, height = console.size
            live.update(render_frame(status, width=width, height=height - 1), refresh=True)  # a line is left for the cursor

        yield redraw
