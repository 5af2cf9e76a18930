import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from demo.conftest import alert, at, change, received, run, runs_of, status
from monitor.demo.screen import SEGMENTS, open_view, render_frame, sparkline
from monitor.demo.simulation import DemoStatus
from monitor.demo.story import CHAPTER_TEXTS, Chapter, StoryDay
from monitor.model import State

URL = "http://127.0.0.1:29108"


def drawn(shown: DemoStatus, width: int = 80, height: int = 23) -> list[str]:
    console = Console(width=width, height=height, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(render_frame(shown, URL, width=width, height=height))
    return captured.get().splitlines()


@pytest.fixture
def full() -> DemoStatus:
    messages = tuple(received(1000 + n, "long " * 40, (f"note {n}", "all")) for n in range(20))
    scene = StoryDay(day=7, chapter=Chapter.BROKEN, since_day=5)
    return status(scene=scene, alerts=(alert(State.FIRING),), received=messages, **runs_of(60))


@pytest.mark.parametrize(("width", "height"), [(80, 20), (80, 40), (120, 23), (200, 60)])
def test_a_full_frame_has_the_height_and_never_more_than_the_width_with_the_newest_notes(
    full: DemoStatus, width: int, height: int
) -> None:
    lines = drawn(full, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) == height >= len(drawn(status(), width, height))
    assert "note 19" in lines[-2]
    for part in (
        "day 7, 1:01",
        CHAPTER_TEXTS[Chapter.BROKEN].split(":")[0],
        f"page {URL}/   Ctrl-C stops everything",
        *SEGMENTS,
    ):
        assert any(part in line for line in lines), part


def test_markup_in_what_was_measured_is_shown_as_it_is() -> None:
    assert any("[red]x[/red] all" in line for line in drawn(status(received=(received(0, "x", ("[red]x[/red]", "all")),))))


def test_the_trend_of_a_segment_shows_the_fall() -> None:
    runs, values = tuple(run(2 * number) for number in (3, 2, 1, 0)), {0: 0.99, 1: 0.99, 2: 0.0, 3: 0.5}
    means = {at(2 * number): {("country=DE", "rbo(p=0.9)"): value} for number, value in values.items()}
    row = next(line for line in drawn(status(runs=runs, means=means)) if "country=DE" in line)
    assert row.split()[-2:] == ["0.500", "██▁▅"]


def test_a_sparkline_keeps_the_newest_values_and_stays_within_its_bars() -> None:
    assert sparkline([0.0, 0.5, 1.0], 2) == "▅█"
    assert sparkline([-1.0, 0.124, 0.125, 7.0], 9) == "▁▁▂█"
    assert sparkline([], 5) == ""


def printed(*statuses: DemoStatus, **terminal: Any) -> str:
    out = io.StringIO()
    with open_view(Console(file=out, width=80, height=30, **terminal), URL) as view:
        for each in statuses:
            view(each)
    return out.getvalue()


def test_what_is_no_terminal_gets_each_note_once_in_plain_unwrapped_lines() -> None:
    long = replace(change(1, State.PENDING, State.FIRING), reason="[bold]as it is[/bold] " + "long " * 60)
    second = status(transitions=(long,), **runs_of(2))
    times = [f"{at(seconds).astimezone():%H:%M:%S}" for seconds in (-1, 0.5, 1, 2.5)]
    assert printed(status(), second, second).splitlines() == [
        f"{times[0]} STORY    {CHAPTER_TEXTS[Chapter.HEALTHY]}",
        f"{times[1]} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
        f"{times[2]} FIRING   SimilarityLow country=DE: {long.reason}",
        f"{times[3]} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
    ]


def test_a_terminal_gets_a_frame_that_stays_when_the_view_closes_and_a_dumb_one_lines() -> None:
    shown = printed(status(), force_terminal=True, _environ={"TERM": "xterm-256color"})
    assert "Ctrl-C stops everything" in shown
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is shown again
    assert "\x1b" not in printed(status(), force_terminal=True, _environ={"TERM": "dumb"})
