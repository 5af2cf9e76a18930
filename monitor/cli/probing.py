"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Annotated

import typer

from monitor.visible import visible

UNHEALTHY_EXIT = 1
_READ_BYTES = 1000
_OK = 200
_CLOSED = (http.client.HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


def healthcheck(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the daemon listens.")] = "127.0.0.1:9108",
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether the database answers, too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, max=60.0, help="Seconds to wait for an answer.")] = 5.0,
    cert: Annotated[Path | None, typer.Option("--cert", help="Certificate to show, where every client needs one.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its key, where that is in a file of its own.")] = None,
) -> None:
    """Ask a daemon whether it is well, with TLS or without, whichever it speaks; exit 0 when it is, 1 when not.

    No password is needed. Its certificate is not verified: nothing is told that others may not know.
    """
    host, port = _split(address)
    path = "/-/ready" if ready else "/-/healthy"
    context = _context(cert, key)
    try:
        try:
            status, said = _ask(http.client.HTTPConnection(host, port, timeout=timeout_s), path)
        except _CLOSED:  # it takes TLS alone
            status, said = _ask(http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context), path)
    except (OSError, http.client.HTTPException) as error:
        status, said = 0, f"no answer from {address}: {str(error) or type(error).__name__}"
    typer.echo(visible(said), err=status != _OK)
    if status != _OK:
        raise typer.Exit(UNHEALTHY_EXIT)


def _ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_READ_BYTES).decode(errors="replace").strip() or f"status {answer.status}"
    finally:
        connection.close()


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        msg = f"{address!r} is no host:port, such as 127.0.0.1:9108"
        raise typer.BadParameter(msg)
    return host.strip("[]") or "127.0.0.1", int(port)


def _context(cert: Path | None, key: Path | None) -> ssl.SSLContext:
    if key is not None and cert is None:
        msg = "--key needs --cert"
        raise typer.BadParameter(msg)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password="")
        except OSError as error:
            msg = f"{cert}{f' with {key}' if key else ''}: {error.strerror or error}"
            raise typer.BadParameter(msg) from None
    return context
