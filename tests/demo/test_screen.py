import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from monitor.demo.screen import open_view, render_frame, sparkline
from monitor.demo.simulation import SEGMENTS
from monitor.demo.story import CHAPTER_TEXTS, Chapter, StoryDay
from monitor.model import RunStatus, State

SIZES = [(80, 23), (80, 40), (120, 23), (120, 50), (200, 60)]


def drawn(status: Any, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, color_system=None, force_terminal=True, record=True, quiet=False)
    with console.capture() as captured:
        console.print(render_frame(status, width=width, height=height))
    return captured.get().splitlines()


def text(status: Any, width: int = 80, height: int = 23) -> str:
    return "\n".join(drawn(status, width, height))


@pytest.fixture
def full(make: Any) -> Any:
    alerts = (
        make.alert(State.QUIET, segment="all"),
        make.alert(State.PENDING, alert="ManyUsersApart", segment="all"),
        make.alert(State.FIRING, since=make.at(20)),
    )
    received = tuple(make.received(1000 + n, "long " * 40, alert=f"note {n}") for n in range(20))
    scene = StoryDay(day=7, chapter=Chapter.BROKEN, since_day=5)
    return make.status(scene=scene, seen=make.seen_runs(60, alerts=alerts), received=received)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_frame_full_or_empty_has_exactly_the_height_and_never_more_than_the_width(
    full: Any, make: Any, width: int, height: int
) -> None:
    lines = drawn(full, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) == len(drawn(make.status(), width, height)) == height
    assert all(any(segment in line for line in lines) for segment in SEGMENTS)


@pytest.mark.parametrize("width", [80, 120])
def test_the_frame_says_day_time_story_and_where_everything_is(full: Any, width: int) -> None:
    shown = text(full, width)
    story, files = CHAPTER_TEXTS[Chapter.BROKEN].split(":")[0], "rankwatch.yaml, rankwatch.db and rankwatch.log are in "
    for part in ("day 7, 1:01", story, "http://127.0.0.1:29108/", "/metrics", files + "rankwatch-demo", "Ctrl-C stops"):
        assert part in shown


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_is_shown_with_slot_status_users_and_each_mean_and_a_failed_one_without_numbers(make: Any, width: int) -> None:
    run, failed = make.run(0), make.run(2, status=RunStatus.FAILED, asked=None, paired=None)
    means = {("all", "extended_tau"): 0.5214, ("all", "rbo(p=0.9)"): 0.6789, ("all", "overlap"): 0.7}
    lines = drawn(make.status(seen=make.seen(failed, run, means={run.slot: means, failed.slot: {}})), width, 23)
    clocks = [each.slot.astimezone().strftime("%H:%M:%S") for each in (failed, run)]
    shown = [line[:47].split() for line in lines if line.startswith(tuple(clocks))]
    assert shown == [[clocks[0], "failed"], [clocks[1], "ok", "399/400", "0.521", "0.679", "0.700"]]


@pytest.mark.parametrize("width", [80, 120])
def test_loud_alerts_stand_with_state_since_and_reason_the_firing_one_first(full: Any, make: Any, width: int) -> None:
    lines = drawn(full, width, 23)
    start = next(number for number, line in enumerate(lines) if line.startswith("alerts"))
    firing, reason, pending = lines[start + 1 : start + 4]
    assert firing.startswith("FIRING   SimilarityLow country=DE")
    assert f"since {make.at(20).astimezone():%H:%M:%S}" in firing
    assert reason.strip() == "reason of SimilarityLow country=DE"
    assert pending.startswith("PENDING  ManyUsersApart all")


def test_quiet_alerts_are_counted_in_one_line_and_before_the_first_run_it_says_when_one_is_due(make: Any) -> None:
    assert "nothing judged yet: a run is due every 2s" in text(make.status())
    seen = make.seen(alerts=(make.alert(State.QUIET), make.alert(State.QUIET, segment="all")))
    assert "all 2 quiet" in text(make.status(seen=seen))


def test_the_newest_notes_but_no_runs_are_shown_each_cut_to_one_line(full: Any) -> None:
    lines = drawn(full, 80, 23)
    notes = lines[next(number for number, line in enumerate(lines) if line.startswith("log")) + 1 : -2]
    assert ["note 18" in notes[0], "note 19" in notes[1], len(notes)] == [True, True, 2]
    assert all("NOTIFIED" in line and len(line) == 80 and line.endswith("…") for line in notes)


def test_markup_in_what_was_measured_is_shown_as_it_is(make: Any) -> None:
    seen = make.seen(alerts=(make.alert(State.FIRING, reason="[bold]why[/]"),))
    shown = text(make.status(received=(make.received(0, "x", alert="[red]x[/red]"),), seen=seen))
    assert "[red]x[/red] country=DE" in shown
    assert "[bold]why[/]" in shown


def test_the_trend_of_a_segment_shows_the_fall(make: Any) -> None:
    runs = tuple(make.run(2 * number) for number in (3, 2, 1, 0))
    values = {0: 0.99, 1: 0.99, 2: 0.0, 3: 0.5}
    means = {make.at(2 * number): {("country=DE", "rbo(p=0.9)"): value} for number, value in values.items()}
    row = next(line for line in drawn(make.status(seen=make.seen(*runs, means=means)), 80, 23) if "country=DE" in line)
    assert row.split()[-2:] == ["0.500", "██▁▅"]


def test_a_sparkline_keeps_the_newest_values_and_stays_within_its_bars() -> None:
    assert sparkline([0.0, 0.5, 1.0], 2) == "▅█"
    assert sparkline([-1.0, 0.124, 0.125, 7.0], 9) == "▁▁▂█"
    assert sparkline([], 5) == ""


def printed(*statuses: Any, **terminal: Any) -> str:
    out = io.StringIO()
    with open_view(Console(file=out, width=80, height=30, **terminal)) as view:
        for status in statuses:
            view(status)
    return out.getvalue()


def test_what_is_no_terminal_gets_each_note_once_in_plain_unwrapped_lines_after_where_everything_is(make: Any) -> None:
    start = make.transition(1, State.PENDING, State.FIRING)
    long = replace(start, reason="[bold]as it is[/bold] " + "long " * 60)
    first, second = make.status(), make.status(seen=make.seen_runs(2, transitions=(long,)))
    at = [f"{make.at(seconds).astimezone():%H:%M:%S}" for seconds in (-1, 0.5, 1, 2.5)]
    assert printed(first, second, second).splitlines() == [
        "Configuration rankwatch-demo/rankwatch.yaml, database rankwatch-demo/rankwatch.db, log rankwatch-demo/rankwatch.log",
        "Page http://127.0.0.1:29108/, metrics http://127.0.0.1:29108/metrics",
        f"{at[0]} STORY    both arms are healthy",
        f"{at[1]} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
        f"{at[2]} FIRING   SimilarityLow country=DE: {long.reason}",
        f"{at[3]} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
    ]


def test_a_terminal_gets_a_frame_that_stays_when_the_view_closes(make: Any) -> None:
    shown = printed(make.status(), force_terminal=True, _environ={"TERM": "xterm-256color"})
    assert "Ctrl-C stops everything" in shown
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is shown again


def test_a_dumb_terminal_gets_lines(make: Any) -> None:
    assert "\x1b" not in printed(make.status(), force_terminal=True, _environ={"TERM": "dumb"})
