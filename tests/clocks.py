"""The wall clock that the program sees in this process: tests set it, and a whole run of tests can shift it."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from types import SimpleNamespace

import pytest

SHIFT_VARIABLE = "RANKWATCH_TEST_CLOCK_SHIFT_S"


def set_clock(patch: pytest.MonkeyPatch, at: datetime) -> None:
    """Hold the program's wall clock at this instant."""
    patch.setattr("monitor.model.instants.time", SimpleNamespace(time=at.timestamp))


def set_scheduler_clock(patch: pytest.MonkeyPatch, now: Callable[[], datetime]) -> None:
    """APScheduler reads this clock instead of the machine's."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return now().astimezone(tz)

    patch.setattr("apscheduler.schedulers.base.datetime", Clock)


def shift_clock() -> None:
    """Shift the program's wall clock by the seconds in the environment, to the end of this process."""
    shift_s = float(os.environ.get(SHIFT_VARIABLE, "0"))
    if shift_s:
        patch = pytest.MonkeyPatch()
        patch.setattr("monitor.model.instants.time", SimpleNamespace(time=lambda: time.time() + shift_s))
        set_scheduler_clock(patch, lambda: datetime.now(UTC) + timedelta(seconds=shift_s))
