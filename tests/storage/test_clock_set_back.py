"""What is stored when a run hangs or a clock is set: what is freed, what is spared, what is judged again."""

from datetime import timedelta

from factories import HOUR, SLOT
from monitor.model.alerts import State
from monitor.model.runs import RunStatus
from monitor.storage import SqlStore
from storage.worked import attempt, claimed, fired, resolved, result, run

SECOND = timedelta(seconds=1)


def test_what_a_run_that_was_given_up_still_stores_is_refused_and_its_slot_is_free(store: SqlStore) -> None:
    hung = claimed(store)

    assert store.runs.abandon(hung, reason="it hung", at=SLOT + SECOND)

    assert not store.runs.finish(result(hung), receivers=())
    store.runs.release(hung)
    (left,) = store.history.runs(comparison=None, limit=5)
    assert (left.status, left.reason) == (RunStatus.ABANDONED, "it hung")
    assert not store.runs.abandon(hung, reason="again", at=SLOT + SECOND)
    again = attempt(store, now=SLOT + SECOND)
    assert again is not None
    assert store.runs.finish(result(again), receivers=())


def test_a_rerun_that_is_given_up_shows_its_earlier_results_again(store: SqlStore) -> None:
    store.runs.finish(result(claimed(store)), receivers=())
    hung = claimed(store, rerun=True)

    assert store.runs.abandon(hung, reason="it hung", at=SLOT + SECOND)

    (left,) = store.history.runs(comparison=None, limit=5)
    assert (left.status, left.reason) == (RunStatus.OK, None)
    assert not store.runs.finish(result(hung), receivers=())


def test_what_is_at_work_here_is_never_taken_for_abandoned_whatever_the_clock_says(store: SqlStore) -> None:
    mine, other = claimed(store), claimed(store, comparison="search")

    assert store.runs.abandon_expired(SLOT + 9 * HOUR, sparing=[mine.run_id]) == 1

    assert {each.id: each.status for each in store.history.runs(comparison=None, limit=5)} == {
        mine.run_id: RunStatus.RUNNING,
        other.run_id: RunStatus.ABANDONED,
    }
    assert store.runs.finish(result(mine), receivers=())


def test_a_state_judged_ahead_of_time_is_moved_by_the_present_slot_once_rewound(store: SqlStore) -> None:
    ahead = SLOT + 5 * HOUR
    firing = fired(ahead)
    run(store, ahead, firing)
    end = resolved(SLOT, firing[0])

    run(store, SLOT, end)
    assert [state.state for state in store.alerts.states("home-feed")] == [State.FIRING]
    store.alerts.rewind("home-feed", slot=SLOT, now=SLOT + SECOND)
    (rewound,) = store.alerts.states("home-feed")
    assert (rewound.state, rewound.dedup_key) == (State.FIRING, firing[0].dedup_key)
    assert rewound.judged_slot < SLOT
    assert rewound.since <= SLOT
    store.runs.finish(result(claimed(store, rerun=True), states=(end[0],), transitions=(end[1],)), receivers=())

    assert [state.state for state in store.alerts.states("home-feed")] == [State.QUIET]


def test_rewinding_leaves_what_was_judged_in_time_alone(store: SqlStore) -> None:
    run(store, SLOT, fired(SLOT))
    before = store.alerts.states("home-feed")

    store.alerts.rewind("home-feed", slot=SLOT, now=SLOT + SECOND)

    assert store.alerts.states("home-feed") == before


def test_a_run_of_a_slot_in_the_future_does_not_hide_the_present_one(store: SqlStore) -> None:
    for slot in (SLOT, SLOT + 5 * HOUR):
        run(store, slot)

    assert [each.run.slot for each in store.history.latest(["home-feed"])] == [SLOT + 5 * HOUR]
    assert [each.run.slot for each in store.history.latest(["home-feed"], until=SLOT + SECOND)] == [SLOT]


def test_connections_that_somebody_hangs_on_are_his_alone_after_a_renewal(store: SqlStore) -> None:
    with store.database.read():
        store.database.renew()
        store.maintenance.ping()
        store.maintenance.probe_write()
    store.maintenance.ping()
