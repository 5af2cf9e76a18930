"""One GET of a daemon's health page, without TLS or with it, and its answer within a time that the server cannot stretch."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_ISREG

import typer

from monitor.deadline import BackgroundCall, Deadline, OverdueError

_READ_BYTES = 1000
_OK = 200
_UNAVAILABLE = 503
_CLOSED = (http.client.HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProbe:
    """Where to ask, for which page, with which TLS, and whether a certificate is shown then."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext
    shows_certificate: bool


def probe(wanted: HealthProbe, timeout_s: float) -> tuple[bool, str]:
    """Whether the daemon is well, and its answer; or why there is none that rankwatch gives."""
    word = wanted.path.rpartition("/")[2]
    address = f"[{wanted.host}]:{wanted.port}" if ":" in wanted.host else f"{wanted.host}:{wanted.port}"
    try:
        # Sockets' own time limits begin anew with every byte, and looking up a name has none.
        call = BackgroundCall(partial(_fetch, wanted, timeout_s), name="healthcheck")
        status, answer = call.wait(Deadline.after(timeout_s))
    except OverdueError:
        return False, f"no answer from {address}: timed out"
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer from {address}: {str(error) or type(error).__name__}"
    if (status, answer) == (_OK, word):
        return True, answer
    if status == _UNAVAILABLE and answer.partition(":")[0] == f"not {word}":
        return False, answer
    return False, f"something else than rankwatch answers at {address} (status {status})"


def _fetch(wanted: HealthProbe, timeout_s: float) -> tuple[int, str]:
    """Status and first text of the answer, without TLS and else with it."""
    plain = http.client.HTTPConnection(wanted.host, wanted.port, timeout=timeout_s)
    plain.connect()
    try:
        return _get(plain, wanted.path)
    except _CLOSED as error:  # it may take TLS alone
        plain_error = error
    encrypted = http.client.HTTPSConnection(wanted.host, wanted.port, timeout=timeout_s, context=wanted.tls)
    try:
        encrypted.connect()
    except (ssl.SSLError, *_CLOSED) as error:
        is_alert = isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")
        raise (_refusal(wanted, error) if is_alert else plain_error) from None
    try:
        return _get(encrypted, wanted.path)
    except (ssl.SSLError, *_CLOSED) as error:  # of TLS 1.3, where certificates are looked at once it has been agreed on
        raise _refusal(wanted, error) from None


def _get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    with closing(connection):
        with suppress(BrokenPipeError, ConnectionResetError):  # what it sent before it closed is there to be read
            connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_READ_BYTES).decode(errors="replace").strip()


def _refusal(wanted: HealthProbe, error: Exception) -> ConnectionError:
    how = error.reason if isinstance(error, ssl.SSLError) and error.reason else "no word"
    if wanted.shows_certificate:
        return ConnectionError(f"it uses TLS and ended it ({how}): does it trust the certificate given with --cert?")
    return ConnectionError(f"it uses TLS and ended it ({how}): where it asks for clients' certificates, give one with --cert")


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """TLS that verifies nothing, as the answer is no secret, and shows the certificate, if any; wrong usage where it is odd."""
    context = ssl.create_default_context()
    # A probe on the same host knows the daemon by its address; certificates name it as others reach it.
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
            if not S_ISREG(file.stat().st_mode):  # a pipe would be waited for
                msg = f"{file}: is no regular file"
                raise typer.BadParameter(msg)
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
