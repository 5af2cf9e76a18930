import io
from typing import Any

import pytest
from rich.console import Console

from monitor.demo.screen import NewLines, open_view, render_frame, sparkline
from monitor.demo.simulation import LogNote, NoteKind
from monitor.demo.story import CHAPTER_TEXTS, Chapter, Scene
from monitor.model import RunStatus, State

SIZES = [(80, 23), (80, 40), (120, 23), (120, 50), (200, 60)]


def drawn(status: Any, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, color_system=None, force_terminal=True, record=True, quiet=False)
    with console.capture() as captured:
        console.print(render_frame(status, width=width, height=height))
    return captured.get().splitlines()


@pytest.fixture
def full(make: Any) -> Any:
    alerts = (
        make.alert(State.QUIET, segment="all"),
        make.alert(State.PENDING, alert="ManyUsersApart", segment="all"),
        make.alert(State.FIRING, since=make.at(20)),
    )
    notes = tuple(LogNote(at=make.at(n), kind=NoteKind.NOTIFIED, text=f"note {n} " + "long " * 40) for n in range(20))
    scene = Scene(day=7, chapter=Chapter.BROKEN, since_day=5)
    return make.status(scene=scene, seen=make.seen_runs(60, alerts=alerts), notes=notes)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_frame_full_or_empty_has_exactly_the_height_and_never_more_than_the_width(
    full: Any, make: Any, width: int, height: int
) -> None:
    lines = drawn(full, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) == height or height > 50  # with everything shown, more room stays empty
    assert len(drawn(make.status(), width, height)) == len(lines)


@pytest.mark.parametrize("width", [80, 120])
def test_the_frame_says_day_time_story_and_where_everything_is(full: Any, width: int) -> None:
    text = "\n".join(drawn(full, width, 23))
    assert "day 7, 1:01" in text
    assert CHAPTER_TEXTS[Chapter.BROKEN].split(":")[0] in text
    for part in (
        "http://127.0.0.1:29108/",
        "/metrics",
        "rankwatch.yaml",
        "rankwatch.db",
        "rankwatch-demo",
        "Ctrl-C stops everything",
    ):
        assert part in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_is_shown_with_slot_status_users_and_each_mean(make: Any, width: int) -> None:
    run = make.run(0)
    means = {run.slot: {("all", "extended_tau"): 0.5214, ("all", "rbo(p=0.9)"): 0.6789, ("all", "overlap"): 0.7}}
    lines = drawn(make.status(seen=make.seen(runs=(run,), means=means)), width, 23)
    row = next(line for line in lines if "399/400" in line)
    assert row.split()[:6] == [run.slot.astimezone().strftime("%H:%M:%S"), "ok", "399/400", "0.521", "0.679", "0.700"]


def test_a_failed_run_is_shown_by_its_status_without_numbers(make: Any) -> None:
    run = make.run(0, status=RunStatus.FAILED, asked=None, paired=None)
    text = drawn(make.status(seen=make.seen(runs=(run,))), 80, 23)
    row = next(line for line in text if "failed" in line)
    assert "0." not in row


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
    assert "nothing judged yet: a run is due every 2s" in drawn(make.status(), 80, 23)
    seen = make.seen(alerts=(make.alert(State.QUIET), make.alert(State.QUIET, segment="all")))
    assert "all 2 quiet" in drawn(make.status(seen=seen), 80, 23)


def test_the_newest_notes_are_shown_each_cut_to_one_line(full: Any) -> None:
    lines = [line for line in drawn(full, 80, 23) if "NOTIFIED" in line]
    assert ["note 18" in lines[0], "note 19" in lines[1], len(lines)] == [True, True, 2]
    assert all(len(line) == 80 and line.endswith("…") for line in lines)


def test_markup_in_what_was_measured_is_shown_as_it_is(make: Any) -> None:
    note = LogNote(at=make.at(0), kind=NoteKind.FIRING, text="[red]x[/red] [link=http://a]")
    seen = make.seen(alerts=(make.alert(State.FIRING, reason="[bold]why[/]"),))
    text = "\n".join(drawn(make.status(notes=(note,), seen=seen), 80, 23))
    assert "[red]x[/red] [link=http://a]" in text
    assert "[bold]why[/]" in text


def test_the_trend_of_a_segment_shows_the_fall(make: Any) -> None:
    runs = tuple(make.run(2 * number) for number in (3, 2, 1, 0))
    values = {0: 0.99, 1: 0.99, 2: 0.0, 3: 0.5}
    means = {make.at(2 * number): {("country=DE", "rbo(p=0.9)"): value} for number, value in values.items()}
    row = next(line for line in drawn(make.status(seen=make.seen(runs=runs, means=means)), 80, 23) if "country=DE" in line)
    assert row.split()[-2:] == ["0.500", "██▁▅"]


def test_a_sparkline_keeps_the_newest_values_and_stays_within_its_bars() -> None:
    assert sparkline([0.0, 0.5, 1.0], 2) == "▅█"
    assert sparkline([-1.0, 0.124, 0.125, 7.0], 9) == "▁▁▂█"
    assert sparkline([], 5) == ""
    assert sparkline([0.3], 0) == ""


def clock(make: Any, seconds: float) -> str:
    return f"{make.at(seconds).astimezone():%H:%M:%S}"


def test_the_first_lines_say_where_everything_is(make: Any) -> None:
    assert NewLines().new(make.status()) == [
        "Configuration rankwatch-demo/rankwatch.yaml, database rankwatch-demo/rankwatch.db, log rankwatch-demo/rankwatch.log",
        "Page http://127.0.0.1:29108/, metrics http://127.0.0.1:29108/metrics",
    ]


def test_each_run_and_each_note_is_printed_once_in_order_of_time(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    note = LogNote(at=make.at(1), kind=NoteKind.FIRING, text="SimilarityLow country=DE: why")
    status = make.status(seen=make.seen_runs(2), notes=(note,))
    assert lines.new(status) == [
        f"{clock(make, 0)} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
        f"{clock(make, 1)} FIRING   SimilarityLow country=DE: why",
        f"{clock(make, 2)} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
    ]
    assert lines.new(status) == []


def test_a_run_is_printed_only_when_it_has_ended_and_its_means_are_known(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    running = make.run(0, status=RunStatus.RUNNING, finished_at=None)
    assert lines.new(make.status(seen=make.seen(runs=(running,)))) == []
    assert lines.new(make.status(seen=make.seen(runs=(make.run(0),)))) == []
    assert len(lines.new(make.status(seen=make.seen_runs(1)))) == 1


def test_a_failed_run_is_printed_with_its_reason(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    run = make.run(0, status=RunStatus.FAILED, asked=None, paired=None, reason="the baseline is down")
    (line,) = lines.new(make.status(seen=make.seen(runs=(run,))))
    assert line.endswith("RUN      failed paired 0/0 the baseline is down")


def test_what_is_no_terminal_gets_plain_unwrapped_lines_without_markup(make: Any) -> None:
    out = io.StringIO()
    note = LogNote(at=make.at(0), kind=NoteKind.RESOLVED, text="[bold]as it is[/bold] " + "long " * 60)
    with open_view(Console(file=out, width=80)) as view:
        view(make.status(notes=(note,)))
    text = out.getvalue()
    assert "\x1b" not in text
    assert text.splitlines()[2].startswith(f"{clock(make, 0)} RESOLVED [bold]as it is[/bold] long")
    assert len(text.splitlines()) == 3


def test_a_terminal_gets_a_frame_that_stays_when_the_view_closes(make: Any) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=30, force_terminal=True, _environ={"TERM": "xterm-256color"})
    with open_view(console) as view:
        view(make.status())
    text = out.getvalue()
    assert "Ctrl-C stops everything" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is shown again


def test_a_dumb_terminal_gets_lines(make: Any) -> None:
    out = io.StringIO()
    with open_view(Console(file=out, width=80, force_terminal=True, _environ={"TERM": "dumb"})) as view:
        view(make.status())
    assert "Page http://127.0.0.1:29108/, metrics http://127.0.0.1:29108/metrics\n" in out.getvalue()
