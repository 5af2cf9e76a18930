"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.exit_codes import UNHEALTHY_EXIT
from monitor.cli.parameters import DEFAULT_CONFIG, Config, parse_address
from monitor.errors import ConfigError
from monitor.redaction import escape_controls

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
    host, port = _place(context, address, config)
    path = "/-/ready" if ready else "/-/healthy"
    is_well, answer = probe(
        HealthProbe(host=host, port=port, path=path, tls=tls, shows_certificate=cert is not None), timeout_s
    )
    typer.echo(escape_controls(answer), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)


def _place(context: typer.Context, address: str | None, config: Path) -> tuple[str, int]:
    """Host and port to ask: those given, else those of the configuration, else those of one without `listen`."""
    from monitor.settings.addresses import DEFAULT_LISTEN

    if address is None and _is_there(context, config):
        from monitor.settings.excerpt import listen_address

        host, port = listen_address(config)
    else:
        host, port = parse_address(address or DEFAULT_LISTEN, "HOST:PORT")
    if port == 0:
        msg = f"{address or config}: names port 0, which stands for one that nobody knows beforehand: give HOST:PORT"
        raise ConfigError(msg)
    return _EVERYWHERE.get(host, host), port


def _is_there(context: typer.Context, config: Path) -> bool:
    """Whether there is a configuration to read: one that was named must be."""
    source = context.get_parameter_source("config")
    return (source is not None and source.name != "DEFAULT") or config.exists()
