"""SMTP that ends in time, whatever the other side does.

The standard library's timeouts start anew with each read; here one deadline holds for the whole exchange: connecting to any of
a name's addresses, TLS, every command and every byte of every answer. Only the look-up of the name is the system resolver's
affair. At most 256 KiB of answers are read. Certificates are verified.
"""

from __future__ import annotations

import contextlib
import io
import re
import smtplib
import socket
import ssl
import time
from typing import Any

_MOST_ANSWERED = 256 * 1024
_FAREWELL_S = 1.0
_START_DATA = 354


class _Wire(io.RawIOBase):
    """Bytes of answers as they come, until the deadline or the limit."""

    def __init__(self, client: PunctualSMTP, sock: socket.socket) -> None:
        self._client, self._sock, self._budget = client, sock, _MOST_ANSWERED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        if self._budget <= 0:
            msg = "answers too large"
            raise OSError(msg)
        self._sock.settimeout(self._client.left_s())
        count = self._sock.recv_into(memoryview(buffer)[: self._budget])
        self._budget -= count
        return count


class PunctualSMTP(smtplib.SMTP):
    """A connection to one server, made when this is made. ``has_data``: content was sent, so the server may have the mail."""

    def __init__(self, host: str, port: int, *, timeout_s: float, implicit: ssl.SSLContext | None) -> None:
        self._ends_at = time.monotonic() + timeout_s
        self._implicit = implicit
        self.has_data = False
        super().__init__(host, port, local_hostname=_own_name())

    def left_s(self) -> float:
        """Seconds until the deadline; TimeoutError when it has passed."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def getreply(self) -> tuple[int, bytes]:
        """One answer."""
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(_Wire(self, self.sock))
        return super().getreply()

    def send(self, s: Any) -> None:  # noqa: ANN401 - text or bytes, as in the base
        """Send all of it."""
        if self.sock is not None:
            self.sock.settimeout(self.left_s())
        super().send(s)

    def post_data(self, content: bytes) -> tuple[int, bytes]:
        """The content of the mail, lines ended by CR LF; the answer to it, or to the announcement where that is refused."""
        code, said = self.docmd("DATA")
        if code != _START_DATA:
            return (code, said) if code >= _START_DATA else (-1, said)
        self.has_data = True
        self.send(re.sub(rb"(?m)^\.", b"..", content) + b".\r\n")
        return self.getreply()

    def leave(self) -> None:
        """Say goodbye, briefly, and close."""
        self._ends_at = min(self._ends_at, time.monotonic() + _FAREWELL_S)
        with contextlib.suppress(OSError, smtplib.SMTPException):
            self.docmd("QUIT")
        self.close()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002 - the deadline holds instead
        """Connect to the first address that answers, each with its share of the time."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for tries_left, (*_, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                sock = socket.create_connection((str(address[0]), port), self.left_s() / tries_left)
                break
            except OSError:
                if tries_left == 1:
                    raise
        sock.settimeout(self.left_s())
        if self._implicit is None:
            return sock
        try:
            return self._implicit.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise


def _own_name() -> str:
    """This machine's name for the greeting; the standard library would ask the resolver, which may take its time."""
    name = socket.gethostname()
    return name if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name) else "localhost"
