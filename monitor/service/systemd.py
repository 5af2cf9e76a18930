"""Tell systemd how the service stands (sd_notify's datagram protocol). Does nothing elsewhere."""

from __future__ import annotations

import os
import socket
import time


def notify(*lines: str) -> None:
    """Send ``READY=1``, ``STOPPING=1``, ``WATCHDOG=1`` … to the socket that systemd named; failing to is no failure of ours."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall("\n".join(lines).encode())
    except OSError:
        return


def reloading() -> None:
    """Say that a reload begins; ``READY=1`` ends it."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def watchdog_interval_s() -> float | None:
    """Half of the time after which systemd takes silence for death, None when it does not watch."""
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return microseconds / 2e6 if microseconds > 0 else None
