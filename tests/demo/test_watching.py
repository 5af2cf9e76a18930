from typing import Any

from monitor.demo.simulation import StoreReader
from monitor.model import RunStatus, State


def test_means_of_earlier_runs_are_remembered_beside_the_newest(make: Any, store: Any) -> None:
    watcher = StoreReader(store)
    first, second = make.run(0), make.run(2)
    store.shown, store.newest = (first,), (make.latest(first, make.summary("all", "rbo(p=0.9)", 0.7)),)
    watcher.look()
    store.shown, store.newest = (second, first), (make.latest(second, make.summary("all", "rbo(p=0.9)", 0.2)),)
    seen = watcher.look()
    assert seen.trend("all") == (0.7, 0.2)
    assert seen.trend("country=DE") == ()


def test_a_metric_with_its_depth_is_found_by_the_name_in_the_configuration(make: Any, store: Any) -> None:
    run = make.run(0)
    store.shown, store.newest = (run,), (make.latest(run, make.summary("all", "rbo(p=0.9)@10", 0.7)),)
    assert StoreReader(store).look().means == {run.slot: {("all", "rbo(p=0.9)"): 0.7}}


def test_a_mean_that_does_not_exist_is_left_out(make: Any, store: Any) -> None:
    run = make.run(0)
    store.shown, store.newest = (run,), (make.latest(run, make.summary("all", "rbo(p=0.9)", None)),)
    assert StoreReader(store).look().trend("all") == ()


def test_what_the_store_no_longer_lists_is_forgotten(make: Any, store: Any) -> None:
    watcher = StoreReader(store)
    old, new = make.run(0), make.run(2)
    store.shown, store.newest = (old,), (make.latest(old, make.summary("all", "rbo(p=0.9)", 0.7)),)
    watcher.look()
    store.shown, store.newest = (new,), (make.latest(new),)
    assert set(watcher.look().means) == {new.slot}


def test_only_firing_alerts_count_as_firing(make: Any) -> None:
    alerts = tuple(make.alert(state) for state in (State.QUIET, State.PENDING, State.FIRING))
    assert make.seen(alerts=alerts).firing == 1


def test_a_running_run_leaves_no_gap_in_the_trend(make: Any) -> None:
    seen = make.seen_runs(2)
    running = make.run(4, status=RunStatus.RUNNING, finished_at=None)
    assert make.seen(runs=(running, *seen.runs), means=seen.means).trend("all") == (0.67, 0.67)
