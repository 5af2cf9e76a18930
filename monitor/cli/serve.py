"""Commands of the daemon: `serve` runs it, `healthcheck` asks for its health, `demo` shows it."""

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

from monitor.cli.output import UNHEALTHY_EXIT
from monitor.cli.parameters import DEFAULT_CONFIG, Config, parse_address
from monitor.redaction import escape_controls

if TYPE_CHECKING:
    from monitor.service.daemon.daemon import Daemon
    from monitor.settings.configuration import Settings

IDLE_S = 3600.0
_GARBAGE_THRESHOLDS = 700, 10, 10
"""The defaults of Python: a daemon must collect garbage more often than a short command."""

# Where to ask a server that listens on all addresses.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def serve(config: Config = DEFAULT_CONFIG) -> None:
    """Run the daemon until SIGTERM or Ctrl-C.

    SIGHUP, or POST /-/reload with a password, reloads the configuration.
    """
    from monitor.service.daemon.daemon import Daemon
    from monitor.service.daemon.threads import share_heaps
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
    """Return a pipe that gets the number of each signal as a byte."""
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    # Python runs handlers between bytecodes. A signal just before the main thread blocks would
    # wait for the next one. A byte in a pipe is never missed.
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ignore)
    return signals


def _ignore(*_: object) -> None:
    """Handle a signal: its number is in the pipe already."""


def _follow_log_settings(settings: Settings) -> None:
    from monitor.service.logs import configure

    configure(settings.log.format, settings.log.level)


def _obey(daemon: Daemon, signals: int) -> None:
    """Handle signals until one asks to stop.

    Notifies the watchdog of systemd while the daemon is healthy.
    """
    interval = watchdog_interval_s() or IDLE_S
    while True:
        is_readable, _, _ = select.select([signals], [], [], interval)
        # All pending signals at once: equal ones count as one, and none delays another.
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
    """Send ``READY=1``, ``STOPPING=1``, ``WATCHDOG=1`` … to the socket of systemd, if there is one.

    Ignores errors.
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
    """Return half of the watchdog time of systemd, None if systemd does not watch."""
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
        typer.Option("--fast", help="End after the story; exit code 0 if all of it happened."),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="Directory for configuration and database; default: ./rankwatch-demo."
        ),
    ] = None,
    recommenders: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve only the two recommenders there, for another rankwatch.",
        ),
    ] = None,
) -> None:
    """Watch two live recommenders drift apart and recover."""
    from rich.console import Console

    from monitor.demo import run_demo, run_recommenders
    from monitor.service.logs import configure

    configure("auto", "critical")
    console = Console()
    if recommenders is None:
        raise typer.Exit(run_demo(fast=fast, directory=directory, console=console))
    if fast:
        raise typer.BadParameter(
            "--fast ends the demo, but --recommenders serves until it is stopped: leave --fast out"
        )
    address = parse_address(recommenders, "--recommenders")
    raise typer.Exit(run_recommenders(address, directory=directory, console=console))


def healthcheck(
    address: Annotated[
        str, typer.Argument(metavar="[HOST:PORT]", help="Where the daemon listens.")
    ] = "127.0.0.1:29108",
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Also ask whether the database answers.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait in total.")
    ] = 5.0,
    cert: Annotated[
        Path | None,
        typer.Option("--cert", help="Client certificate, if the daemon requires one."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Key of the certificate, if it is in another file.")
    ] = None,
) -> None:
    """Ask a daemon whether it is healthy: exit 0, else 1.

    Works with and without TLS, and needs no password. The certificate of the daemon is not
    verified, because the answer is no secret.
    """
    from monitor.cli.health_probe import probe, tls_context

    if key is not None and cert is None:
        raise typer.BadParameter("--key needs --cert")
    tls = tls_context(cert, key)
    host, port = parse_address(address, "HOST:PORT")
    word = "ready" if ready else "healthy"
    is_well, answer = probe(_EVERYWHERE.get(host, host), port, word, tls, timeout_s)
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)
