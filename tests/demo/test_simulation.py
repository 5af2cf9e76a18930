from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factories import HeldClock
from monitor.demo.environment import DemoArms, Environment
from monitor.demo.http_servers import OnCallServer, ReceivedAlert
from monitor.demo.recommenders import BROKEN_COUNTRY, retrain
from monitor.demo.simulation import SEGMENTS, NoteKind, Simulation, StoreReader
from monitor.demo.story import Chapter, Story
from monitor.demo.workspace import Workspace
from monitor.demo.world import World
from monitor.model import RunStatus, State

STORY = Story(day_s=10.0, every="1s", healthy_days=1, broken_days=1, calm_days=None, runs_first=1)


@pytest.fixture
def clock(make: Any) -> HeldClock:
    return HeldClock(at=make.at(0))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    small = World(items=60, joining=2)
    arms = DemoArms(workspace=Workspace(tmp_path), world=small)
    arms.serve(arms.train(0, is_broken=False))
    return Environment(workspace=arms.workspace, arms=arms, on_call=OnCallServer("secret"))


@pytest.fixture
def play(environment: Environment, store: Any, clock: HeldClock) -> Simulation:
    play = Simulation(
        environment=environment,
        story=STORY,
        reader=StoreReader(store),
        url="http://x",
        now=clock.now,
        monotonic=clock.monotonic,
    )
    play.begin()
    return play


def test_within_a_day_nothing_is_retrained(play: Simulation, clock: HeldClock) -> None:
    lists = play.environment.arms.baseline.lists
    clock.pass_by(9.9)
    status = play.step()
    assert status.scene.day == 0
    assert status.elapsed_s == pytest.approx(9.9)
    assert play.environment.arms.baseline.lists is lists


def test_a_new_day_brings_new_lists_on_both_arms_and_a_new_users_file(play: Simulation, clock: HeldClock) -> None:
    clock.pass_by(10.0)
    status = play.step()
    expected = retrain(play.environment.arms.world, 1, is_broken=False)
    assert status.scene.day == 1
    assert play.environment.arms.baseline.lists.items() >= expected.baseline.items()
    assert play.environment.arms.candidate.lists.items() >= expected.candidate.items()
    users = play.environment.workspace.users.read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[0] for line in users] == expected.history.users.ids


def test_who_left_today_can_still_be_asked_for_and_who_left_yesterday_cannot(play: Simulation, clock: HeldClock) -> None:
    first = dict(play.environment.arms.baseline.lists)
    for _ in range(2):
        clock.pass_by(10.0)
        play.step()
    world, served = play.environment.arms.world, play.environment.arms.baseline.lists
    assert set(served) == set(world.users(1).ids) | set(world.users(2).ids)
    assert set(first) - set(served) == set(world.left_on(1))


def test_the_fault_reaches_the_served_lists_and_is_noted_with_its_moment(
    play: Simulation, clock: HeldClock, store: Any, make: Any
) -> None:
    store.shown = (make.run(1),)
    clock.pass_by(10.0)
    status = play.step()
    assert status.scene.chapter is Chapter.BROKEN
    assert (
        play.environment.arms.candidate.lists.items()
        >= retrain(play.environment.arms.world, 1, is_broken=True).candidate.items()
    )
    assert (play.chapters[-1].chapter, play.chapters[-1].at) == (Chapter.BROKEN, make.at(10))
    assert BROKEN_COUNTRY in status.notes[-1].text


def test_runs_of_an_earlier_chapter_do_not_count_for_this_one(
    play: Simulation, clock: HeldClock, store: Any, make: Any
) -> None:
    store.shown = (make.run(1),)
    clock.pass_by(10.0)
    play.step()
    store.alert_states = (make.alert(State.FIRING), make.alert(State.FIRING, alert="ManyUsersApart", segment="all"))
    clock.pass_by(10.0)
    assert play.step().scene.chapter is Chapter.BROKEN
    store.shown = (make.run(21), make.run(1))
    clock.pass_by(10.0)
    assert play.step().scene.chapter is Chapter.HEALED


def test_starts_ends_and_messages_are_noted_in_order_and_pending_is_not(
    play: Simulation, store: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.changes = (
        make.transition(3, State.QUIET, State.PENDING),
        make.transition(5, State.PENDING, State.FIRING),
        make.transition(9, State.FIRING, State.QUIET),
    )
    told = ReceivedAlert(at=make.at(6), is_signed=True, status="firing", alert="SimilarityLow", segment="country=DE")
    forged = replace(told, at=told.at + timedelta(seconds=1), is_signed=False)
    monkeypatch.setattr(play.environment.on_call, "_received", [told, forged])
    notes = play.step().notes
    assert [note.kind for note in notes] == [
        NoteKind.STORY,
        NoteKind.FIRING,
        NoteKind.NOTIFIED,
        NoteKind.WRONG,
        NoteKind.RESOLVED,
    ]
    assert notes[1].text == "SimilarityLow country=DE: mean 0.21 is below 0.45"
    assert notes[2].text == "on-call, with a valid signature: SimilarityLow country=DE firing"


def test_the_segments_shown_are_those_of_the_users_file(play: Simulation) -> None:
    rows = [line.split(",") for line in play.environment.workspace.users.read_text(encoding="utf-8").splitlines()[1:]]
    named = {f"activity={row[1]}" for row in rows} | {f"country={row[2]}" for row in rows}
    assert named <= set(SEGMENTS)


def test_means_of_earlier_runs_are_remembered_beside_the_newest_by_the_names_in_the_configuration(
    make: Any, store: Any
) -> None:
    watcher = StoreReader(store)
    runs: tuple[Any, ...] = ()
    for seconds, metric, mean in ((0, "rbo(p=0.9)", 0.7), (2, "rbo(p=0.9)@10", 0.2), (4, "rbo(p=0.9)", None)):
        runs = (make.run(seconds), *runs)
        store.shown, store.newest = runs, (make.latest(runs[0], make.summary("all", metric, mean)),)
        seen = watcher.read()
    assert seen.trend("all") == (0.7, 0.2)
    assert seen.trend("country=DE") == ()
    store.shown = runs[:2]  # the store lists no more
    assert set(watcher.read().means) == {run.slot for run in runs[:2]}


def test_a_running_run_leaves_no_gap_in_the_trend(make: Any) -> None:
    seen = make.seen_runs(2)
    running = make.run(4, status=RunStatus.RUNNING, finished_at=None)
    assert make.seen(runs=(running, *seen.runs), means=seen.means).trend("all") == (0.67, 0.67)
