"""An interrupt at the worst moment leaves no slot behind that nobody runs."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factories import SLOT, comparison, pull
from monitor.model import Claim
from monitor.service.interrupts import interrupts_held
from monitor.service.running import Runner, Watched
from monitor.settings import Every
from monitor.storage import SqlStore, open_store
from pipeline.canned import StillClock, arms, users


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as opened:
        yield opened


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done = []

    def work() -> None:
        with interrupts_held():
            interrupt()
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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
    watched = Watched(
        comparison=comparison(), arms=arms(pull({"a": [1]}), pull({"a": [1]}), users("a")), schedule=Every(timedelta(days=1))
    )
    claim = store.claim

    def claim_and_interrupt(*args: Any, **options: Any) -> Claim | None:
        claimed = claim(*args, **options)
        interrupt()
        return claimed

    monkeypatch.setattr(store, "claim", claim_and_interrupt)
    runner = Runner(store=store, clock=StillClock())
    with pytest.raises(KeyboardInterrupt):
        runner.run(watched, SLOT, receivers=())

    assert store.runs(comparison=None, limit=10) == ()
    assert runner.claims == {}
