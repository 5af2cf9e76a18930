"""Claims of slots and deliveries: exactly one process gets each, also if a run hangs or a clock is set."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from factories import HOUR, SECOND, SLOT
from monitor.model.alerts import State
from monitor.model.runs import RunStatus
from monitor.storage import open_store
from storage.worked import (
    HOOK,
    LATER,
    attempt,
    claimed,
    finish,
    fired,
    lease,
    newest,
    resolved,
    run,
    runs_of,
    transitions,
)


@pytest.mark.parametrize("status", [RunStatus.OK, RunStatus.FAILED])
def test_a_finished_slot_is_claimed_only_for_a_rerun_and_shows_its_results_meanwhile(store, status):
    finish(store, claimed(store), status=status, reason="why")
    before = newest(store)

    assert attempt(store, now=LATER) is None
    again = claimed(store, owner="b:2", now=LATER, config_hash="other", rerun=True)

    assert again.attempt == 2
    shown = newest(store)
    assert shown.status == status
    assert shown.reason == "why"
    assert shown.started_at == SLOT
    assert shown.config_hash == "hash"
    assert shown.summaries == before.summaries
    assert attempt(store, owner="c:3", now=LATER, rerun=True) is None
    assert attempt(store, owner="c:3", now=LATER + HOUR, rerun=True) is not None


def test_a_released_rerun_shows_the_earlier_results_and_can_be_claimed(store):
    finish(store, claimed(store))
    before = newest(store)

    again = claimed(store, rerun=True, now=LATER)
    store.runs.release(again)

    after = newest(store)
    assert after.status == "ok"
    assert after.reason is None
    assert after.finished_at == before.finished_at
    assert after.summaries == before.summaries
    assert claimed(store, rerun=True, now=LATER).attempt == 3


def test_a_released_second_attempt_is_abandoned_and_a_lost_claim_cannot_be_released(store):
    first = claimed(store)
    second = claimed(store, owner="b:2", now=LATER)
    store.runs.release(first)
    assert runs_of(store)[0].owner == "b:2"
    assert attempt(store, owner="c:3", now=LATER) is None

    store.runs.release(second)
    assert runs_of(store)[0].status is RunStatus.ABANDONED
    assert claimed(store, now=LATER).attempt == 3


def test_expired_runs_are_abandoned_once_with_a_reason_but_not_finished_runs(store):
    finish(store, claimed(store, SLOT - HOUR))
    claimed(store, SLOT - HOUR, rerun=True)
    claimed(store)
    claimed(store, LATER)

    moments = (LATER - timedelta(microseconds=1), LATER, LATER)
    assert [store.runs.abandon_expired(now) for now in moments] == [0, 1, 0]

    running, abandoned, finished = runs_of(store)
    assert running.status == RunStatus.RUNNING
    assert abandoned.status == RunStatus.ABANDONED
    assert finished.status == RunStatus.OK
    assert abandoned.finished_at == LATER
    assert abandoned.reason == "its claim expired: the process that ran it was stopped or hung"
    assert claimed(store, now=LATER).attempt == 2
    assert attempt(store, SLOT - HOUR, rerun=True) is not None


def test_the_claim_of_a_slot_is_known_until_it_is_released(store):
    claim = claimed(store)

    assert [store.runs.held_claim("home-feed", slot) for slot in (SLOT, LATER)] == [claim, None]
    store.runs.release(claim)
    assert store.runs.held_claim("home-feed", SLOT) is None
    assert not runs_of(store)


WORKERS = 6


def at_once(stores, work):
    """Call ``work`` with each store and its number in a thread of its own. All start together."""
    gate = threading.Barrier(WORKERS)

    def start(*arguments):
        gate.wait(60)
        return work(*arguments)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(start, stores, range(WORKERS)))


@pytest.fixture
def stores(store):
    """Stores over one database, as if in different processes."""
    others = [
        open_store(store.database.url.render_as_string(hide_password=False), create=False)
        for _ in range(WORKERS - 1)
    ]
    yield [store, *others]
    for other in others:
        other.close()


@pytest.mark.parametrize("slot_is", ["fresh", "expired", "finished"])
def test_one_of_many_threads_gets_the_slot(stores, slot_is):
    if slot_is != "fresh":
        claim = claimed(stores[0])
        if slot_is == "finished":
            finish(stores[0], claim)

    def claim_slot(store, number):
        return attempt(store, owner=f"p:{number}", now=LATER, rerun=True)

    (winner,) = filter(None, at_once(stores, claim_slot))
    (shown,) = runs_of(stores[0])
    assert shown.owner == winner.owner
    assert shown.attempt == winner.attempt
    assert winner.attempt == (1 if slot_is == "fresh" else 2)


def test_each_delivery_is_claimed_by_one(stores):
    for number in range(12):
        name = f"feed-{number}"
        run(stores[0], SLOT, fired(comparison=name), comparison=name, receivers=HOOK)
    ids = list[int]()

    def lease_all(store, number):
        while leased := lease(store, owner=f"p:{number}"):
            ids.extend(delivery.id for delivery in leased)

    at_once(stores, lease_all)
    lease_all(stores[0], 0)
    assert len(ids) == len({*ids}) == 12


def test_runs_that_finish_at_once_start_one_firing(stores):
    """The alert was quiet for all of them. Any slot may win, but only one."""
    store = stores[0]
    slots = [SLOT + number * HOUR for number in range(WORKERS)]
    results = [(claimed(store, slot), fired(slot)) for slot in slots]

    def finish_run(store, number):
        return finish(store, *results[number], receivers=HOOK)

    assert all(at_once(stores, finish_run))
    (stored,) = transitions(store)
    (state,) = store.alerts.states("home-feed")
    assert state.dedup_key == stored.dedup_key
    assert store.outbox.waiting(stored.at) == {"hook": (1, 0.0)}


def test_readers_do_not_wait_for_a_writer(store):
    run(store, SLOT)
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET reason = 'half written'")

        assert newest(store).reason is None


def test_runs_of_this_process_are_never_abandoned(store):
    mine = claimed(store)
    claimed(store, comparison="search")

    assert store.runs.abandon_expired(SLOT + 9 * HOUR, sparing=[mine.run_id]) == 1

    assert [(each.comparison, each.status.value) for each in runs_of(store)] == [
        ("home-feed", "running"),
        ("search", "abandoned"),
    ]
    assert finish(store, mine)


def test_only_a_rewound_state_is_changed_by_an_earlier_slot(store):
    ahead = SLOT + 5 * HOUR
    firing = fired(ahead)
    run(store, ahead, firing)
    end = resolved(SLOT, firing[0])
    store.alerts.rewind("home-feed", slot=ahead, now=ahead + SECOND)
    assert store.alerts.states("home-feed") == (firing[0],)

    run(store, SLOT, end)
    assert [state.state for state in store.alerts.states("home-feed")] == [State.FIRING]
    store.alerts.rewind("home-feed", slot=SLOT, now=SLOT + SECOND)
    (rewound,) = store.alerts.states("home-feed")
    assert rewound.state == State.FIRING
    assert rewound.dedup_key == firing[0].dedup_key
    assert rewound.judged_slot < SLOT >= rewound.since
    run(store, SLOT, end)
    assert [state.state for state in store.alerts.states("home-feed")] == [State.QUIET]

    # A run of a slot in the future does not hide the present one.
    for until, slot in ((None, ahead), (SLOT + SECOND, SLOT)):
        assert store.history.latest(["home-feed"], until=until)[0].slot == slot


def test_after_a_renewal_new_connections_do_not_wait_for_old_ones(store):
    with store.database.read():
        store.database.renew_connections()
        store.maintenance.ping()
        store.maintenance.probe_write()
    store.maintenance.ping()
