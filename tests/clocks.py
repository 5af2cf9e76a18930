"""The wall clock that the program sees in this process: tests set it, and a whole run of tests can shift it."""

import os
from datetime import datetime
from types import SimpleNamespace

SHIFT_VARIABLE = "RANKWATCH_TEST_CLOCK_SHIFT_S"


def set_clock(patch, at):
    """Hold the program's wall clock at this instant."""
    patch.setattr("monitor.model.instants.time", SimpleNamespace(time=at.timestamp))


def set_scheduler_clock(patch, now):
    """APScheduler reads this clock instead of the machine's."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return now().astimezone(tz)

    patch.setattr("apscheduler.schedulers.base.datetime", Clock)


def shift_clock(patch):
    """Shift the program's wall clock in this process by the seconds that the environment names."""
    shift_s = float(os.environ.get(SHIFT_VARIABLE) or 0)
    if shift_s:
        from monitor.model import instants  # noqa: PLC0415 - after the environment is set

        unshifted = instants.time
        patch.setattr(instants, "time", SimpleNamespace(time=lambda: unshifted.time() + shift_s))
        set_scheduler_clock(patch, instants.utc_now)
