"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.exit_codes import UNHEALTHY_EXIT
from monitor.cli.parameters import DEFAULT_CONFIG, Config
from monitor.errors import ConfigError
from monitor.redaction import escape_controls

DEFAULT_ADDRESS = "127.0.0.1:29108"
"""Where a daemon listens that has no `listen` in its configuration."""
_LONGEST_PORT = 5
_MOST_SHOWN = 80
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one asks who listens everywhere


def healthcheck(  # noqa: PLR0913 - the command's options
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Argument(metavar="[HOST:PORT]", help="Where the daemon listens; default: the configuration's `listen`."),
    ] = None,
    *,
    config: Config = DEFAULT_CONFIG,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether the database answers, too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait, in all.")] = 5.0,
    cert: Annotated[Path | None, typer.Option("--cert", help="Certificate to show, where every client needs one.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its key, where that is in a file of its own.")] = None,
) -> None:
    """Ask a daemon whether it is well: exit 0, else 1.

    With TLS or without, whichever it takes. No password is needed. Its certificate is not verified: the answer is no secret. Of
    the configuration only `listen` is read, and not even that where an address is given. Without either it is 127.0.0.1:29108.
    """
    from monitor.cli.health_probe import HealthProbe, probe, tls_context

    if key is not None and cert is None:
        msg = "--key needs --cert"
        raise typer.BadParameter(msg)
    tls = tls_context(cert, key)
    if address is None:
        address = _configured_address(config) if _is_there(context, config) else DEFAULT_ADDRESS
    host, port = _split(address)
    path = "/-/ready" if ready else "/-/healthy"
    is_well, answer = probe(
        HealthProbe(host=host, port=port, path=path, tls=tls, shows_certificate=cert is not None), address, timeout_s
    )
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)


def _is_there(context: typer.Context, config: Path) -> bool:
    """Whether there is a configuration to read: one that was named must be."""
    source = context.get_parameter_source("config")
    return (source is not None and source.name != "DEFAULT") or config.exists()


def _configured_address(config: Path) -> str:
    from monitor.settings import listen_address

    host, port = listen_address(config)
    host = _EVERYWHERE.get(host, host)
    if port == 0:
        msg = f"{config}: listen names a port that is known to nobody beforehand: give HOST:PORT"
        raise ConfigError(msg)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdecimal() and len(port) <= _LONGEST_PORT and 0 < int(port) < 1 << 16
    if not (colon and is_port and _is_host(bare)) or (":" in bare and bare == host):
        shown = address if len(address) <= _MOST_SHOWN else f"{address[:_MOST_SHOWN]}..."
        msg = f"{shown!r} is no host:port, such as {DEFAULT_ADDRESS} or [::1]:29108"
        raise typer.BadParameter(msg)
    return bare or "127.0.0.1", int(port)


def _is_host(text: str) -> bool:
    """Whether it can be looked up: no part of the name is empty or too long."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return not re.search(r"[\x00-\x20\x7f/@\[\]]", text)
