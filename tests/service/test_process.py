"""The daemon as a process: real signals, interrupts at the worst moment, systemd, and an end in time whatever hangs."""

import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest

from factories import SLOT
from forking import run_program
from monitor.cli.serve import _obey, notify_systemd, watchdog_interval_s
from monitor.service.composition import PINGS_S
from monitor.service.daemon.daemon import STOP_S, WEB_S, Daemon
from monitor.service.daemon.leadership import ANSWER_S
from monitor.service.interrupts import interrupts_held, termination_raised
from pipeline.canned import arms, users
from places import ROOT
from servers.daemon import serving
from servers.webhook import hang
from service.lists_world import write_world
from service.single_runs import runner, watch
from storage.worked import runs_of, store_at


@pytest.mark.parametrize(
    "number, ending, code",
    [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, "143")],
)
def test_a_signal_waits_for_the_end_of_the_block_and_handlers_are_restored(number, ending, code):
    done = []
    before = signal.getsignal(number)

    def work():
        with termination_raised(), interrupts_held():
            os.kill(os.getpid(), number)
            done.append("all of it")

    with pytest.raises(ending, match=code):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("step, left", [("claim", []), ("finish", ["ok"])])
def test_an_interrupt_waits_for_the_end_of_a_transaction_and_releases_a_claimed_slot(
    store, monkeypatch, step, left
):
    work = getattr(store.runs, step)

    def interrupt_and_work(*args, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return work(*args, **options)

    monkeypatch.setattr(store.runs, step, interrupt_and_work)
    interrupted = runner(store)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(watch(arms("a:1", "a:1", users("a"))), SLOT, receivers=())

    assert [run.status for run in runs_of(store)] == left
    assert store.runs.held_claim("home-feed", SLOT) is None
    assert not interrupted.claims


@pytest.fixture
def channel(tmp_path, monkeypatch):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(f"{tmp_path}/notify")
    listener.settimeout(5)
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
    return listener


def test_notifying_without_systemd_does_nothing(monkeypatch):
    for address in ("", "/nowhere/notify", "@rankwatch-nobody"):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify_systemd("READY=1")


def test_the_watchdog_is_notified_at_half_its_interval(monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog_interval_s() is None
    for value, seconds in (("10000000", 5.0), ("0", None), ("soon", None)):
        monkeypatch.setenv("WATCHDOG_USEC", value)
        assert watchdog_interval_s() == seconds


def test_many_reload_signals_cause_one_reload_and_delay_neither_the_watchdog_nor_the_end(channel):
    reloads = []
    signals, sent = os.pipe()

    def reload():
        """Meanwhile somebody asks for more."""
        reloads.append(1)
        os.write(sent, bytes([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP]))
        return False

    os.write(sent, bytes([signal.SIGHUP] * 500))
    with channel:
        _obey(cast("Daemon", SimpleNamespace(reload=reload, unhealthy=lambda: None)), signals)
        told = [channel.recv(100).partition(b"\nMONOTONIC_USEC=") for _ in range(3)]

    assert reloads == [1]
    assert [state for state, *_ in told] == [b"RELOADING=1", b"READY=1", b"WATCHDOG=1"]
    assert int(told[0][2]) > 0


def test_systemd_is_notified_only_while_the_daemon_is_healthy(channel, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    asked = []
    signals, sent = os.pipe()

    def unhealthy():
        """Unwell twice, and well after that; the fifth look is the last."""
        asked.append(1)
        if len(asked) == 5:
            os.write(sent, bytes([signal.SIGTERM]))
        return "the scheduler has stopped" if len(asked) <= 2 else None

    with channel:
        _obey(cast("Daemon", SimpleNamespace(unhealthy=unhealthy)), signals)
        assert [channel.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        channel.settimeout(0)
        with pytest.raises(BlockingIOError):
            channel.recv(100)
    assert len(asked) == 5


@pytest.mark.integration
def test_sigterm_during_a_hung_pull_ends_in_time_and_releases_the_slot(tmp_path, collector):
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    collector.default = hang
    source = f'{{http: {{url: "{collector.url}/{{user}}", timeout: 5m, retries: 0}}}}'
    config = write_world(tmp_path, url, every="1h", candidate=source)
    with serving(config) as daemon:
        collector.wait_for(1)
        assert daemon.terminate() == 0  # it waits for 90 seconds at most
    with store_at(url) as store:
        assert not runs_of(store)


@pytest.mark.integration
def test_short_threads_share_two_heaps():
    """As many as one a thread grow by what each keeps between its pieces.

    Counted by the C library itself.
    """
    script = """
import ctypes, sys, threading
from monitor.service.heaps import share_heaps
sys.argv[1:] and share_heaps()
c, together = ctypes.CDLL(None), threading.Barrier(8)
c.fopen.restype = ctypes.c_void_p
def take():
    pieces = [bytes(2000) for _ in range(100)]
    together.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
[each.start() for each in threads], [each.join() for each in threads]
out = ctypes.c_void_p(c.fopen(b"/dev/stdout", b"w"))
c.malloc_info(0, out), c.fclose(out)
"""
    command = [sys.executable, "-c", script]
    heaps = [
        subprocess.check_output([*command, *args], text=True).count("<heap nr=")
        for args in ([], ["shared"])
    ]
    assert heaps[1] <= 2 < heaps[0]


HANGING_LOOKUP = """
import socket, threading
from datetime import UTC, datetime
import pandas as pd
from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
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
def test_a_hanging_name_server_does_not_delay_the_end_of_the_process():
    done = run_program([sys.executable, "-c", HANGING_LOOKUP], cwd=ROOT, timeout=90)

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_a_stop_takes_less_time_than_compose_allows():
    assert "stop_grace_period: 30s" in (ROOT / "deploy/compose.yaml").read_text()
    assert STOP_S + WEB_S + ANSWER_S + PINGS_S < 30
