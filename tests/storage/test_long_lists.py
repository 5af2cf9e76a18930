"""More keys and numbers than one statement can hold."""

from datetime import timedelta

import pytest

from factories import SLOT
from monitor.model import DeliveryStatus
from monitor.storage import SqlStore, dialects
from storage.worked import fired, lease, note, run


def test_a_situation_is_asked_of_more_keys_than_a_statement_holds(store: SqlStore) -> None:
    firing = fired(SLOT)
    run(store, SLOT, firing, receivers=("hook",))
    store.outbox.record(*(note(each, SLOT) for each in lease(store, SLOT)))
    key = firing[0].dedup_key

    found = store.outbox.firing_snapshot("home-feed", "hook", [*(f"key {number}" for number in range(70_000)), key], now=SLOT)

    assert found.delivered == {key}


@pytest.mark.parametrize("act", ["forget", "revive"])
def test_deliveries_are_moved_in_lists_of_any_length(store: SqlStore, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    monkeypatch.setattr(dialects, "IN_LIST", 2)
    moves = [fired(SLOT, segment=f"country={number}") for number in range(5)]
    run(store, SLOT, *moves, receivers=("hook",))
    if act == "forget":
        assert store.outbox.give_up_unknown(known=("other",), now=SLOT) == 5
        return
    store.outbox.record(*(note(each, SLOT, DeliveryStatus.DEAD) for each in lease(store, SLOT)))
    assert store.outbox.retry_refused(SLOT + timedelta(hours=1), receivers=("hook",)) == 5
    assert len(lease(store, SLOT + timedelta(hours=1))) == 5
