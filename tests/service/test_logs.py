"""What the service logs, and what it leaves to events and exceptions."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from monitor.service.logs import configure


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
