"""What a receiver comes to believe while it fails, senders are killed, and people acknowledge, resolve and silence."""

from contextlib import suppress
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from factories import MINUTE, SLOT, comparison, evaluate, summary
from factories import rule as alert_rule
from monitor.alerts.incidents import assign_incidents
from monitor.errors import DeliveryError
from monitor.model.alerts import Transition
from monitor.model.notifications import DeliveryStatus, Message, Silence, Treatment, Updates
from monitor.model.runs import RunStatus
from monitor.pipeline.delivery import OutboxSender
from pipeline.outbox_process import CountingPublisher
from storage.test_alerts_over_restarts import OverAFile
from storage.worked import claimed, result

SEGMENTS = ("all", "a=1", "a=2")
WATCHED = comparison(rules=(alert_rule(for_runs=1, segments="each"),))
HELD_FOR = ("acknowledged", "waits for the end of its incident")
FAILURES = st.sampled_from(["refused", "killed after", "lost", "taken", "killed before", "down"])
FATES = st.none() | FAILURES


class KilledError(BaseException):
    """Stands for a process that is no more: nothing catches it."""


class Believer:
    """A receiver that keeps what it was told, and fails as planned; ``lost`` and ``taken`` look the same to who sends."""

    name, treatment = "hook", Treatment(updates=Updates.UNPAGED)

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.firing: set[str | None] = set()
        self.ended: set[str | None] = set()
        self.unclear: set[str | None] = set()
        self.open: set[str] = set()

    def send(self, message: Message, *, now: datetime) -> None:
        fate = self.plan.pop(0) if self.plan else "well"
        if fate in ("well", "taken", "killed after"):
            self._take(message)
        if fate in ("lost", "taken", "killed before", "killed after"):
            self.unclear |= {change.dedup_key for change in message.changes}
        if fate.startswith("killed"):
            raise KilledError
        if fate != "well":
            raise DeliveryError(fate, permanent=fate == "refused", may_be_known=fate in ("lost", "taken"))

    def _take(self, message: Message) -> None:
        for change in message.changes:
            key = change.dedup_key
            if change.is_start:
                assert key not in self.firing | self.ended or key in self.unclear, "a start told twice"
                assert key not in self.ended, "a start after its end"
                self.firing.add(key)
            elif change.is_end:
                assert key in self.firing or key in self.unclear, "an end of what is not known"
                assert key not in self.ended or key in self.unclear, "an end told twice"
                self.firing.discard(key)
                self.ended.add(key)
            else:
                assert key in self.firing or key in self.unclear, "an acknowledgement of what is not known"
        (self.open.add if message.firing else self.open.discard)(message.incident)


class Told(OverAFile):
    """One comparison, one receiver, and everybody who meddles."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.process, self.receiver = SLOT, 0, Believer()

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - SLOT).total_seconds()

    def _deliver(self) -> None:
        parts: dict[str, Any] = {
            "clock": self,
            "publisher": CountingPublisher(),
            "receiver": self.receiver,
            "outbox": self.store.outbox,
        }
        with suppress(KilledError):
            OutboxSender(owner=f"p:{self.process}", draw=lambda: 0.5, **parts).deliver_due()
            return
        self.process += 1

    @rule(means=st.sampled_from([(0.1,) * 3, (0.9,) * 3]) | st.tuples(*[st.sampled_from([0.1, 0.9])] * 3), fate=FATES)
    def run_the_next_slot_and_tell(self, means: tuple[float, ...], fate: str | None) -> None:
        self._run(means)
        self.deliver([fate] if fate else [])

    @rule(means=st.tuples(*[st.sampled_from([0.1, 0.9])] * 3))
    def run_the_next_slot(self, means: tuple[float, ...]) -> None:
        self._run(means)

    def _run(self, means: tuple[float, ...]) -> None:
        self.at += 15 * MINUTE
        found = tuple(summary(segment=segment, mean=mean) for segment, mean in zip(SEGMENTS, means, strict=True))
        before = self.store.alerts.states(WATCHED.name)
        judged: dict[str, Any] = {"status": RunStatus.OK, "run_reason": None, "summaries": found, "states": before}
        states, changes = assign_incidents(*evaluate(WATCHED, slot=self.at, **judged), before, WATCHED.judging)
        plain: dict[str, Any] = {"coverage": None, "scores": None, "evidence": (), "summaries": found}
        done = result(claimed(self.store, self.at), states=states, transitions=changes, **plain)
        assert self.store.runs.finish(done, receivers=("hook",))

    @rule(failures=st.lists(FAILURES, max_size=3))
    def deliver(self, failures: list[str]) -> None:
        self.receiver.plan = failures
        self.at += MINUTE
        self._deliver()

    @rule(segment=st.sampled_from(SEGMENTS))
    def acknowledge(self, segment: str) -> None:
        self.at += MINUTE
        self.store.alerts.acknowledge(WATCHED.name, [("SimilarityLow", segment)], author="a", reason="a looks", at=self.at)

    @rule(segment=st.sampled_from(SEGMENTS))
    def resolve(self, segment: str) -> None:
        self.at += MINUTE
        self.store.alerts.resolve(WATCHED.name, [("SimilarityLow", segment)], reason="closed", at=self.at)

    @rule(matcher=st.sampled_from(["segment=all", "segment=~a=.*", "segment=~("]), minutes=st.integers(5, 60))
    def silence(self, matcher: str, minutes: int) -> None:
        said: dict[str, Any] = {"id": 0, "author": "a", "comment": "", "created_at": self.at, "starts_at": self.at}
        self.store.alerts.add_silence(Silence(matchers=(matcher,), ends_at=self.at + minutes * MINUTE, **said))

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store, self.process = self._open(), self.process + 1
        self.store.outbox.retry_refused(self.at, receivers=("hook",))

    @rule(minutes=st.integers(-30, 30))
    def set_the_clock(self, minutes: int) -> None:
        """Not so far back that a slot comes again, which the service would say."""
        newest = self.store.runs.last_slot(WATCHED.name) or SLOT
        self.at = max(newest, self.at + minutes * MINUTE)

    def teardown(self) -> None:
        """Everything is well again: nothing is owed, and what is believed to fire is what fires."""
        try:
            self._heal()
        finally:
            super().teardown()

    def _heal(self) -> None:
        self.receiver.plan = []
        self.restart()
        for _ in range(2):
            self.at += 90 * MINUTE
            self._deliver()
        waiting = self.store.outbox.deliveries(receiver="hook", settled=0, limit=1000)
        assert {each.status for each in waiting} <= {DeliveryStatus.HELD}
        assert all(any(why in (each.reason or "") for why in HELD_FOR) for each in waiting), waiting
        held = {each.transition.dedup_key for each in waiting if each.transition.is_start}
        late = [each.transition for each in waiting if each.transition.is_end]
        lasting = [start for start in self.store.alerts.firing() if start.dedup_key not in held]
        assert _keys(lasting) <= self.receiver.firing <= _keys(lasting) | _keys(late)
        assert _incidents(lasting) <= self.receiver.open <= _incidents(lasting) | _incidents(late)


def _keys(changes: list[Transition]) -> set[str | None]:
    return {change.dedup_key for change in changes}


def _incidents(changes: list[Transition]) -> set[str]:
    return {change.incident or "" for change in changes}


TestTold = Told.TestCase
TestTold.settings = settings(
    max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
