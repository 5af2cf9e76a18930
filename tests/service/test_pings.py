"""Runs as a dead-man's switch hears of them, with a real store and real sources."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from factories import SLOT, comparison, pull
from monitor.cli.main import app
from monitor.errors import DatabaseError
from monitor.model.runs import Claim
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every
from monitor.storage import SqlStore
from pipeline.canned import StillClock, arms, users
from servers.healthchecks import CHECK, signals_of
from servers.webhook import Collector
from service.lists_world import write_world


class Ear:
    """Pings that write down what they are to tell."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None]] = []

    def run_started(self, claim: Claim) -> None:
        self.heard.append((f"start {claim.attempt}", None))

    def run_finished(self, claim: Claim, failure: str | None) -> None:
        self.heard.append((f"end {claim.attempt}", failure))

    def close(self, timeout_s: float) -> None:
        pass


def watched(*, lists: int) -> Watched:
    """Of four users so many have lists."""
    some = pull({user: [1] for user in "abcd"[:lists]})
    return Watched(
        comparison=comparison(rules=()), arms=arms(some, some, users("a", "b", "c", "d")), schedule=Every(timedelta(days=1))
    )


def run(store: SqlStore, lists: int) -> list[tuple[str, str | None]]:
    ear = Ear()
    pings: Any = (ear,)
    Runner(store=store, clock=StillClock(), pings=pings, patience_s=0.1).run(watched(lists=lists), SLOT, receivers=())
    return ear.heard


def test_a_run_that_is_ok_ends_well_and_a_slot_that_was_run_already_is_not_heard_of(store: SqlStore) -> None:
    assert run(store, 4) == [("start 1", None), ("end 1", None)]
    assert run(store, 4) == []


def test_a_run_that_compared_too_little_has_failed(store: SqlStore) -> None:
    (_, (_, failure)) = run(store, 1)
    assert failure is not None
    assert failure.startswith("insufficient: ")


def test_a_result_that_cannot_be_stored_is_a_failure(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bool:
        msg = "the disk is full"
        raise DatabaseError(msg)

    monkeypatch.setattr(store.runs, "finish", refuse)
    ear: Any = Ear()
    with pytest.raises(DatabaseError):
        Runner(store=store, clock=StillClock(), pings=(ear,)).run(watched(lists=4), SLOT, receivers=())
    assert ear.heard == [("start 1", None), ("end 1", "the disk is full")]


def test_run_once_pings_and_replay_does_not(tmp_path: Path, collector: Collector) -> None:
    pings = f'pings: [{{url: "{collector.url}{CHECK}"}}]\n'
    config = write_world(tmp_path, f"sqlite:///{tmp_path / 'rankwatch.db'}", every="1d", receivers=pings)
    for command in (["replay", "--from", "2024-01-07", "--to", "2024-01-07"], ["run-once", "--slot", "2024-01-08"]):
        done = CliRunner().invoke(app, [*command, "--config", str(config)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert [signal.kind for signal in signals_of(collector.requests)] == ["start", "success"]
