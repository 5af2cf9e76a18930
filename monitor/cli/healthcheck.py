"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.output import UNHEALTHY_EXIT
from monitor.cli.parameters import parse_address
from monitor.redaction import escape_controls

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one asks who listens everywhere


def healthcheck(
    address: Annotated[str, typer.Argument(metavar="[HOST:PORT]", help="Where the daemon listens.")] = "127.0.0.1:29108",
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether the database answers, too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait, in all.")] = 5.0,
    cert: Annotated[Path | None, typer.Option("--cert", help="Certificate to show, where every client needs one.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its key, where that is in a file of its own.")] = None,
) -> None:
    """Ask a daemon whether it is well: exit 0, else 1.

    With TLS or without, whichever it takes. No password is needed. Its certificate is not verified: the answer is no secret.
    """
    from monitor.cli.health_probe import probe, tls_context

    if key is not None and cert is None:
        msg = "--key needs --cert"
        raise typer.BadParameter(msg)
    tls = tls_context(cert, key)
    host, port = parse_address(address, "HOST:PORT")
    is_well, answer = probe(_EVERYWHERE.get(host, host), port, "ready" if ready else "healthy", tls, timeout_s)
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)
