"""Alert states and transitions: what a result may change, in which order, only once."""

from dataclasses import replace
from typing import Any

import pytest

import factories
from factories import HOUR, SLOT, state
from monitor.model.alerts import State, accepted_level
from monitor.model.memory import MemoryRequest
from monitor.storage.alert_states import admit_states, key_of
from storage.worked import HOOK, LATER, fired, lease, note, resolved, run, transitions
from tables import rows


def test_states_and_transitions_are_read_back_unchanged(store):
    odd: Any = {
        "labels": {"team": "ranking", "n": "1"},
        "runbook_url": None,
        "value": None,
        "explanation": "Moved.",
    }
    first = fired(segment="b")
    second = fired(segment="a", **odd)
    run(store, SLOT, first, second)
    run(store, SLOT, (state(comparison="search"), None), comparison="search")

    assert store.alerts.states("home-feed") == (second[0], first[0])
    assert store.alerts.states() == (second[0], first[0], state(comparison="search"))
    assert transitions(store) == (first[1], second[1])
    assert not store.alerts.states("unknown")


def test_acknowledging_again_changes_nothing_and_another_person_changes_the_author(store):
    run(store, SLOT, fired(), receivers=HOOK)
    alerts = [("SimilarityLow", "all")]
    for author, count in (("kim", 1), ("kim", 0), ("joe", 1)):
        changes = store.alerts.acknowledge("home-feed", alerts, author=author, reason="r", at=LATER)
        assert len(changes) == count
    for count in (1, 0):
        assert len(store.alerts.resolve("home-feed", alerts, reason="r", at=LATER)) == count


def test_firing_gives_the_starts_of_firing_alerts_in_the_order_of_storage(store):
    """The end of a start without receivers has no receivers."""
    old = fired()
    other = fired(segment="country=UK")
    run(store, SLOT, old, other)
    assert store.alerts.firing() == (old[1], other[1])
    run(store, LATER, resolved(LATER, old[0]), receivers=HOOK)
    assert not store.outbox.waiting(LATER)
    new = fired(SLOT + 2 * HOUR)
    elsewhere = fired(SLOT - HOUR, comparison="search")
    run(store, SLOT + 2 * HOUR, new, (replace(other[0], judged_slot=SLOT + 2 * HOUR), None))
    run(store, SLOT - HOUR, elsewhere, comparison="search")

    assert store.alerts.firing() == (other[1], new[1], elsewhere[1])
    assert store.alerts.transitions(comparison=None, limit=2) == (new[1], elsewhere[1])
    assert len(store.alerts.transitions(comparison="home-feed", limit=None)) == 4


def test_retiring_removes_the_state_and_adds_one_delivery_of_its_end(store):
    firing = fired()
    kept = fired(segment="country=UK")
    run(store, SLOT, firing, kept, receivers=HOOK)
    store.outbox.record(*(note(each, SLOT) for each in lease(store, SLOT)))
    _, end = resolved(LATER, firing[0])

    for retired in (end, resolved(SLOT + 2 * HOUR, firing[0])[1]):
        store.alerts.retire([retired], receivers=HOOK)

    assert store.alerts.states() == (kept[0],)
    assert store.alerts.firing() == (kept[1],)
    assert store.alerts.transitions(comparison=None, limit=1) == (end,)
    (delivery,) = lease(store)
    assert delivery.transition == end


def test_a_level_is_accepted_once_and_later_runs_remember_it(store):
    level = accepted_level("home-feed", SLOT, "accepted by anna", LATER)

    assert store.alerts.accept(level) == level
    again = accepted_level("home-feed", SLOT, "accepted by ben", SLOT + 2 * HOUR)
    assert store.alerts.accept(again) == level
    assert transitions(store) == (level,)
    request = MemoryRequest(comparison="home-feed", config_hash="hash", before=LATER)
    assert store.history.memory_of(request).accepted == (level,)
    assert not store.alerts.states()
    for slot, undone in ((LATER, None), (SLOT, level), (SLOT, None)):
        assert store.alerts.undo_acceptance("home-feed", slot) == undone
    assert not transitions(store)


def test_a_new_receiver_gets_the_start_of_an_alert_that_already_fires(store):
    firing = fired()
    run(store, SLOT, firing, receivers=())
    for slot in (LATER, SLOT + 2 * HOUR):
        same = replace(firing[0], judged_slot=slot)
        run(store, slot, (same, None), receivers=("hook", "pager"))

    for receiver in ("hook", "pager"):
        (delivery,) = lease(store, SLOT + 3 * HOUR, receiver=receiver)
        assert delivery.transition == firing[1]


ADMITTED = """
- quiet - | admitted
- firing quiet | admitted
- firing pending | refused
- firing - | refused
quiet quiet - | admitted
quiet pending quiet | admitted
quiet pending - | refused
pending pending - | admitted
pending firing pending | admitted
pending firing quiet | refused
pending quiet pending | admitted
firing quiet firing | admitted
firing quiet - | refused
firing firing - | admitted
firing firing pending | refused
"""
"""The stored state, the one to store, and where its transition begins."""


@pytest.mark.parametrize("moves, answer", rows(ADMITTED))
def test_a_state_is_stored_only_if_it_follows_from_the_stored_state(moves, answer):
    before, after, cause_from = (None if word == "-" else State(word) for word in moves.split())
    assert after

    def at(where, slot, key="key"):
        return state(
            state=where, dedup_key=key if where is State.FIRING else None, judged_slot=slot
        )

    stored = {key_of(at(before, SLOT)): at(before, SLOT)} if before else {}
    causes = [factories.transition(from_state=cause_from, to_state=after)] if cause_from else []

    states, changes = admit_states(stored, [at(after, LATER)], causes)

    assert (len(states), len(changes)) == ((1, len(causes)) if answer == "admitted" else (0, 0))
    if stored:
        assert admit_states(stored, [at(after, SLOT - HOUR)], causes) == ([], [])
    if before is after is State.FIRING:
        assert admit_states(stored, [at(after, LATER, "other")], []) == ([], [])
