"""Runs judged and stored, restarts and second writers strewn in: what is stored is always one story."""

from collections import defaultdict
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from hypothesis.stateful import rule as step

from alerts.test_conditions import condition
from factories import HOUR, SLOT, comparison, evaluate, rule, summary
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import Outcome, State, Transition
from monitor.model.rules import Condition
from monitor.model.runs import RunStatus, Summary
from monitor.storage import SqlStore, open_store
from storage.worked import attempt, result

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
        judged = {(state.alert, state.segment) for state in self.store.alerts.states("home-feed") if state.judged_slot >= slot}
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
        for state in self.store.alerts.states("home-feed"):
            change = last.get((state.alert, state.segment))
            assert state.state is (change.to_state if change else State.QUIET)
            assert state.dedup_key == (change.dedup_key if change and state.state is State.FIRING else None)

    @invariant()
    def nothing_that_was_not_judged_reads_as_ok(self) -> None:
        for change in self._told():
            if "not seen to recover" in change.reason:
                assert change.to_state is State.QUIET
        for state in self.store.alerts.states("home-feed"):
            if "not seen to recover" in state.reason:
                assert state.outcome not in (Outcome.OK, Outcome.BREACH)

    @invariant()
    def every_start_and_end_is_owed_once(self) -> None:
        waiting = self.store.outbox.pending(self.slot + timedelta(days=1))
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
