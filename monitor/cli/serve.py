"""Commands of the daemon: `serve` runs it, `healthcheck` asks whether it is well, `demo` shows it at work."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
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
"""Python's own: a process that stays must collect more often than a command that ends soon."""

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one asks who listens everywhere


def serve(config: Config = DEFAULT_CONFIG) -> None:
    """Run the daemon until SIGTERM or Ctrl-C.

    SIGHUP, or POST /-/reload with a password, reads the configuration again.
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
    tell_systemd("READY=1")
    _obey(daemon, signals)
    tell_systemd("STOPPING=1")
    daemon.stop()


def _receive_signals() -> int:
    """A pipe from which the numbers of the daemon's signals are read, a byte each."""
    signals, written = os.pipe()
    os.set_blocking(written, False)
    # Python runs handlers between bytecodes: a signal that comes just before the main thread blocks
    # in a queue or an event would wait there for another one. A byte written at once is never
    # missed.
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return signals


def _follow_log_settings(settings: Settings) -> None:
    from monitor.service.logs import configure

    configure(settings.log.format, settings.log.level)


def _obey(daemon: Daemon, signals: int) -> None:
    """Handle signals, and feed systemd's watchdog while the daemon is healthy, until asked to stop."""
    interval = watchdog_interval_s() or IDLE_S
    while True:
        # Everything that has come is read at once: many signals of a kind are one, and none waits
        # behind another.
        is_readable, _, _ = select.select([signals], [], [], interval)
        received = set(os.read(signals, 1 << 20)) if is_readable else set()
        if received - {signal.SIGHUP}:
            return
        if received:
            tell_systemd(
                "RELOADING=1",
                f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}",
            )
            daemon.reload()
            tell_systemd("READY=1")
        if daemon.unhealthy() is None:
            tell_systemd("WATCHDOG=1")


def tell_systemd(*lines: str) -> None:
    """Send ``READY=1``, ``STOPPING=1``, ``WATCHDOG=1`` … to the socket that systemd named.

    Failing to is no failure of ours.
    """
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


def watchdog_interval_s() -> float | None:
    """Half of the time after which systemd takes silence for death, None when it does not watch."""
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return microseconds / 2e6 if microseconds > 0 else None


def demo(
    *,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="End by itself; exit code 0 when the whole story happened."),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="Where to put configuration and database; default ./rankwatch-demo."
        ),
    ] = None,
    recommenders: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Only the two recommenders, served there for a rankwatch elsewhere.",
        ),
    ] = None,
) -> None:
    """Watch two live recommenders drift apart and heal again."""
    from rich.console import Console

    from monitor.demo import run_demo, run_recommenders
    from monitor.service.logs import configure

    configure("auto", "critical")
    if recommenders is None:
        raise typer.Exit(run_demo(fast=fast, directory=directory, console=Console()))
    if fast:
        msg = (
            "--fast is the end of the whole demo: leave it out with --recommenders, which goes "
            "on until it is stopped"
        )
        raise typer.BadParameter(msg)
    raise typer.Exit(
        run_recommenders(
            parse_address(recommenders, "--recommenders"), directory=directory, console=Console()
        )
    )


def healthcheck(
    address: Annotated[
        str, typer.Argument(metavar="[HOST:PORT]", help="Where the daemon listens.")
    ] = "127.0.0.1:29108",
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether the database answers, too.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait, in all.")
    ] = 5.0,
    cert: Annotated[
        Path | None,
        typer.Option("--cert", help="Certificate to show, where every client needs one."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Its key, where that is in a file of its own.")
    ] = None,
) -> None:
    """Ask a daemon whether it is well: exit 0, else 1.

    With TLS or without, whichever it takes. No password is needed. Its certificate is not verified:
    the answer is no secret."""
    from monitor.cli.health_probe import probe, tls_context

    if key is not None and cert is None:
        raise typer.BadParameter("--key needs --cert")
    tls = tls_context(cert, key)
    host, port = parse_address(address, "HOST:PORT")
    is_well, answer = probe(
        _EVERYWHERE.get(host, host), port, "ready" if ready else "healthy", tls, timeout_s
    )
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)
