"""A run ends at its deadline, whatever hangs in the process."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from factories import SLOT, comparison, pull
from monitor.model.runs import RunStatus
from monitor.service import runner as runner_module
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every
from monitor.storage import SqlStore
from pipeline.canned import StillClock, arms, users


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """What hangs waits for this event, which is set in the end."""
    ended = threading.Event()
    yield ended
    ended.set()


def run_with(
    store: SqlStore, execute: Any, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[Runner, Any]:
    monkeypatch.setattr(runner_module, "execute", execute)
    monkeypatch.setattr(runner_module, "FINISHING_S", 0.1)
    watched = Watched(
        comparison=comparison(deadline=timedelta(seconds=0.2)),
        arms=arms(pull({"a": [1]}), pull({"a": [1]}), users("a")),
        schedule=Every(timedelta(days=1)),
    )
    runner = Runner(store=store, clock=StillClock(), **more)
    return runner, runner.run(watched, SLOT, receivers=())


def test_a_run_that_hangs_in_the_process_fails_at_its_deadline_and_is_counted(
    store, hang, monkeypatch
):
    renewed: list[str] = []
    runner, result = run_with(
        store, lambda *_: hang.wait(), monkeypatch, renew_sources=renewed.append
    )

    assert result.status is RunStatus.FAILED
    expected = (
        "the run did not end within its deadline of 200ms and 0.1 s more: its work was left behind"
    )
    assert result.reason == expected
    assert (runner.left_behind, renewed, runner.claims) == (1, ["home-feed"], {})


def test_a_defect_in_a_run_fails_it_as_before(store, monkeypatch):
    runner, result = run_with(store, lambda *_: 1 / 0, monkeypatch)

    assert result.reason.startswith("internal error: ZeroDivisionError in ")
    assert runner.left_behind == 0
