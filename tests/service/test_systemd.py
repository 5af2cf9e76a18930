import socket
from pathlib import Path

import pytest

from monitor.service import systemd


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
