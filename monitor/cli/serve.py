"""Commands for the daemon: `serve` runs it, `healthcheck` checks it, and `demo` shows it."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.boundary.redaction import escape_controls
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.output import UNHEALTHY_EXIT
from monitor.cli.parameters import Config, parse_address

if TYPE_CHECKING:
    from monitor.service.daemon.daemon import Daemon
    from monitor.settings.configuration import Settings

STOP_WHEN_IDLE_S = 3600.0
_GARBAGE_THRESHOLDS = 700, 10, 10
"""Python's defaults. The daemon restores them, because it must collect garbage more often."""

# If a server listens on all addresses, the probe uses the loopback address.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def serve(config: Config = DEFAULT_CONFIG) -> None:
    """Run the daemon. The daemon runs all slots on schedule, and serves web pages.

    SIGTERM or Ctrl-C stops the daemon. To reload the configuration, send SIGHUP, or POST /-/reload
    with a password.
    """
    from monitor.service.daemon.daemon import Daemon
    from monitor.service.heaps import share_heaps
    from monitor.settings.loader import load_settings

    share_heaps()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    _follow_log_settings(load_settings(config))
    signals = _receive_signals()
    daemon = Daemon(config, on_reload=_follow_log_settings)
    daemon.start()
    notify_systemd("READY=1")
    _obey(daemon, signals)
    notify_systemd("STOPPING=1")
    daemon.stop()


def _receive_signals() -> int:
    """Return a pipe. For each signal it receives a byte with the number of the signal."""
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    # Python runs signal handlers between bytecodes. If a signal arrives just before the main thread
    # blocks, its handler runs only after the next signal. A byte in a pipe is never missed.
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ignore)
    return signals


def _ignore(*_: object) -> None:
    """Ignore a signal, because its number is already in the pipe."""


def _follow_log_settings(settings: Settings) -> None:
    from monitor.service.logs import configure_logs

    configure_logs(settings.log.format, settings.log.level)


def _obey(daemon: Daemon, signals: int) -> None:
    """Handle signals until a signal stops the daemon.

    While the daemon is healthy, also notify the watchdog of systemd.
    """
    interval = watchdog_interval_s() or STOP_WHEN_IDLE_S
    while True:
        is_readable, _, _ = select.select([signals], [], [], interval)
        # Read all pending signals at once. Equal signals are handled only once, and a stop does not
        # wait for a reload.
        received = set(os.read(signals, 1 << 20)) if is_readable else set()
        if received - {signal.SIGHUP}:
            return
        if received:
            now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            notify_systemd("RELOADING=1", f"MONOTONIC_USEC={now_us}")
            daemon.reload()
            notify_systemd("READY=1")
        if daemon.unhealthy() is None:
            notify_systemd("WATCHDOG=1")


def notify_systemd(*states: str) -> None:
    """Send states such as ``READY=1`` or ``WATCHDOG=1`` to the socket of systemd, if any.

    Errors are ignored.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.connect(address)
        channel.sendall("\n".join(states).encode())


def watchdog_interval_s() -> float | None:
    """Return half of systemd's watchdog time, or None without a watchdog."""
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    if microseconds <= 0:
        return None
    return microseconds / 2e6


def demo(
    *,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Exit at the end of the demonstration. The exit code is 0 if everything "
            "happened as expected.",
        ),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIRECTORY",
            help="Directory for configuration and database. Default: ./rankwatch-demo.",
        ),
    ] = None,
    recommenders: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve only the two recommenders, at this address. You can then watch these "
            "recommenders with another installation of rankwatch.",
        ),
    ] = None,
) -> None:
    """Watch two recommenders drift apart and recover."""
    from rich.console import Console

    from monitor.demo.session import run_demo, run_recommenders
    from monitor.service.logs import configure_logs

    configure_logs("auto", "critical")
    console = Console()
    if recommenders is None:
        raise typer.Exit(run_demo(fast=fast, directory=directory, console=console))
    if fast:
        raise typer.BadParameter(
            "--fast ends the demo, but --recommenders serves until it is stopped: omit one of "
            "the two"
        )
    address = parse_address(recommenders, "--recommenders")
    raise typer.Exit(run_recommenders(address, directory=directory, console=console))


def healthcheck(
    address: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="Address of the daemon.")
    ] = "127.0.0.1:29108",
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Also check whether the database answers.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            max=60.0,
            help="How long to wait for a response.",
        ),
    ] = 5.0,
    cert: Annotated[
        Path | None,
        typer.Option("--cert", help="Client certificate, if the daemon requires one."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Key of the certificate, if it is in another file.")
    ] = None,
) -> None:
    """Check whether a daemon is healthy.

    The exit code is 0 if the daemon is healthy, and 1 if not. The command works with and without
    TLS, and does not need a password. The command does not verify the daemon's certificate, because
    the response is not secret.
    """
    from monitor.cli.health_probe import probe_daemon, tls_context

    if key is not None and cert is None:
        raise typer.BadParameter("--key needs the certificate that it belongs to: give --cert too")
    tls = tls_context(cert, key)
    host, port = parse_address(address, "HOST:PORT")
    word = "ready" if ready else "healthy"
    is_well, answer = probe_daemon(_EVERYWHERE.get(host, host), port, word, tls, timeout_s)
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)
