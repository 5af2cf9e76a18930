"""Asks a daemon's page, without TLS or with it, and has its answer in a time that whoever answers cannot stretch."""

from __future__ import annotations

import http.client
import ssl
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Thread

_READ_BYTES = 1000
_CLOSED = (http.client.HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where, for which page, how to speak TLS, and whether a certificate is shown then."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext
    shows_certificate: bool


def ask(asked: Asked, timeout_s: float) -> tuple[int, str]:
    """Status and first text of the answer; OSError or HTTPException, to be told as it is, when there is none in that time."""
    answer: Future[tuple[int, str]] = Future()
    # Sockets' own time limits begin anew with every byte, and looking up a name has none: nobody waits for this thread.
    Thread(target=_settle, args=(answer, asked, timeout_s), daemon=True).start()
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        msg = "timed out"
        raise TimeoutError(msg) from None


def _settle(answer: Future[tuple[int, str]], asked: Asked, timeout_s: float) -> None:
    try:
        answer.set_result(_ask_either(asked, timeout_s))
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        answer.set_exception(error)


def _ask_either(asked: Asked, timeout_s: float) -> tuple[int, str]:
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


def _refusal(asked: Asked, error: Exception) -> ConnectionError:
    how = error.reason if isinstance(error, ssl.SSLError) and error.reason else "no word"
    if asked.shows_certificate:
        return ConnectionError(f"it speaks TLS and ended it ({how}): does it trust the certificate given with --cert?")
    return ConnectionError(f"it speaks TLS and ended it ({how}): where it asks for clients' certificates, give one with --cert")
