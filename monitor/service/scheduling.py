"""APScheduler as the daemon uses it: slots in, one thread a run, late slots merged into one run."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from typing import Any

from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers.background import BackgroundScheduler


class ThreadPerJob(BaseExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """Runs each job in a daemon thread of its own.

    APScheduler's pools are joined when the process ends, so one hung pull would keep a stopped daemon alive until its deadline.
    """

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401 - APScheduler ships no types
        threading.Thread(target=self._run, args=(job, run_times), name=f"job-{job.id}", daemon=True).start()

    def _run(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401 - APScheduler ships no types
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)  # noqa: SLF001 - as its own executors do
        except BaseException as error:  # noqa: BLE001 - reported, as its own executors do
            self._run_job_error(job.id, error, sys.exc_info()[2])
        else:
            self._run_job_success(job.id, events)


def make_scheduler() -> BackgroundScheduler:
    """A scheduler that runs a late job once however late it is, and never two of one comparison at a time."""
    return BackgroundScheduler(
        timezone="UTC",
        executors={"default": ThreadPerJob()},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
