"""Alert states and transitions, over restarts and second writers too: what a result may change, in which order, only once."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
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
from factories import HOUR, SLOT, comparison, evaluate, rule, state, summary
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import AlertState, Outcome, State, Transition, accepted_level
from monitor.model.memory import MemoryRequest
from monitor.model.rules import Condition
from monitor.model.runs import RunStatus, Summary
from monitor.storage import SqlStore, open_store
from monitor.storage.alert_states import admit, key_of
from storage.worked import attempt, fired, lease, note, resolved, result, run


def test_states_and_transitions_are_read_back_as_they_were(store: SqlStore) -> None:
    odd: dict[str, Any] = {
        "labels": {"team": "ranking", "n": "1"},
        "runbook_url": None,
        "value": None,
        "explanation": "All: items moved.",
    }
    first, second = fired(segment="b"), fired(segment="a", **odd)
    run(store, SLOT, first, second)
    run(store, SLOT, (state(comparison="search"), None), comparison="search")

    assert store.alerts.states("home-feed") == (second[0], first[0])
    assert store.alerts.states() == (second[0], first[0], state(comparison="search"))
    assert store.alerts.transitions(comparison="home-feed", limit=None) == (first[1], second[1])
    assert store.alerts.states("unknown") == ()


def test_who_acknowledges_again_changes_nothing_and_somebody_else_does(store: SqlStore) -> None:
    run(store, SLOT, fired(SLOT), receivers=("hook",))
    alerts = [(fired(SLOT)[0].alert, fired(SLOT)[0].segment)]
    told = [
        [each.reason for each in store.alerts.acknowledge("home-feed", alerts, author=author, reason=author, at=SLOT + HOUR)]
        for author in ("kim", "kim", "joe")
    ]
    assert told == [["kim"], [], ["joe"]]
    assert [len(store.alerts.resolve("home-feed", alerts, reason="done", at=SLOT + HOUR)) for _ in range(2)] == [1, 0]


def test_transitions_are_the_newest_ones_in_the_order_they_were_stored(store: SqlStore) -> None:
    firing = fired(SLOT)
    run(store, SLOT, firing)
    run(store, SLOT + HOUR, resolved(SLOT + HOUR, firing[0]))
    run(store, SLOT - HOUR, fired(SLOT - HOUR, comparison="search"), comparison="search")

    told = [(change.comparison, change.to_state.value) for change in store.alerts.transitions(comparison=None, limit=2)]
    assert told == [("home-feed", "quiet"), ("search", "firing")]
    assert len(store.alerts.transitions(comparison="home-feed", limit=None)) == 2


def test_firing_is_the_start_of_each_firing_that_lasts(store: SqlStore) -> None:
    old, other = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, old, other)
    run(store, SLOT + HOUR, resolved(SLOT + HOUR, old[0]))
    new = fired(SLOT + 2 * HOUR)
    run(store, SLOT + 2 * HOUR, new, (replace(other[0], judged_slot=SLOT + 2 * HOUR), None))

    assert store.alerts.firing() == (other[1], new[1])


def test_what_no_receiver_was_to_hear_of_fires_and_ends_unannounced(store: SqlStore) -> None:
    silent = fired(SLOT)
    run(store, SLOT, silent, receivers=())
    assert store.alerts.firing() == (silent[1],)

    run(store, SLOT + HOUR, resolved(SLOT + HOUR, silent[0]), receivers=("hook",))

    assert store.outbox.waiting(SLOT + HOUR) == {}


def test_retiring_removes_the_state_and_owes_its_end_once(store: SqlStore) -> None:
    firing, kept = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, kept, receivers=("hook",))
    store.outbox.record(*(note(each, SLOT) for each in lease(store, SLOT)))
    _, end = resolved(SLOT + HOUR, firing[0])

    for retired in (end, resolved(SLOT + 2 * HOUR, firing[0])[1]):
        store.alerts.retire([retired], receivers=("hook",))

    assert store.alerts.states() == (kept[0],)
    assert store.alerts.firing() == (kept[1],)
    assert store.alerts.transitions(comparison=None, limit=1) == (end,)
    assert [delivery.transition for delivery in lease(store, SLOT + HOUR)] == [end]


def test_a_level_is_accepted_once_and_every_later_run_remembers_it(store: SqlStore) -> None:
    level = accepted_level("home-feed", SLOT, "accepted by anna", SLOT + HOUR)

    assert store.alerts.accept(level) == level
    assert store.alerts.accept(accepted_level("home-feed", SLOT, "accepted by ben", SLOT + 2 * HOUR)) == level
    assert store.alerts.transitions(comparison=None, limit=None) == (level,)
    memory = store.history.memory_of(MemoryRequest(comparison="home-feed", config_hash="hash", before=SLOT + HOUR))
    assert memory.accepted == (level,)
    assert store.alerts.states() == ()
    assert [store.alerts.undo_acceptance("home-feed", slot) for slot in (SLOT + HOUR, SLOT, SLOT)] == [None, level, None]
    assert store.alerts.transitions(comparison=None, limit=None) == ()


def test_a_receiver_that_came_later_is_owed_the_start_of_a_firing_that_lasts(store: SqlStore) -> None:
    firing = fired(SLOT)
    run(store, SLOT, firing, receivers=())
    run(store, SLOT + HOUR, (replace(firing[0], judged_slot=SLOT + HOUR), None), receivers=("hook", "pager"))
    run(store, SLOT + 2 * HOUR, (replace(firing[0], judged_slot=SLOT + 2 * HOUR), None), receivers=("hook", "pager"))

    for receiver in ("hook", "pager"):
        assert [delivery.transition for delivery in lease(store, SLOT + 3 * HOUR, receiver=receiver)] == [firing[1]]


@pytest.mark.parametrize(
    ("before", "after", "cause_from", "is_admitted"),
    [
        (None, State.QUIET, None, True),
        (None, State.FIRING, State.QUIET, True),
        (None, State.FIRING, State.PENDING, False),
        (None, State.FIRING, None, False),  # retired meanwhile
        (State.QUIET, State.QUIET, None, True),
        (State.QUIET, State.PENDING, State.QUIET, True),
        (State.QUIET, State.PENDING, None, False),
        (State.PENDING, State.PENDING, None, True),
        (State.PENDING, State.FIRING, State.PENDING, True),
        (State.PENDING, State.FIRING, State.QUIET, False),
        (State.PENDING, State.QUIET, State.PENDING, True),
        (State.FIRING, State.QUIET, State.FIRING, True),
        (State.FIRING, State.QUIET, None, False),  # judged before the firing was stored
        (State.FIRING, State.FIRING, None, True),
        (State.FIRING, State.FIRING, State.PENDING, False),
    ],
)
def test_a_state_is_admitted_when_it_follows_from_the_stored_one_in_a_newer_slot_under_the_same_key(
    before: State | None, after: State, cause_from: State | None, *, is_admitted: bool
) -> None:
    def at(where: State, slot_hours: int, key: str = "key") -> AlertState:
        return state(state=where, dedup_key=key if where is State.FIRING else None, judged_slot=SLOT + slot_hours * HOUR)

    stored = {} if before is None else {key_of(at(before, 0)): at(before, 0)}
    causes = [factories.transition(from_state=cause_from, to_state=after)] if cause_from else []

    states, changes = admit(stored, [at(after, 1)], causes)

    assert (len(states), len(changes)) == ((1, len(causes)) if is_admitted else (0, 0))
    if stored:
        assert [admit(stored, [at(after, hours)], causes) for hours in (0, -1)] == [([], [])] * 2
    if before is after is State.FIRING:
        assert admit(stored, [at(after, 1, "other")], []) == ([], [])


Found = tuple[RunStatus, tuple[Summary, ...]]
FOUND: dict[str, Found] = {
    "breach": (RunStatus.OK, (summary(mean=0.1), summary(segment="country=UK", mean=0.1))),
    "recovered": (RunStatus.OK, (summary(mean=0.9), summary(segment="country=UK", mean=0.9))),
    "in the band": (RunStatus.OK, (summary(mean=0.38), summary(segment="country=UK", mean=0.1))),
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
        for_runs=st.integers(1, 3), resolve_after=st.integers(1, 3), ignored=st.frozensets(st.sampled_from(list(Condition)))
    )
    def configure(self, for_runs: int, resolve_after: int, ignored: frozenset[Condition]) -> None:
        low = rule(resolve_at=0.4, min_users=30, segments="each", for_runs=for_runs, resolve_after=resolve_after)
        told = [
            condition(each, for_runs=1 if each is Condition.STALE else for_runs) for each in Condition if each not in ignored
        ]
        self.comparison = comparison(rules=(low, *told), ignored=ignored)

    def _judge(self, slot: datetime, found: str) -> dict[str, object]:
        status, summaries = FOUND[found]
        states, transitions = evaluate(
            self.comparison,
            slot=slot,
            status=status,
            run_reason=None if status is RunStatus.OK else "down",
            summaries=summaries,
            states=self.store.alerts.states("home-feed"),
        )
        return {"status": status, "summaries": summaries, "states": states, "transitions": transitions}

    def _finish(self, slot: datetime, judged: dict[str, object]) -> None:
        claim = attempt(self.store, slot, rerun=True)
        assert claim is not None
        plain = {"coverage": None, "scores": None, "evidence": ()}
        assert self.store.runs.finish(result(claim, **plain, **judged), receivers=("hook",))

    @step(found=ANYTHING)
    def run_the_next_slot(self, found: str) -> None:
        self.slot += HOUR
        self._finish(self.slot, self._judge(self.slot, found))

    @step(found=ANYTHING, back=st.integers(0, 4))
    def run_an_old_slot_again(self, found: str, back: int) -> None:
        slot = self.slot - back * HOUR
        judged = {(held.alert, held.segment) for held in self.store.alerts.states("home-feed") if held.judged_slot >= slot}
        before = [change for change in self._told() if (change.alert, change.segment) in judged]
        self._finish(slot, self._judge(slot, found))
        assert [change for change in self._told() if (change.alert, change.segment) in judged] == before

    @step(first=ANYTHING, second=ANYTHING, is_late=st.booleans())
    def run_two_slots_at_once(self, first: str, second: str, is_late: bool) -> None:
        slots = (self.slot + HOUR, self.slot + 2 * HOUR)
        self.slot = slots[1]
        writers = [(slot, self._judge(slot, found)) for slot, found in zip(slots, (first, second), strict=True)]
        for slot, judged in reversed(writers) if is_late else writers:
            self._finish(slot, judged)

    @step()
    def find_it_stale(self) -> None:
        latest = self.store.history.latest(("home-feed",))
        last_ok = latest[0].last_ok_slot if latest else None
        now = self.slot + 9 * HOUR
        wait = Staleness(since=last_ok or SLOT, has_succeeded=last_ok is not None, overdue_at=now, seen_s=1.0, needed_s=1.0)
        for _ in range(2):
            states, transitions = judge_stale(self.comparison, self.store.alerts.states("home-feed"), wait, now)
            self.store.alerts.store_states(states, transitions, receivers=("hook",))
        assert judge_stale(self.comparison, self.store.alerts.states("home-feed"), wait, now) == ((), ())

    @step()
    def restart(self) -> None:
        before = self.store.alerts.states("home-feed"), self._told()
        self.store.close()
        self.store = self._open()
        assert (self.store.alerts.states("home-feed"), self._told()) == before

    def _told(self) -> tuple[Transition, ...]:
        return self.store.alerts.transitions(comparison=None, limit=None)

    @invariant()
    def firings_and_ends_take_turns_under_one_key(self) -> None:
        by_alert = defaultdict(list)
        for change in self._told():
            if change.is_announced:
                by_alert[change.alert, change.segment].append(change)
        for changes in by_alert.values():
            assert [change.is_start for change in changes] == [place % 2 == 0 for place in range(len(changes))]
            starts, ends = changes[::2], changes[1::2]
            assert [start.dedup_key for start in starts[: len(ends)]] == [end.dedup_key for end in ends]
            assert len({start.dedup_key for start in starts}) == len(starts)

    @invariant()
    def states_are_where_their_last_transitions_left_them(self) -> None:
        last = {(change.alert, change.segment): change for change in self._told()}
        for held in self.store.alerts.states("home-feed"):
            change = last.get((held.alert, held.segment))
            assert held.state is (change.to_state if change else State.QUIET)
            assert held.dedup_key == (change.dedup_key if change and held.state is State.FIRING else None)

    @invariant()
    def nothing_that_was_not_judged_reads_as_ok(self) -> None:
        for change in self._told():
            if "not seen to recover" in change.reason:
                assert change.to_state is State.QUIET
        for held in self.store.alerts.states("home-feed"):
            if "not seen to recover" in held.reason:
                assert held.outcome not in (Outcome.OK, Outcome.BREACH)

    @invariant()
    def every_start_and_end_is_owed_once(self) -> None:
        waiting = self.store.outbox.waiting(self.slot + timedelta(days=1))
        announced = [change for change in self._told() if change.is_announced]
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
    max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
