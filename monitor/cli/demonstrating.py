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
    recommenders: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Only the two recommenders, served there for a rankwatch elsewhere."),
    ] = None,
) -> None:
    """Watch two live recommenders drift apart, an alert fire, and heal again."""
    from rich.console import Console

    from monitor.demo import run_demo, run_recommenders
    from monitor.service.daemon import Daemon
    from monitor.service.logs import configure

    configure("auto", "critical")
    if recommenders is None:
        raise typer.Exit(run_demo(fast=fast, directory=directory, console=Console(), daemon_factory=Daemon))
    if fast:
        msg = "--fast is the end of the whole demo: leave it out with --recommenders, which goes on until it is stopped"
        raise typer.BadParameter(msg)
    raise typer.Exit(run_recommenders(_address(recommenders), directory=directory, console=Console()))


def _address(text: str) -> tuple[str, int]:
    from monitor.settings.fields import split_address

    try:
        return split_address(text)
    except ValueError as error:
        msg = f"--recommenders {error}"
        raise typer.BadParameter(msg) from None
