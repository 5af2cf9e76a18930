"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

import http.client
import re
import ssl
from pathlib import Path
from stat import S_ISREG
from typing import Annotated

import typer

from monitor.cli.asking import Asked, ask
from monitor.cli.parameters import DEFAULT_CONFIG, Config
from monitor.errors import ConfigError
from monitor.visible import visible

UNHEALTHY_EXIT = 1
DEFAULT_ADDRESS = "127.0.0.1:9108"
"""Where a daemon listens whose configuration does not say so."""
_OK = 200
_UNAVAILABLE = 503
_LONGEST_PORT = 5
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one asks who listens everywhere


def healthcheck(  # noqa: PLR0913 - the command's options
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Argument(metavar="[HOST:PORT]", help="Where the daemon listens; default: as the configuration's `listen` says."),
    ] = None,
    *,
    config: Config = DEFAULT_CONFIG,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether the database answers, too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait, in all.")] = 5.0,
    cert: Annotated[Path | None, typer.Option("--cert", help="Certificate to show, where every client needs one.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its key, where that is in a file of its own.")] = None,
) -> None:
    """Ask a daemon whether it is well, with TLS or without, whichever it speaks; exit 0 when it is, 1 when not.

    No password is needed. Its certificate is not verified: nothing is told that others may not know. An address that is given
    is asked at once; reading the configuration takes seconds. Without either it is 127.0.0.1:9108.
    """
    tls = _tls(cert, key)
    if address is None and _is_there(context, config):
        address = _listens(config)
    address = address or DEFAULT_ADDRESS
    host, port = _split(address)
    word = "ready" if ready else "healthy"
    asked = Asked(host=host, port=port, path=f"/-/{word}", tls=tls, shows_certificate=cert is not None)
    is_well, said = _ask(asked, address, word, timeout_s)
    typer.echo(visible(said), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)


def _ask(asked: Asked, address: str, word: str, timeout_s: float) -> tuple[bool, str]:
    try:
        status, said = ask(asked, timeout_s)
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer from {address}: {str(error) or type(error).__name__}"
    if (status, said) == (_OK, word):
        return True, said
    if status == _UNAVAILABLE and said.partition(":")[0] == f"not {word}":
        return False, said
    return False, f"something else than rankwatch answers at {address} (status {status})"


def _is_there(context: typer.Context, config: Path) -> bool:
    """Whether there is a configuration to ask: one that was named must be."""
    source = context.get_parameter_source("config")
    return (source is not None and source.name != "DEFAULT") or config.exists()


def _listens(config: Path) -> str:
    from monitor.settings import listens_at  # takes seconds

    host, port = listens_at(config)
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
        msg = f"{shown!r} is no host:port, such as {DEFAULT_ADDRESS} or [::1]:9108"
        raise typer.BadParameter(msg)
    return bare or "127.0.0.1", int(port)


_MOST_SHOWN = 80


def _is_host(text: str) -> bool:
    """Whether it can be looked up: no part of the name is empty or too long."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return not re.search(r"[\x00-\x20\x7f/@\[\]]", text)


def _tls(cert: Path | None, key: Path | None) -> ssl.SSLContext:
    if key is not None and cert is None:
        msg = "--key needs --cert"
        raise typer.BadParameter(msg)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is not None:
        _show(context, cert, key or cert)
    return context


def _show(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    is_locked = False

    def refuse() -> str:
        nonlocal is_locked
        is_locked = True
        return ""

    try:
        for file in (cert, key):
            _require_regular(file)  # a pipe would be waited for
        context.load_cert_chain(cert, key, password=refuse)
    except ssl.SSLError as error:
        if is_locked:
            msg = f"{key}: is encrypted: give a key without a password"
        elif error.reason == "KEY_VALUES_MISMATCH":
            msg = f"{key}: is not the key of this certificate, {cert}"
        else:
            msg = f"{cert}: holds no certificate with its key in PEM" if key == cert else f"{cert} or {key}: is not in PEM"
        raise typer.BadParameter(msg) from None
    except OSError as error:
        msg = f"{error.filename or cert}: {error.strerror}"
        raise typer.BadParameter(msg) from None


def _require_regular(file: Path) -> None:
    if not S_ISREG(file.stat().st_mode):
        msg = f"{file}: is no regular file"
        raise typer.BadParameter(msg)
