from pathlib import Path
from typing import Any

import pytest

import published
from factories import HeldClock
from monitor.demo.servers import OnCall, Recommenders
from monitor.demo.shop import Shop
from monitor.demo.simulation import NoteKind, Simulation, StoreReader
from monitor.demo.story import Chapter, Story
from monitor.demo.workspace import Workspace
from monitor.model import RunStatus, State

STORY = Story(day_s=10.0, every="1s", healthy_days=1, broken_days=1, calm_days=None)


@pytest.fixture
def clock(make: Any) -> HeldClock:
    return HeldClock(at=make.at(0))


@pytest.fixture
def play(store: Any, clock: HeldClock) -> Simulation:
    return Simulation(
        workspace=Workspace(Path("anywhere")),
        recommenders=Recommenders(Shop(users=60, items=60)),
        on_call=OnCall("secret"),
        story=STORY,
        reader=StoreReader(store),
        url="http://x",
        now=clock.now,
        monotonic=clock.monotonic,
    )


def test_a_day_that_is_over_brings_new_lists_and_not_before(play: Simulation, clock: HeldClock) -> None:
    lists = play.recommenders.lists
    clock.pass_by(9.9)
    status = play.step()
    assert status.scene.day == 0
    assert status.elapsed_s == pytest.approx(9.9)
    assert play.recommenders.lists is lists
    clock.pass_by(0.1)
    assert play.step().scene.day == 1
    assert play.recommenders.lists == play.recommenders.shop.lists(1, is_broken=False)


def test_the_fault_waits_for_quiet_and_two_runs_the_repair_for_both_alerts_and_two_runs_since_the_fault(
    play: Simulation, clock: HeldClock, store: Any, make: Any
) -> None:
    low, apart = make.alert(State.FIRING), make.alert(State.FIRING, alert="ManyUsersApart", segment="all")
    failed = make.run(3, status=RunStatus.FAILED)
    before = (make.run(2), make.run(1))
    after = (make.run(62), make.run(61))
    days: tuple[tuple[Any, Any, Chapter], ...] = (
        ((failed, before[1]), (), Chapter.HEALTHY),
        (before, (low,), Chapter.HEALTHY),
        (before, (make.alert(State.PENDING),), Chapter.BROKEN),
        (before, (low, apart), Chapter.BROKEN),
        ((after[1], *before), (low, apart), Chapter.BROKEN),
        ((*after, *before), (low,), Chapter.BROKEN),
        ((*after, *before), (low, apart), Chapter.HEALED),
        ((*after, *before), (), Chapter.HEALED),
    )
    for store.shown, store.alert_states, chapter in days:
        clock.pass_by(10.0)
        status = play.step()
        assert status.scene.chapter is chapter
        assert play.recommenders.lists == play.recommenders.shop.lists(status.scene.day, is_broken=chapter is Chapter.BROKEN)
    assert [(each.chapter, each.at) for each in status.chapters] == [
        (Chapter.HEALTHY, make.at(0)),
        (Chapter.BROKEN, make.at(30)),
        (Chapter.HEALED, make.at(70)),
    ]


def test_chapters_runs_that_ended_starts_ends_and_messages_are_noted_in_order_and_pending_is_not(make: Any) -> None:
    means = {("all", "extended_tau"): 0.52, ("all", "overlap"): 0.7}
    running, ok = make.run(8, status=RunStatus.RUNNING, finished_at=None), make.run(3)
    failed = make.run(1, status=RunStatus.FAILED, asked=None, paired=None, reason="the baseline is down")
    transitions = (
        make.transition(3, State.QUIET, State.PENDING),
        make.transition(5, State.PENDING, State.FIRING),
        make.transition(9, State.FIRING, State.QUIET),
    )
    seen = make.seen(running, ok, failed, means={running.slot: {}, ok.slot: means, failed.slot: {}}, transitions=transitions)
    notes = make.status(seen=seen, received=(make.received(6, "firing"),)).notes
    assert [(note.kind, note.text) for note in notes] == [
        (NoteKind.STORY, "both arms are healthy"),
        (NoteKind.RUN, "failed paired 0/0 the baseline is down"),
        (NoteKind.RUN, "ok paired 399/400 extended_tau 0.520 overlap 0.700"),
        (NoteKind.FIRING, "SimilarityLow country=DE: mean 0.21 is below 0.45"),
        (NoteKind.NOTIFIED, "on-call, with a valid signature: SimilarityLow country=DE firing"),
        (NoteKind.RESOLVED, "SimilarityLow country=DE: mean 0.21 is below 0.45"),
    ]


def test_means_of_runs_are_read_once_and_remembered_by_the_names_in_the_configuration(make: Any, store: Any) -> None:
    reader = StoreReader(store)
    for seconds, metric, mean in ((0, "rbo(p=0.9)", 0.7), (2, "rbo(p=0.9)@10", 0.2), (4, "rbo(p=0.9)", None)):
        run = make.run(seconds)
        store.shown = (make.run(seconds, status=RunStatus.RUNNING, finished_at=None), *store.shown)
        assert reader.read().means[run.slot] == {}
        store.shown = (run, *store.shown[1:])
        store.measured = {run.id: (published.summary(segment="all", metric=metric, mean=mean),)}
        seen = reader.read()
    assert seen.trend("all") == (0.7, 0.2)  # without a gap
    assert seen.trend("country=DE") == ()
    store.shown = store.shown[:2]  # the store lists no more
    assert set(reader.read().means) == {run.slot for run in store.shown}
