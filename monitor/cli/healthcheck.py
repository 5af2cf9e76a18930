"""The command `healthcheck`: is the daemon on this host well? For container engines and probes that can only run a command."""

from __future__ import annotations

import http.client
import re
import ssl
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from threading import Thread
from typing import Annotated

import typer

from monitor.cli.parameters import DEFAULT_CONFIG, Config
from monitor.errors import ConfigError
from monitor.redaction import escape_controls

_READ_BYTES = 1000
_CLOSED = (http.client.HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Where, for which page, how to speak TLS, and whether a certificate is shown then."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext
    shows_certificate: bool


def fetch_page(asked: PageRequest, timeout_s: float) -> tuple[int, str]:
    """Status and first text of the answer; OSError or HTTPException, to be told as it is, when there is none in that time."""
    answer: Future[tuple[int, str]] = Future()
    # Sockets' own time limits begin anew with every byte, and looking up a name has none: nobody waits for this thread.
    Thread(target=_settle, args=(answer, asked, timeout_s), daemon=True).start()
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        msg = "timed out"
        raise TimeoutError(msg) from None


def _settle(answer: Future[tuple[int, str]], asked: PageRequest, timeout_s: float) -> None:
    try:
        answer.set_result(_fetch_either(asked, timeout_s))
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        answer.set_exception(error)


def _fetch_either(asked: PageRequest, timeout_s: float) -> tuple[int, str]:
    plain = http.client.HTTPConnection(asked.host, asked.port, timeout=timeout_s)
    plain.connect()
    try:
        return _get(plain, asked.path)
    except _CLOSED as error:  # it may take TLS alone
        said_plainly = error
    encrypted = http.client.HTTPSConnection(asked.host, asked.port, timeout=timeout_s, context=asked.tls)
    try:
        encrypted.connect()
    except (ssl.SSLError, *_CLOSED) as error:
        raise (_refusal(asked, error) if _is_alert(error) else said_plainly) from None
    try:
        return _get(encrypted, asked.path)
    except (ssl.SSLError, *_CLOSED) as error:  # of TLS 1.3, where certificates are looked at once it has been agreed on
        raise _refusal(asked, error) from None


def _get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    with closing(connection):
        with suppress(BrokenPipeError, ConnectionResetError):  # what it said before it closed is there to be read
            connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_READ_BYTES).decode(errors="replace").strip()


def _is_alert(error: Exception) -> bool:
    """Whether it was said in words of TLS."""
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _refusal(asked: PageRequest, error: Exception) -> ConnectionError:
    how = error.reason if isinstance(error, ssl.SSLError) and error.reason else "no word"
    if asked.shows_certificate:
        return ConnectionError(f"it speaks TLS and ended it ({how}): does it trust the certificate given with --cert?")
    return ConnectionError(f"it speaks TLS and ended it ({how}): where it asks for clients' certificates, give one with --cert")


UNHEALTHY_EXIT = 1
DEFAULT_ADDRESS = "127.0.0.1:29108"
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
    is asked at once; reading the configuration takes seconds. Without either it is 127.0.0.1:29108.
    """
    tls = _tls(cert, key)
    if address is None and _is_there(context, config):
        address = _listens(config)
    address = address or DEFAULT_ADDRESS
    host, port = _split(address)
    word = "ready" if ready else "healthy"
    asked = PageRequest(host=host, port=port, path=f"/-/{word}", tls=tls, shows_certificate=cert is not None)
    is_well, said = _probe(asked, address, word, timeout_s)
    typer.echo(escape_controls(said), err=not is_well)
    if not is_well:
        raise typer.Exit(UNHEALTHY_EXIT)


def _probe(asked: PageRequest, address: str, word: str, timeout_s: float) -> tuple[bool, str]:
    try:
        status, said = fetch_page(asked, timeout_s)
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
    from monitor.settings import listen_address  # takes seconds

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
        _load_certificate(context, cert, key or cert)
    return context


def _load_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
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
