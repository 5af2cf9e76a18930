"""The demo: a session from start to end, its commands, and the story that it plays."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import factories
import published
from factories import HeldClock
from monitor.cli.main import app
from monitor.demo import run_demo, session, simulation
from monitor.demo.servers import OnCall, ReceivedAlert, Recommenders, Shop
from monitor.demo.session import Workspace, open_workspace
from monitor.demo.simulation import (
    CHAPTER_TEXTS,
    DEMO_COMPARISON,
    DEMO_METRICS,
    EXPECTED_ALERTS,
    FAST_STORY,
    NORMAL_STORY,
    UNWATCHED_STORY,
    Chapter,
    DemoStatus,
    Simulation,
    Story,
    StoryDay,
    is_over,
    next_day,
    unmet_expectations,
)
from monitor.errors import ConfigError
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.runs import RunRecord, RunStatus
from monitor.service.daemon.daemon import Daemon

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
LOW, APART = ("SimilarityLow", "country=DE"), ("ManyUsersApart", "all")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(seconds: float, means: Mapping[str, float | None] = {}, **changes: Any) -> RunRecord:
    own = {"id": int(seconds * 10), "comparison": DEMO_COMPARISON, "asked": 400, "paired": 399, "slot": at(seconds)}
    found = published.run(**own | {"started_at": at(seconds), "finished_at": at(seconds + 0.5)} | changes)
    measured = (published.summary(segment="all", metric=name, mean=mean) for name, mean in means.items())
    return RunRecord(run=found, coverage=None, summaries=tuple(measured))


def alert(state: State, named: tuple[str, str] = LOW) -> AlertState:
    return published.state(comparison=DEMO_COMPARISON, state=state, alert=named[0], segment=named[1], since=at(0))


def change(seconds: float, from_state: State, to_state: State, named: tuple[str, str] = LOW) -> Transition:
    own = {"comparison": DEMO_COMPARISON, "alert": named[0], "segment": named[1], "from_state": from_state}
    return factories.transition(**own, to_state=to_state, slot=at(seconds), at=at(seconds), reason="mean 0.21 is below 0.45")


def received(seconds: float, status: str, named: tuple[str, str] = LOW) -> ReceivedAlert:
    return ReceivedAlert(at=at(seconds), status=status, alert=named[0], segment=named[1])


def runs_of(count: int, mean: float = 0.67) -> tuple[RunRecord, ...]:
    """So many ok runs, two seconds apart, all with the same mean everywhere."""
    return tuple(run(2 * number, dict.fromkeys(DEMO_METRICS, mean)) for number in range(count))


def status(**changes: Any) -> DemoStatus:
    own: dict[str, Any] = {"scene": StoryDay(day=7), "chapters": ((at(-1), Chapter.HEALTHY),)}
    return DemoStatus(**own | changes)


@dataclass
class ShownStore:
    """Only what the demo reads from a store; ``on_look`` is called before each look."""

    shown: tuple[RunRecord, ...] = ()
    alert_states: tuple[AlertState, ...] = ()
    on_look: Callable[[], None] = field(default=lambda: None)

    @property
    def history(self) -> "ShownStore":
        return self

    @property
    def alerts(self) -> "ShownStore":
        return self

    def run_records(self, comparison: str, *, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
        self.on_look()
        assert comparison == DEMO_COMPARISON
        return tuple(each for each in self.shown if after is None or each.run.slot > after)[:limit]

    def states(self) -> tuple[AlertState, ...]:
        return self.alert_states

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        assert (comparison, limit) == (DEMO_COMPARISON, None)
        return ()


@pytest.fixture
def store() -> ShownStore:
    return ShownStore()


Factory = Callable[[Path], Any]


def perform(directory: Path, daemon_factory: Factory, *, fast: bool) -> tuple[int, str]:
    out = StringIO()
    code = run_demo(fast=fast, directory=directory, console=Console(file=out, width=120), daemon_factory=daemon_factory)
    return code, out.getvalue()


@dataclass
class IdleDaemon:
    """A daemon that does nothing but be started, be looked at and be stopped."""

    store: Any
    calls: list[str] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def idle(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Such a daemon, over a shop that is trained in a moment."""
    monkeypatch.setattr(session, "Shop", lambda: Shop(users=60, items=60))
    return IdleDaemon(store)


def test_the_fast_demo_plays_the_whole_story_on_the_real_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer users and shorter days than people are shown."""
    monkeypatch.setattr(session, "Shop", lambda: Shop(users=150, items=300))
    monkeypatch.setattr(simulation, "FAST_STORY", replace(FAST_STORY, day_s=0.5, every="2s"))
    before = set(threading.enumerate())
    code, text = perform(tmp_path, Daemon, fast=True)

    assert code == 0, text
    lines = [line.split(maxsplit=2)[1:] for line in text.splitlines() if line[2:3] == ":"]
    told = [rest if kind == "STORY" else kind for kind, rest in lines if kind != "RUN"]
    assert told[:3] == [CHAPTER_TEXTS[Chapter.HEALTHY], CHAPTER_TEXTS[Chapter.BROKEN], "FIRING"]
    healed = told.index(CHAPTER_TEXTS[Chapter.HEALED])
    # A run that saw the fault come fires one alert, and who is on call may hear of that before the other one fires.
    assert told[:healed].count("FIRING") == told.count("FIRING") == 2
    assert healed < told.index("RESOLVED")
    assert told.count("NOTIFIED") == 4
    assert "The demo went as it should" in text
    # All pulls of a process share a loop and its resolver, which stay.
    left = [each for each in set(threading.enumerate()) - before if not each.name.startswith(("http-pulls", "resolve_"))]
    assert left == []


def test_a_fast_demo_in_which_nothing_happens_ends_with_1_and_says_what_was_missing(
    tmp_path: Path, idle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_PATIENCE_S", 0.5)
    code, text = perform(tmp_path, lambda _: idle, fast=True)
    assert code == 1
    assert "demo failed: No run ended ok." in text
    assert "demo failed: SimilarityLow country=DE became firing 0 times while the candidate was broken, expected 1." in text
    assert str(tmp_path / "rankwatch.log") in text


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("how", "fast", "code"), [(press_ctrl_c, False, 0), (press_ctrl_c, True, 130), (terminate, False, 0)])
def test_an_interrupt_stops_everything_and_what_was_logged_meanwhile_is_in_the_file(
    tmp_path: Path, idle: Any, how: Callable[[], None], fast: bool, code: int
) -> None:
    looks = iter(range(2))

    def look() -> None:
        if next(looks, None) is None:
            logging.getLogger("monitor.test").warning("said in the demo")
            how()

    threads, handler = set(threading.enumerate()), signal.getsignal(signal.SIGTERM)
    idle.store.on_look = look
    got, text = perform(tmp_path, lambda _: idle, fast=fast)
    assert (got, idle.calls) == (code, ["start", "stop"])
    assert set(threading.enumerate()) <= threads
    assert signal.getsignal(signal.SIGTERM) == handler
    assert f"Stopped. To look at what it left: rankwatch runs --config {tmp_path / 'rankwatch.yaml'}" in text
    assert "said in the demo" in (tmp_path / "rankwatch.log").read_text(encoding="utf-8")
    assert "said in the demo" not in text


def test_a_daemon_that_cannot_start_takes_the_servers_down_with_it(tmp_path: Path, idle: Any) -> None:
    def refuse() -> None:
        message = "cannot listen there"
        raise ConfigError(message)

    idle.start = refuse
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match="cannot listen there"):
        perform(tmp_path, lambda _: idle, fast=True)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("wrong", [["--recommenders", "8000"], ["--recommenders", "127.0.0.1:8000", "--fast"]])
def test_wrong_usage_is_told(wrong: list[str]) -> None:
    told = CliRunner().invoke(app, ["demo", *wrong])

    assert told.exit_code == 2
    assert "--recommenders" in told.output


def test_what_an_earlier_demo_left_is_removed_and_what_somebody_added_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a" / "b")
    with open_workspace(workspace):
        assert (workspace.directory / ".gitignore").read_text(encoding="utf-8") == "*\n"
        wal = workspace.database.with_name("rankwatch.db-wal")
        ours = (workspace.config, workspace.database, wal, workspace.users, workspace.log)
        for path in (*ours, workspace.directory / "notes.txt"):
            path.write_text("old", encoding="utf-8")
    with open_workspace(workspace):
        assert not any(path.exists() for path in ours)
        assert (workspace.directory / "notes.txt").read_text(encoding="utf-8") == "old"


def test_a_directory_that_cannot_be_had_is_a_one_line_error_and_left_alone(tmp_path: Path) -> None:
    theirs, taken, ours = tmp_path / "theirs", tmp_path / "taken", Workspace(tmp_path / "ours")
    theirs.mkdir()
    (theirs / "rankwatch.yaml").write_text("mine", encoding="utf-8")
    taken.touch()
    with open_workspace(ours):
        ours.config.write_text("the first one's", encoding="utf-8")
        for directory, says in (
            (theirs, "holds files that the demo did not write"),
            (taken, "cannot write to .*taken: File exists; name another directory with --dir"),
            (ours.directory, "another demo is running"),
        ):
            with pytest.raises(ConfigError, match=says), open_workspace(Workspace(directory)):
                pass
        assert ours.config.exists()
    assert [path.name for path in theirs.iterdir()] == ["rankwatch.yaml"]
    with open_workspace(ours):
        pass


STORY = Story(day_s=10.0, every="1s", healthy_days=1, broken_days=1, calm_days=None)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock(at=at(0))


@pytest.fixture
def play(store: Any, clock: HeldClock) -> Simulation:
    recommenders = Recommenders(Shop(users=60, items=60))
    return Simulation(
        recommenders=recommenders, on_call=OnCall(), story=STORY, store=store, now=clock.now, monotonic=clock.monotonic
    )


def test_a_day_that_is_over_brings_new_lists_and_not_before(play: Simulation, clock: HeldClock) -> None:
    lists = play.recommenders.lists
    clock.pass_by(9.9)
    found = play.step()
    assert found.scene.day == 0
    assert found.elapsed_s == pytest.approx(9.9)
    assert play.recommenders.lists is lists
    clock.pass_by(0.1)
    assert play.step().scene.day == 1
    assert play.recommenders.lists == play.recommenders.shop.lists(1, is_broken=False)


def test_the_fault_waits_for_quiet_and_two_runs_the_repair_for_both_alerts_and_two_runs_since_the_fault(
    play: Simulation, clock: HeldClock, store: Any
) -> None:
    low, apart, failed = alert(State.FIRING, LOW), alert(State.FIRING, APART), run(3, status=RunStatus.FAILED)
    before, after = (run(1), run(2)), (run(61), run(62))
    days: tuple[tuple[Any, Any, Chapter], ...] = (
        ((before[0],), (), Chapter.HEALTHY),
        (before, (low,), Chapter.HEALTHY),
        (before, (alert(State.PENDING),), Chapter.BROKEN),
        (before, (low, apart), Chapter.BROKEN),
        ((*before, failed, after[0]), (low, apart), Chapter.BROKEN),
        ((*before, *after), (low,), Chapter.BROKEN),
        ((*before, *after), (low, apart), Chapter.HEALED),
        ((*before, *after), (), Chapter.HEALED),
    )
    for store.shown, store.alert_states, chapter in days:
        clock.pass_by(10.0)
        found = play.step()
        assert found.scene.chapter is chapter
        assert play.recommenders.lists == play.recommenders.shop.lists(found.scene.day, is_broken=chapter is Chapter.BROKEN)
    assert found.chapters == ((at(0), Chapter.HEALTHY), (at(30), Chapter.BROKEN), (at(70), Chapter.HEALED))


def test_what_happened_is_a_whole_line_each_in_order_without_markup_and_pending_is_not_told() -> None:
    ok = run(3, {"extended_tau": 0.52, "rbo(p=0.9)": None, "overlap@10": 0.7})
    failed = run(1, status=RunStatus.FAILED, asked=None, paired=None, reason="the baseline is down")
    long = "[bold]as it is[/bold] " + "long " * 60
    transitions = (
        change(3, State.QUIET, State.PENDING),
        replace(change(5, State.PENDING, State.FIRING), reason=long),
        change(9, State.FIRING, State.QUIET),
    )
    shown = status(runs=(failed, ok), transitions=transitions, received=(received(6, "firing"),))
    out = StringIO()
    session.print_notes(shown.notes, Console(file=out, width=80))
    times = [f"{at(seconds).astimezone():%H:%M:%S}" for seconds in (-1, 1.5, 3.5, 5, 6, 9)]
    assert out.getvalue().splitlines() == [
        f"{times[0]} STORY    {CHAPTER_TEXTS[Chapter.HEALTHY]}",
        f"{times[1]} RUN      failed paired 0/0 the baseline is down",
        f"{times[2]} RUN      ok paired 399/400 extended_tau 0.520 overlap 0.700",
        f"{times[3]} FIRING   SimilarityLow country=DE: {long}",
        f"{times[4]} NOTIFIED on-call: SimilarityLow country=DE firing",
        f"{times[5]} RESOLVED SimilarityLow country=DE: mean 0.21 is below 0.45",
    ]


def test_runs_are_read_once_and_the_newest_are_remembered(play: Simulation, store: Any) -> None:
    for seconds in range(100):
        store.shown = (run(seconds),)
        assert play.step().runs[-1] is play.step().runs[-1] is store.shown[0]
    assert [each.run.slot for each in play.step().runs] == [at(seconds) for seconds in range(40, 100)]


def starts(named: tuple[str, str], seconds: float = 12) -> Any:
    return change(seconds, State.PENDING, State.FIRING, named)


def ends(named: tuple[str, str], seconds: float = 22) -> Any:
    return change(seconds, State.FIRING, State.QUIET, named)


GOOD = status(
    scene=StoryDay(day=9, chapter=Chapter.HEALED),
    chapters=tuple((at(10 * number), chapter) for number, chapter in enumerate(Chapter)),
    transitions=(starts(LOW), ends(LOW), starts(APART), ends(APART)),
    received=tuple(received(23, became, named) for named in (LOW, APART) for became in ("firing", "resolved")),
    runs=runs_of(5),
)


def changed(*transitions: Any) -> Callable[[DemoStatus], DemoStatus]:
    return lambda good: replace(good, transitions=transitions)


def run_too(**changes: Any) -> Callable[[DemoStatus], DemoStatus]:
    return lambda good: replace(good, runs=(*good.runs, run(9, **changes)))


DEPARTURES: dict[str, tuple[Callable[[DemoStatus], DemoStatus], tuple[str, ...]]] = {
    "the expected story": (lambda good: good, ()),
    "what is only pending": (changed(change(9, State.QUIET, State.PENDING), *GOOD.transitions), ()),
    "an alert before the fault": (
        changed(starts(LOW, 9), *GOOD.transitions[1:]),
        (
            "SimilarityLow country=DE became firing 0 times while the candidate was broken, expected 1.",
            "SimilarityLow country=DE became firing 1 times while the candidate was healthy, expected 0.",
        ),
    ),
    "an alert that fired twice and never ended": (
        changed(starts(LOW, 11), starts(LOW), *GOOD.transitions[2:]),
        (
            "SimilarityLow country=DE became firing 2 times while the candidate was broken, expected 1.",
            "SimilarityLow country=DE became resolved 0 times while the candidate was healed, expected 1.",
        ),
    ),
    "an alert elsewhere": (
        changed(*GOOD.transitions, starts(("SimilarityLow", "country=FR"))),
        ("SimilarityLow country=FR became firing 1 times while the candidate was broken, expected 0.",),
    ),
    "a message that never came": (
        lambda good: replace(good, received=good.received[1:]),
        ("On-call was never notified that SimilarityLow country=DE is firing.",),
    ),
    "a failed run": (
        run_too(status=RunStatus.FAILED, reason="the baseline is down"),
        ("1 runs failed, the last for this reason: the baseline is down.",),
    ),
    "too few users in time": (run_too(status=RunStatus.INSUFFICIENT, reason="only 100 of 300 users answered"), ()),
    "no run": (lambda good: replace(good, runs=()), ("No run ended ok.",)),
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_each_departure_from_the_expected_story_is_named(departure: str) -> None:
    depart, named = DEPARTURES[departure]
    assert {LOW, APART} == EXPECTED_ALERTS
    assert tuple(unmet_expectations(depart(GOOD))) == named


def test_it_is_over_once_healed_quiet_and_told_of_everything() -> None:
    assert is_over(GOOD)
    assert not is_over(replace(GOOD, scene=StoryDay(day=9, chapter=Chapter.BROKEN)))
    assert not is_over(replace(GOOD, received=GOOD.received[1:]))
    assert not is_over(replace(GOOD, alerts=(alert(State.FIRING),)))


def test_the_fault_comes_after_the_healthy_days_is_repaired_and_comes_back_after_the_calm_ones_if_any() -> None:
    scenes = [StoryDay()]
    while len(scenes) < 28:
        scenes.append(next_day(UNWATCHED_STORY, scenes[-1]))
    assert [scene.day for scene in scenes] == list(range(28))
    told = [(chapter, len(list(days))) for chapter, days in groupby(scenes, lambda scene: scene.chapter)]
    healthy, broken, calm = (Chapter.HEALTHY, 6), (Chapter.BROKEN, 4), (Chapter.HEALED, 11)
    assert told == [healthy, broken, calm, broken, (Chapter.HEALED, 3)]
    healed = StoryDay(day=200, chapter=Chapter.HEALED)
    assert next_day(FAST_STORY, healed).chapter is Chapter.HEALED
    late = StoryDay(day=50, chapter=Chapter.BROKEN)
    assert next_day(NORMAL_STORY, late, is_noticed=False) == replace(late, day=51)
    assert next_day(NORMAL_STORY, late).since_day == 51
