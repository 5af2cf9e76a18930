"""Many at once: each slot and each delivery goes to exactly one."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import pytest
from sqlalchemy import Pool, event

from factories import SLOT
from forking import context
from monitor.model.notifications import Delivery
from monitor.storage import SqlStore, open_store
from storage.worked import HOUR, attempt, claimed, fired, lease, result, run, user_scores

WORKERS = 6
T = TypeVar("T")


def at_once(work: Callable[[int], T]) -> list[T]:
    """Results of calling this with 0 to `WORKERS` - 1, each from a thread of its own; all start together."""
    gate = threading.Barrier(WORKERS)

    def start(number: int) -> T:
        gate.wait(60)
        return work(number)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(start, range(WORKERS)))


@pytest.fixture
def stores(store: SqlStore) -> Iterator[list[SqlStore]]:
    """Stores over one database, as different processes have them."""
    others = [open_store(store.database.url.render_as_string(hide_password=False), create=False) for _ in range(WORKERS - 1)]
    yield [store, *others]
    for other in others:
        other.close()


@pytest.mark.parametrize("when", ["used", "opened"])
def test_what_is_still_used_when_the_store_is_closed_is_closed_when_it_is_given_back(stores: list[SqlStore], when: str) -> None:
    is_open: dict[int, bool] = {}
    event.listen(Pool, "connect", opened := lambda connection, _: is_open.update({id(connection): True}))
    event.listen(Pool, "close", closed := lambda connection, _: is_open.update({id(connection): False}))
    try:
        stores[1].database.renew()
        if when == "opened":
            stores[1].close()
        with stores[1].database.read():
            if when == "used":
                stores[1].close()
            assert True in is_open.values()
    finally:
        event.remove(Pool, "connect", opened)
        event.remove(Pool, "close", closed)

    assert True not in is_open.values()


@pytest.mark.parametrize("slot_is", ["fresh", "expired", "finished"])
def test_one_of_many_threads_gets_the_slot(stores: list[SqlStore], slot_is: str) -> None:
    if slot_is != "fresh":
        claim = claimed(stores[0])
        if slot_is == "finished":
            stores[0].runs.finish(result(claim), receivers=())
    now = SLOT + HOUR
    claims = at_once(lambda number: attempt(stores[number], owner=f"p:{number}", now=now, until=now + HOUR, rerun=True))

    (winner,) = [claim for claim in claims if claim]
    (shown,) = stores[0].history.runs(comparison=None, limit=5)
    assert (shown.owner, shown.attempt) == (winner.owner, winner.attempt)
    assert winner.attempt == (1 if slot_is == "fresh" else 2)


def test_each_delivery_is_leased_by_one(stores: list[SqlStore]) -> None:
    for name in range(12):
        run(stores[0], SLOT, fired(SLOT, comparison=f"feed-{name}"), comparison=f"feed-{name}", receivers=("hook",))

    leased = at_once(lambda number: [*_all(stores[number], f"p:{number}")])

    ids = [delivery.id for batch in leased for delivery in batch]
    assert len(ids) == len(set(ids))
    assert len(ids) + len([*_all(stores[0], "last")]) == 12


def _all(store: SqlStore, owner: str) -> Iterator[Delivery]:
    while leased := lease(store, SLOT + HOUR, owner=owner):
        yield from leased


def test_runs_that_finish_at_once_start_one_firing(stores: list[SqlStore]) -> None:
    """All were judged on a quiet alert; which slot wins is open, that one wins is not."""
    slots = [SLOT + number * HOUR for number in range(WORKERS)]
    moves = [fired(slot) for slot in slots]
    results = [
        result(claimed(stores[0], slot), states=(state,), transitions=(cause,))
        for slot, (state, cause) in zip(slots, moves, strict=True)
    ]

    assert all(at_once(lambda number: stores[number].runs.finish(results[number], receivers=("hook",))))

    (stored,) = stores[0].alerts.transitions(comparison=None, limit=None)
    (state,) = stores[0].alerts.states("home-feed")
    assert state.dedup_key == stored.dedup_key
    assert stores[0].outbox.pending(stored.at) == {"hook": (1, 0.0)}


def test_of_many_that_finish_one_claim_all_agree(stores: list[SqlStore]) -> None:
    move = fired(SLOT)
    stored = result(claimed(stores[0]), states=(move[0],), transitions=(move[1],))

    assert all(at_once(lambda number: stores[number].runs.finish(stored, receivers=("hook",))))

    assert stores[0].alerts.transitions(comparison=None, limit=None) == (move[1],)
    assert stores[0].outbox.pending(SLOT) == {"hook": (1, 0.0)}
    assert len(user_scores(stores[0], "u1")) == 2


def _claim_all(url: str, owner: str) -> list[int]:
    with closing(open_store(url, create=False)) as store:
        claims = [attempt(store, SLOT + number * HOUR, owner=owner) for number in range(30)]
    return [claim.run_id for claim in claims if claim]


def test_two_processes_share_the_slots_between_them(database_url: str) -> None:
    open_store(database_url, create=True).close()
    with context().Pool(2) as pool:
        taken = pool.starmap(_claim_all, [(database_url, "a:1"), (database_url, "b:2")], chunksize=1)

    assert len(taken[0]) + len(taken[1]) == 30
    assert len({*taken[0], *taken[1]}) == 30


def test_readers_do_not_wait_for_a_writer(store: SqlStore) -> None:
    run(store, SLOT)
    claim = claimed(store, SLOT + HOUR)
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET reason = 'half written'")

        (latest,) = store.history.latest(["home-feed"])

    assert (latest.run.slot, latest.run.reason) == (SLOT, None)
    store.runs.release(claim)
