from typing import Any

import pytest
from rich.console import Console

from monitor.demo.screen import render_frame, sparkline
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
    notes = tuple(LogNote(at=make.at(n), kind=NoteKind.TOLD, text=f"note {n} " + "long " * 40) for n in range(20))
    scene = Scene(day=7, chapter=Chapter.BROKEN, since_day=5)
    return make.status(scene=scene, seen=make.seen_runs(60, alerts=alerts), notes=notes)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_full_frame_has_exactly_the_height_and_never_more_than_the_width(full: Any, width: int, height: int) -> None:
    lines = drawn(full, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) == height or height > 50  # with everything shown, more room stays empty


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_an_empty_frame_is_as_high_as_a_full_one(full: Any, make: Any, width: int, height: int) -> None:
    assert len(drawn(make.status(), width, height)) == len(drawn(full, width, height))


@pytest.mark.parametrize("width", [80, 120])
def test_the_frame_says_day_time_story_and_where_everything_is(full: Any, width: int) -> None:
    text = "\n".join(drawn(full, width, 23))
    assert "day 7, 1:01" in text
    assert CHAPTER_TEXTS[Chapter.BROKEN].split(":")[0] in text
    for part in (
        "http://127.0.0.1:29108/metrics",
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


def test_quiet_alerts_are_counted_in_one_line(make: Any) -> None:
    seen = make.seen(alerts=(make.alert(State.QUIET), make.alert(State.QUIET, segment="all")))
    assert "all 2 quiet" in drawn(make.status(seen=seen), 80, 23)


def test_before_the_first_run_the_frame_says_when_one_is_due(make: Any) -> None:
    assert "nothing judged yet: a run is due every 2s" in drawn(make.status(), 80, 23)


def test_the_newest_notes_are_shown_each_cut_to_one_line(full: Any) -> None:
    lines = [line for line in drawn(full, 80, 23) if "TOLD" in line]
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
