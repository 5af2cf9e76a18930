"""A daemon ends within the time that platforms grant, whatever hangs."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from monitor.deadline import Deadline
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon.daemon import STOP_IN_ALL_S, Daemon
from monitor.sources.http.connection_pool import _DaemonThreads

HANGING_LOOKUP = """
import socket, threading
from datetime import UTC, datetime
import pandas as pd
from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.model.runs import PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.source import HttpSource

asked = threading.Event()

def hang(*_, **__):
    asked.set()
    threading.Event().wait()

socket.getaddrinfo = hang
users = pd.Index(["ann"], dtype="str")
request = PullRequest(users=users, k=1, slot=datetime(2024, 1, 8, tzinfo=UTC), timeout_s=3600)
source = HttpSource(HttpSourceOptions.model_validate({"url": "http://hangs.example/{user}"}))
threading.Thread(target=source.pull, args=(request,), daemon=True).start()
assert asked.wait(60)
print("ended")
"""


@pytest.mark.integration
def test_a_name_server_that_hangs_does_not_hold_up_the_end_of_the_process():
    root = Path(daemon_module.__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", HANGING_LOOKUP],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_lookups_are_made_in_threads_that_nobody_waits_for():
    threads = _DaemonThreads()

    assert threads.submit(lambda: threading.current_thread().daemon).result() is True
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result()


@pytest.mark.parametrize(("left_s", "given_s"), [(STOP_IN_ALL_S, 10.0), (4.0, 4.0), (-1.0, 0.0)])
def test_each_step_of_a_stop_gets_what_is_left_of_the_time_for_all(left_s, given_s, tmp_path):
    daemon: Any = Daemon(tmp_path / "rankwatch.yaml")
    assert daemon._seconds_to_stop(10.0) == 10.0

    daemon._stops_by = Deadline.after(left_s)

    assert daemon._seconds_to_stop(10.0) == pytest.approx(given_s, abs=1.0)


def test_a_stop_takes_less_than_compose_grants():
    compose = Path(daemon_module.__file__).parents[3] / "deploy" / "compose.yaml"

    assert f"stop_grace_period: {STOP_IN_ALL_S + 10:.0f}s" in compose.read_text()
