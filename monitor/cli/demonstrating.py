"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="End by itself; exit code 0 when the whole story happened.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to put configuration and database; default ./rankwatch-demo.")
    ] = None,
) -> None:
    """Watch two live recommenders drift apart, an alert fire, and heal again."""
    from rich.console import Console

    from monitor.demo import run_demo
    from monitor.service.daemon import Daemon
    from monitor.service.logs import configure

    configure("auto", "critical")
    raise typer.Exit(run_demo(fast=fast, directory=directory, console=Console(), daemon_factory=Daemon))
