"""An interrupt at the worst moment leaves no slot behind that nobody runs."""

import os
import signal
import threading
from datetime import timedelta
from typing import Any

import pytest

from factories import SLOT, comparison, pull
from monitor.model.runs import Claim
from monitor.service.interrupts import interrupts_held, termination_raised
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every
from monitor.storage import SqlStore
from pipeline.canned import StillClock, arms, users


def watched(baseline: Any) -> Watched:
    lists = arms(baseline, pull({"a": [1]}), users("a"))
    return Watched(comparison=comparison(), arms=lists, schedule=Every(timedelta(days=1)))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


ENDINGS = [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, "143")]


@pytest.mark.parametrize(("number", "ending", "code"), ENDINGS)
def test_a_signal_waits_for_the_end_of_the_block_and_handlers_are_as_before(
    number: signal.Signals, ending: type[BaseException], code: str | None
) -> None:
    done, before = [], signal.getsignal(number)

    def work() -> None:
        with termination_raised(), interrupts_held():
            os.kill(os.getpid(), number)
            done.append("all of it")

    with pytest.raises(ending, match=code):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(number) is before


def test_a_thread_that_gets_no_signals_holds_none_back() -> None:
    done: list[str] = []

    def work() -> None:
        with interrupts_held():
            done.append("all of it")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["all of it"]


def test_a_slot_claimed_at_the_moment_of_an_interrupt_is_given_back(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = store.runs.claim

    def claim_and_interrupt(*args: Any, **options: Any) -> Claim | None:
        claimed = claim(*args, **options)
        interrupt()
        return claimed

    monkeypatch.setattr(store.runs, "claim", claim_and_interrupt)
    runner = Runner(store=store, clock=StillClock())
    with pytest.raises(KeyboardInterrupt):
        runner.run(watched(pull({"a": [1]})), SLOT, receivers=())

    assert store.history.runs(comparison=None, limit=10) == ()
    assert runner.claims == {}


class Ringing(threading.Event):
    """What a source waits for; as soon as it does, a signal comes."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number

    def wait(self, timeout: float | None = None) -> bool:
        os.kill(os.getpid(), self.number)
        return super().wait(timeout)


@pytest.mark.parametrize(("number", "ending", "code"), ENDINGS)
def test_a_run_ended_in_its_middle_gives_its_slot_back(
    store: SqlStore, number: signal.Signals, ending: type[BaseException], code: str | None
) -> None:
    source = Ringing(number)
    with termination_raised(), pytest.raises(ending, match=code):
        Runner(store=store, clock=StillClock()).run(watched(source), SLOT, receivers=())
    source.set()
    assert store.history.runs(comparison=None, limit=10) == ()


def test_an_interrupt_waits_for_the_end_of_a_transaction(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = store.runs.finish

    def interrupt_and_finish(*args: Any, **options: Any) -> int | None:
        interrupt()
        return finish(*args, **options)

    monkeypatch.setattr(store.runs, "finish", interrupt_and_finish)
    with pytest.raises(KeyboardInterrupt):
        Runner(store=store, clock=StillClock()).run(watched(pull({"a": [1]})), SLOT, receivers=())
    assert [run.status for run in store.history.runs(comparison=None, limit=10)] == ["ok"]
    assert store.runs.held_claim("home-feed", SLOT) is None
