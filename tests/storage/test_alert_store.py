"""Alert states and transitions, over restarts and second writers too: what a result may change, in which order, only once."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from hypothesis.stateful import rule as step

import factories
from alerts.test_conditions import condition
from factories import DAY, HOUR, SLOT, comparison, evaluate, rule, state, summary
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import AlertState, Outcome, State, Transition, accepted_level
from monitor.model.memory import MemoryRequest
from monitor.model.rules import Condition
from monitor.model.runs import RunStatus, Summary
from monitor.storage import SqlStore, open_store
from monitor.storage.alert_states import admit, key_of
from storage.worked import LATER, claimed, fired, lease, note, resolved, result, run, transitions
from tables import rows


def test_states_and_transitions_are_read_back_as_they_were(store):
    odd: dict[str, Any] = {
        "labels": {"team": "ranking", "n": "1"},
        "runbook_url": None,
        "value": None,
        "explanation": "Moved.",
    }
    first, second = fired(segment="b"), fired(segment="a", **odd)
    run(store, SLOT, first, second)
    run(store, SLOT, (state(comparison="search"), None), comparison="search")

    assert store.alerts.states("home-feed") == (second[0], first[0])
    assert store.alerts.states() == (second[0], first[0], state(comparison="search"))
    assert transitions(store) == (first[1], second[1])
    assert store.alerts.states("unknown") == ()


def test_who_acknowledges_again_changes_nothing_and_somebody_else_does(store):
    run(store, SLOT, fired(SLOT), receivers=("hook",))
    alerts = [("SimilarityLow", "all")]
    for author, told in (("kim", ["kim"]), ("kim", []), ("joe", ["joe"])):
        changes = store.alerts.acknowledge(
            "home-feed", alerts, author=author, reason=author, at=LATER
        )
        assert [each.reason for each in changes] == told
    assert [
        len(store.alerts.resolve("home-feed", alerts, reason="done", at=LATER)) for _ in range(2)
    ] == [1, 0]


def test_firing_is_the_start_of_each_firing_that_lasts_and_transitions_come_in_the_order_they_were_stored(
    store,
):
    """A receiver hears of no end whose start no receiver was to hear of."""
    old, other = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, old, other)
    assert store.alerts.firing() == (old[1], other[1])
    run(store, LATER, resolved(LATER, old[0]), receivers=("hook",))
    assert store.outbox.waiting(LATER) == {}
    new, elsewhere = fired(SLOT + 2 * HOUR), fired(SLOT - HOUR, comparison="search")
    run(store, SLOT + 2 * HOUR, new, (replace(other[0], judged_slot=SLOT + 2 * HOUR), None))
    run(store, SLOT - HOUR, elsewhere, comparison="search")

    assert store.alerts.firing() == (other[1], new[1], elsewhere[1])
    assert store.alerts.transitions(comparison=None, limit=2) == (new[1], elsewhere[1])
    assert len(store.alerts.transitions(comparison="home-feed", limit=None)) == 4


def test_retiring_removes_the_state_and_owes_its_end_once(store):
    firing, kept = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, kept, receivers=("hook",))
    store.outbox.record(*(note(each, SLOT) for each in lease(store, SLOT)))
    _, end = resolved(LATER, firing[0])

    for retired in (end, resolved(SLOT + 2 * HOUR, firing[0])[1]):
        store.alerts.retire([retired], receivers=("hook",))

    assert store.alerts.states() == (kept[0],)
    assert store.alerts.firing() == (kept[1],)
    assert store.alerts.transitions(comparison=None, limit=1) == (end,)
    assert [delivery.transition for delivery in lease(store, LATER)] == [end]


def test_a_level_is_accepted_once_and_every_later_run_remembers_it(store):
    level = accepted_level("home-feed", SLOT, "accepted by anna", LATER)

    assert store.alerts.accept(level) == level
    assert (
        store.alerts.accept(accepted_level("home-feed", SLOT, "accepted by ben", SLOT + 2 * HOUR))
        == level
    )
    assert transitions(store) == (level,)
    memory = store.history.memory_of(
        MemoryRequest(comparison="home-feed", config_hash="hash", before=LATER)
    )
    assert memory.accepted == (level,)
    assert store.alerts.states() == ()
    assert [store.alerts.undo_acceptance("home-feed", slot) for slot in (LATER, SLOT, SLOT)] == [
        None,
        level,
        None,
    ]
    assert transitions(store) == ()


def test_a_receiver_that_came_later_is_owed_the_start_of_a_firing_that_lasts(store):
    firing = fired(SLOT)
    run(store, SLOT, firing, receivers=())
    run(store, LATER, (replace(firing[0], judged_slot=LATER), None), receivers=("hook", "pager"))
    run(
        store,
        SLOT + 2 * HOUR,
        (replace(firing[0], judged_slot=SLOT + 2 * HOUR), None),
        receivers=("hook", "pager"),
    )

    for receiver in ("hook", "pager"):
        assert [
            delivery.transition for delivery in lease(store, SLOT + 3 * HOUR, receiver=receiver)
        ] == [firing[1]]


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


@pytest.mark.parametrize(("moves", "answer"), rows(ADMITTED))
def test_a_state_is_admitted_when_it_follows_from_the_stored_one_in_a_newer_slot_under_the_same_key(
    moves, answer
):
    before, after, cause_from = (None if word == "-" else State(word) for word in moves.split())
    assert after

    def at(where: State, slot: datetime, key: str = "key") -> AlertState:
        return state(
            state=where, dedup_key=key if where is State.FIRING else None, judged_slot=slot
        )

    stored = {key_of(at(before, SLOT)): at(before, SLOT)} if before else {}
    causes = [factories.transition(from_state=cause_from, to_state=after)] if cause_from else []

    states, changes = admit(stored, [at(after, LATER)], causes)

    assert (len(states), len(changes)) == ((1, len(causes)) if answer == "admitted" else (0, 0))
    if stored:
        assert [admit(stored, [at(after, slot)], causes) for slot in (SLOT, SLOT - HOUR)] == [
            ([], [])
        ] * 2
    if before is after is State.FIRING:
        assert admit(stored, [at(after, LATER, "other")], []) == ([], [])


LOW, HIGH = 0.1, 0.9
FOUND: dict[str, tuple[RunStatus, tuple[Summary, ...]]] = {
    "breach": (RunStatus.OK, (summary(mean=LOW), summary(segment="country=UK", mean=LOW))),
    "recovered": (RunStatus.OK, (summary(mean=HIGH), summary(segment="country=UK", mean=HIGH))),
    "in the band": (RunStatus.OK, (summary(mean=0.38), summary(segment="country=UK", mean=LOW))),
    "too few": (RunStatus.OK, (summary(n=3),)),
    "no data": (RunStatus.OK, ()),
    "insufficient": (RunStatus.INSUFFICIENT, ()),
    "failed": (RunStatus.FAILED, ()),
}
ANYTHING = st.sampled_from(list(FOUND))


class OverAFile(RuleBasedStateMachine):
    """Over a database of its own, which may be closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.folder = Path(self.opened.enter_context(TemporaryDirectory()))
        (self.folder / "rankwatch.db").write_bytes(_empty_database())
        self.store = self._open()

    def _open(self) -> SqlStore:
        return open_store(f"sqlite:///{self.folder / 'rankwatch.db'}", create=False)

    def teardown(self) -> None:
        self.store.close()
        self.opened.close()


class Stored(OverAFile):
    """One comparison, its slots run by whoever comes, each time judged on what is stored by then."""

    slot = SLOT

    @initialize(
        for_runs=st.integers(1, 3),
        resolve_after=st.integers(1, 3),
        ignored=st.frozensets(st.sampled_from(list(Condition))),
    )
    def configure(self, for_runs: int, resolve_after: int, ignored: frozenset[Condition]) -> None:
        low = rule(
            resolve_at=0.4,
            min_users=30,
            segments="each",
            for_runs=for_runs,
            resolve_after=resolve_after,
        )
        told = [
            condition(each, for_runs=1 if each is Condition.STALE else for_runs)
            for each in Condition
            if each not in ignored
        ]
        self.comparison = comparison(rules=(low, *told), ignored=ignored)

    def _judge(self, slot: datetime, found: str) -> dict[str, object]:
        status, summaries = FOUND[found]
        judged: dict[str, Any] = {"status": status, "summaries": summaries}
        reason = None if status is RunStatus.OK else "down"
        before = self.store.alerts.states("home-feed")
        states, changes = evaluate(
            self.comparison, slot=slot, run_reason=reason, states=before, **judged
        )
        return {**judged, "states": states, "transitions": changes}

    def _finish(self, slot: datetime, judged: dict[str, object]) -> None:
        claim = claimed(self.store, slot, rerun=True)
        plain = {"coverage": None, "scores": None, "evidence": ()}
        assert self.store.runs.finish(result(claim, **plain, **judged), receivers=("hook",))

    @step(found=ANYTHING)
    def run_the_next_slot(self, found: str) -> None:
        self.slot += HOUR
        self._finish(self.slot, self._judge(self.slot, found))

    @step(found=ANYTHING, back=st.integers(0, 4))
    def run_an_old_slot_again(self, found: str, back: int) -> None:
        slot = self.slot - back * HOUR
        judged = {
            key_of(held)
            for held in self.store.alerts.states("home-feed")
            if held.judged_slot >= slot
        }
        before = self._changes_of(judged)
        self._finish(slot, self._judge(slot, found))
        assert self._changes_of(judged) == before

    def _changes_of(self, alerts: set[Any]) -> list[Transition]:
        return [change for change in transitions(self.store) if key_of(change) in alerts]

    @step(first=ANYTHING, second=ANYTHING, is_late=st.booleans())
    def run_two_slots_at_once(self, first: str, second: str, is_late: bool) -> None:
        next_slot, self.slot = self.slot + HOUR, self.slot + 2 * HOUR
        writers = [
            (next_slot, self._judge(next_slot, first)),
            (self.slot, self._judge(self.slot, second)),
        ]
        for slot, judged in reversed(writers) if is_late else writers:
            self._finish(slot, judged)

    @step()
    def find_it_stale(self) -> None:
        latest = self.store.history.latest(("home-feed",))
        last_ok = latest[0].last_ok_slot if latest else None
        now = self.slot + 9 * HOUR
        wait = Staleness(
            since=last_ok or SLOT,
            has_succeeded=last_ok is not None,
            overdue_at=now,
            seen_s=1.0,
            needed_s=1.0,
        )
        for _ in range(2):
            states, changes = judge_stale(
                self.comparison, self.store.alerts.states("home-feed"), wait, now
            )
            self.store.alerts.store_states(states, changes, receivers=("hook",))
        assert judge_stale(self.comparison, self.store.alerts.states("home-feed"), wait, now) == (
            (),
            (),
        )

    @step()
    def restart(self) -> None:
        before = self.store.alerts.states("home-feed"), transitions(self.store)
        self.store.close()
        self.store = self._open()
        assert (self.store.alerts.states("home-feed"), transitions(self.store)) == before

    @invariant()
    def firings_and_ends_take_turns_under_one_key_and_states_are_where_they_left_them(self) -> None:
        by_alert = defaultdict(list)
        for change in transitions(self.store):
            by_alert[change.alert, change.segment].append(change)
            if "not seen to recover" in change.reason:
                assert change.to_state is State.QUIET
        for changes in by_alert.values():
            announced = [change for change in changes if change.is_announced]
            assert [change.is_start for change in announced] == [
                place % 2 == 0 for place in range(len(announced))
            ]
            starts, ends = (
                [change.dedup_key for change in announced[first::2]] for first in (0, 1)
            )
            assert starts[: len(ends)] == ends
            assert len({*starts}) == len(starts)
        for held in self.store.alerts.states("home-feed"):
            *_, last = by_alert.get((held.alert, held.segment), [None])
            assert held.state is (last.to_state if last else State.QUIET)
            assert held.dedup_key == (
                last.dedup_key if last and held.state is State.FIRING else None
            )
            if "not seen to recover" in held.reason:
                assert held.outcome not in (Outcome.OK, Outcome.BREACH)

    @invariant()
    def every_start_and_end_is_owed_once(self) -> None:
        waiting = self.store.outbox.waiting(self.slot + DAY)
        announced = [change for change in transitions(self.store) if change.is_announced]
        assert waiting.get("hook", (0, 0.0))[0] == len(announced)


@cache
def _empty_database() -> bytes:
    """A file with our tables."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rankwatch.db"
        open_store(f"sqlite:///{path}", create=True).close()
        return path.read_bytes()


TestStored = Stored.TestCase
TestStored.settings = settings(
    max_examples=6,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
