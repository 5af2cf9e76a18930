"""Asks a daemon once whether it is healthy, with or without TLS.

The time limit covers the complete answer. So the command ends in time even if the answer arrives
slowly.
"""

import ssl
from contextlib import closing, suppress
from errno import ECONNRESET
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from pathlib import Path

import typer

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.foreign_errors import system_cause

_READ_BYTES = 1000
_OK = 200
_UNAVAILABLE = 503
_CLOSED = (HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


def probe_daemon(
    host: str,
    port: int,
    word: str,
    tls: ssl.SSLContext,
    timeout_s: float,
) -> tuple[bool, str]:
    """Return whether the daemon is in this state, and a text. ``word`` is ``healthy`` or ``ready``.

    The text is the answer of the daemon. If there is no answer from rankwatch, the text says why.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    plain = HTTPConnection(host, port, timeout=timeout_s)
    encrypted = HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    try:
        # Use a thread with a deadline. The time limit of a socket is not enough, because it begins
        # again with every byte, and does not cover the lookup of the name.
        call = BackgroundCall(partial(_fetch, plain, encrypted, f"/-/{word}"), name="healthcheck")
        status, answer = call.wait(Deadline.after(timeout_s))
    except (OverdueError, TimeoutError):
        why = "timed out"
    except _RefusedError as error:
        why = str(error)
    except OSError as error:
        cause = system_cause(error)
        why = cause.what if cause else type(error).__name__
    except HTTPException:
        return False, f"another program answers at {address}, not rankwatch"
    else:
        if (status, answer) == (_OK, word):
            return True, answer
        if status == _UNAVAILABLE and answer.partition(":")[0] == f"not {word}":
            return False, answer
        return False, f"another program answers at {address}, not rankwatch (status {status})"
    return False, f"no answer from {address}: {why}. Is this the daemon's address (`listen`)?"


def _fetch(
    plain: HTTPConnection,
    encrypted: HTTPSConnection,
    path: str,
) -> tuple[int, str]:
    """Return status and text of the answer. If the server does not speak HTTP, try TLS.

    If the server does not speak TLS either, raise the error of the plain connection.
    """
    plain.connect()
    try:
        return _request_text(plain, path)
    except RemoteDisconnected:
        # This error has no number, by which `system_cause` would find the cause.
        plain_error: Exception = ConnectionResetError(ECONNRESET, "no answer")
    except _CLOSED as error:
        plain_error = error
    if not _connect_with_tls(encrypted):
        raise plain_error
    try:
        return _request_text(encrypted, path)
    except (ssl.SSLError, *_CLOSED) as error:
        # In TLS 1.3 the server may refuse the client's certificate after the handshake.
        raise _refusal(error) from None


def _connect_with_tls(encrypted: HTTPSConnection) -> bool:
    """Return whether the server speaks TLS. Raises _RefusedError if it refuses this client."""
    try:
        encrypted.connect()
    except (ssl.SSLError, *_CLOSED) as error:
        if "ALERT" in _tls_reason(error):
            raise _refusal(error) from None
        return False
    return True


def _request_text(connection: HTTPConnection, path: str) -> tuple[int, str]:
    with closing(connection):
        # Continue, because the server may have answered before it closed the connection.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_READ_BYTES).decode(errors="replace").strip()


class _RefusedError(ConnectionError):
    """The daemon ended the TLS connection. The text of the error is not from the daemon."""


def _refusal(error: Exception) -> _RefusedError:
    return _RefusedError(
        f"it ended the TLS connection ({_tls_reason(error) or 'no reason'}): if it requires a "
        "client certificate, give one that it trusts with --cert"
    )


def _tls_reason(error: Exception) -> str:
    return getattr(error, "reason", None) or ""


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Make a TLS context that presents the client's certificate, if there is one.

    The context does not verify the server, because the answer is not secret.

    Raises BadParameter if the certificate or the key cannot be used.
    """
    context = ssl.create_default_context()
    # A probe on the same host uses an IP address, which certificates usually do not contain.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if cert is None:
        return context
    key = key or cert
    for file in (cert, key):
        if not file.is_file():  # reading from a pipe would block
            raise typer.BadParameter(f"{file} is not a file: name a file in PEM")
    try:
        # With an empty password OpenSSL asks for none on the terminal.
        context.load_cert_chain(cert, key, password="")
    except OSError:  # the base class of ssl.SSLError
        raise typer.BadParameter(
            f"{cert} and {key} must be a certificate and its key in PEM, and the key must have "
            "no password"
        ) from None
    return context
