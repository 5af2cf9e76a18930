"""One GET of a daemon's health page, without TLS or with it, and its answer within a time that the server cannot stretch."""

import http.client
import ssl
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import typer

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.foreign_errors import system_cause

_READ_BYTES = 1000
_OK = 200
_UNAVAILABLE = 503
_CLOSED = (http.client.HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


def probe(
    host: str, port: int, word: str, tls: ssl.SSLContext, timeout_s: float
) -> tuple[bool, str]:
    """Whether the daemon is well (``healthy`` or ``ready``), and its answer.

    Or why there is none that rankwatch gives.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    plain = http.client.HTTPConnection(host, port, timeout=timeout_s)
    encrypted = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    try:
        # Sockets' own time limits begin anew with every byte, and looking up a name has none.
        call = BackgroundCall(partial(_fetch, plain, encrypted, f"/-/{word}"), name="healthcheck")
        status, answer = call.wait(Deadline.after(timeout_s))
    except (OverdueError, TimeoutError):
        return False, f"no answer from {address}: timed out"
    except _RefusedError as error:
        return False, f"no answer from {address}: {error}"
    except (OSError, http.client.HTTPException) as error:
        cause = system_cause(error)
        return False, f"no answer from {address}: {cause.what if cause else type(error).__name__}"
    if (status, answer) == (_OK, word):
        return True, answer
    if status == _UNAVAILABLE and answer.partition(":")[0] == f"not {word}":
        return False, answer
    return False, f"something else than rankwatch answers at {address} (status {status})"


def _fetch(
    plain: http.client.HTTPConnection, encrypted: http.client.HTTPSConnection, path: str
) -> tuple[int, str]:
    """Status and first text of the answer, without TLS and else with it."""
    plain.connect()
    try:
        return _get(plain, path)
    except _CLOSED as error:  # it may take TLS alone
        plain_error = error
    try:
        encrypted.connect()
    except (ssl.SSLError, *_CLOSED) as error:
        raise (
            _refusal(error) if "ALERT" in (getattr(error, "reason", None) or "") else plain_error
        ) from None
    try:
        return _get(encrypted, path)
    except (
        ssl.SSLError,
        *_CLOSED,
    ) as error:  # of TLS 1.3, where certificates are looked at once it has been agreed on
        raise _refusal(error) from None


def _get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    with closing(connection):
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # what it sent before it closed is there to be read
            connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_READ_BYTES).decode(errors="replace").strip()


class _RefusedError(ConnectionError):
    """The daemon ended TLS; the text is ours."""


def _refusal(error: Exception) -> _RefusedError:
    how = getattr(error, "reason", None) or "no word"
    return _RefusedError(
        (
            f"it uses TLS and ended it ({how}): where it asks for certificates, give one that it "
            "trusts with --cert"
        )
    )


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """TLS that verifies nothing, as the answer is no secret, and shows the certificate, if any.

    Wrong usage where it is odd.
    """
    context = ssl.create_default_context()
    # A probe on the same host knows the daemon by its address; certificates name it as others reach
    # it.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is None:
        return context
    key = key or cert
    for file in (cert, key):
        if not file.is_file():  # a pipe would be waited for
            raise typer.BadParameter(f"{file}: is no file")
    try:
        context.load_cert_chain(
            cert, key, password=""
        )  # without it OpenSSL would ask for one on a terminal
    except OSError:  # ssl.SSLError is one
        msg = (
            f"{cert} and {key} must be a certificate and its key in PEM, the key without a password"
        )
        raise typer.BadParameter(msg) from None
    return context
