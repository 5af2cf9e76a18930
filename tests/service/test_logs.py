"""What the service logs, and what it leaves to events and exceptions."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog

from factories import SLOT, comparison, pull
from monitor.model.runs import Claim
from monitor.service.logs import configure
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every
from monitor.storage import SqlStore
from pipeline.canned import StillClock, arms, users


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
    structlog.get_logger("late").info("before")
    assert '"event": "before"' in theirs.getvalue()
    theirs.close()
    structlog.get_logger("late").info("after")
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


class BegunLog:
    def run_started(self, claim: Claim) -> None:
        structlog.get_logger().info("begun")

    def run_finished(self, claim: Claim, failure: str | None) -> None:
        pass
