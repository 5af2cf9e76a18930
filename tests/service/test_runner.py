"""Runs as the service's logs tell of them, and as a dead-man's switch hears of them."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from factories import SLOT, comparison, pull
from monitor.cli.main import app
from monitor.errors import DatabaseError
from monitor.model.runs import Claim
from monitor.service.logs import configure
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


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, level = list(logging.getLogger().handlers), logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = root
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()


def test_a_thread_that_outlives_its_daemon_logs_nothing_into_a_closed_stream(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = io.StringIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", theirs)
        configure("json", "info")
    structlog.get_logger("monitor.late").info("before")
    assert '"event": "before"' in theirs.getvalue()
    theirs.close()
    structlog.get_logger("monitor.late").info("after")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("library", "is_logged"), [("apscheduler.executors.default", False), ("apscheduler.scheduler", True)])
def test_jobs_that_fail_are_logged_by_the_daemon_and_not_by_apscheduler_too(
    library: str, *, is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("json", "info")
    logging.getLogger(library).warning("overlap")
    logging.getLogger(library).error("defect")
    assert ("defect" in stream.getvalue()) is is_logged
    assert "overlap" not in stream.getvalue()


def test_a_run_that_keeps_an_earlier_attempt_is_logged_under_its_own_attempt_and_once_stored_its_own_number(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("json", "info")
    opened = arms(pull({"a": [1, 2]}), pull({"a": [2, 1]}), users("a"))
    watched = Watched(comparison=comparison(k=2), arms=opened, schedule=Every(timedelta(days=1)), is_live=True)
    ping: Any = BegunLog()
    for _ in range(2):
        Runner(store=store, clock=StillClock(), pings=(ping,)).run(watched, SLOT, receivers=(), rerun=True)

    lines = map(json.loads, stream.getvalue().splitlines())
    logged = [(line["event"], line["attempt"], line.get("run")) for line in lines]
    stored = {run.comparison: run.id for run in store.history.runs(comparison=None, limit=9)}
    first, second = stored["home-feed@1"], stored["home-feed"]
    assert logged == [("begun", 1, first), ("run finished", 1, first), ("begun", 2, None), ("run finished", 2, second)]
    assert structlog.contextvars.get_contextvars() == {}


class BegunLog(Ear):
    def run_started(self, claim: Claim) -> None:
        structlog.get_logger("monitor.test").info("begun")
