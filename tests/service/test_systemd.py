import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from monitor.cli.serve import _obey
from monitor.service import systemd
from monitor.service.daemon.daemon import Daemon


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(5)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return listener


def test_a_state_reaches_the_socket_that_systemd_named(channel: socket.socket) -> None:
    with channel:
        systemd.notify("READY=1", "STATUS=well")
        assert channel.recv(100) == b"READY=1\nSTATUS=well"


def test_a_reload_carries_the_monotonic_time_systemd_wants(channel: socket.socket) -> None:
    with channel:
        systemd.reloading()
        first, second = channel.recv(100).split(b"\n")
        assert first == b"RELOADING=1"
        assert int(second.removeprefix(b"MONOTONIC_USEC=")) > 0


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@rankwatch-nobody"])
def test_without_systemd_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    systemd.notify("READY=1")


@pytest.mark.parametrize(("value", "seconds"), [("10000000", 5.0), ("0", None), ("soon", None), (None, None)])
def test_the_watchdog_is_fed_at_half_its_time(
    value: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    if value is not None:
        monkeypatch.setenv("WATCHDOG_USEC", value)
    assert systemd.watchdog_interval_s() == seconds


def test_a_storm_of_reloads_is_one_and_keeps_neither_the_watchdog_nor_the_end_waiting(channel: socket.socket) -> None:
    reloads: list[int] = []
    signals, sent = os.pipe()

    def reload() -> bool:
        """Meanwhile somebody asks for more."""
        reloads.append(1)
        os.write(sent, bytes([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP]))
        return False

    os.write(sent, bytes([signal.SIGHUP] * 500))
    with channel:
        _obey(cast("Daemon", SimpleNamespace(reload=reload, unhealthy=lambda: None)), signals)
        told = [channel.recv(100).partition(b"\n")[0] for _ in range(3)]

    assert reloads == [1]
    assert told == [b"RELOADING=1", b"READY=1", b"WATCHDOG=1"]


def test_systemd_is_fed_only_while_the_daemon_is_well(channel: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    asked: list[int] = []
    signals, sent = os.pipe()

    def unhealthy() -> str | None:
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
