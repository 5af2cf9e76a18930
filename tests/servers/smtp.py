"""A real SMTP server that accepts mail. At any step it can answer with any code, late, in small pieces, without end, or not.

A client that breaks the protocol fails the test.
"""

import base64
import re
import socketserver
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from servers import listening
from servers.certificates import self_signed
from tables import cells

LOGIN = ("rankwatch", "canary-password")
_USUAL = dict(
    cells("""
CONNECT   220 mail.test ESMTP
HELO      250 mail.test
STARTTLS  220 2.0.0 go ahead
AUTH      235 2.7.0 welcome
MAIL      250 2.1.0 ok
RCPT      250 2.1.5 ok
DATA      354 go ahead
CONTENT   250 2.0.0 queued
QUIT      221 2.0.0 bye
""")
)


@dataclass(frozen=True)
class Mail:
    sender: str
    to: tuple[str, ...]
    content: bytes
    is_secure: bool
    is_known: bool


Act = Callable[["Dialogue"], None]


@dataclass
class MailServer:
    """``answers`` by step (CONNECT, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, CONTENT, QUIT) are used up one a time."""

    port: int = 0
    offers: tuple[str, ...] = ("STARTTLS", "AUTH PLAIN", "SIZE 1000000")
    answers: dict[str, deque["str | Act"]] = field(default_factory=dict)
    by_recipient: dict[str, str] = field(default_factory=dict)
    login: tuple[str, str] = LOGIN
    mails: list[Mail] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    tls: ssl.SSLContext | None = None
    is_implicit: bool = False

    def plan(self, step, *answers):
        self.answers.setdefault(step, deque()).extend(answers)

    def next_answer(self, step):
        planned = self.answers.get(step)
        return planned.popleft() if planned else None


class Cut(Exception):  # noqa: N818 - no failure
    """The connection must be closed, or the server has stopped."""


def hang(dialogue):
    dialogue.host.stopped.wait(60)
    raise Cut


def cut(_dialogue):
    raise Cut


def trickle(dialogue):
    """Send a line byte by byte."""
    for _ in range(5000):
        dialogue.sock.sendall(b"2")
        if dialogue.host.stopped.wait(0.02):
            raise Cut


def flood(dialogue):
    """Send an answer of 50,000 lines without an end."""
    dialogue.sock.sendall(b"250-more\r\n" * 50_000)
    hang(dialogue)


def talk_nonsense(dialogue):
    dialogue.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class Dialogue(socketserver.BaseRequestHandler):
    """One connection."""

    server: "_Server"

    @property
    def host(self):
        return self.server.mail_server

    def setup(self):
        self.sock = self.request
        self.sender, self.to = "", [""][:0]
        self.is_secure = self.is_known = False

    def handle(self):
        try:
            if self.host.is_implicit:
                self._secure()
            self.file = self.sock.makefile("rb")
            self._answer("CONNECT")
            while line := self.file.readline(2000):
                self._obey(line)
        except (OSError, Cut):
            pass
        finally:
            self.sock.close()

    def _secure(self):
        assert self.host.tls is not None
        self.sock = self.host.tls.wrap_socket(self.sock, server_side=True)
        self.is_secure = True

    def _obey(self, line):
        if not line.endswith(b"\r\n") or not line.isascii():
            self.host.faults.append(f"no line: {line!r}")
        verb, _, rest = line.decode("ascii", "replace").strip().partition(" ")
        self.host.steps.append(verb.upper())
        act = getattr(self, f"do_{verb.lower()}", None)
        if act is None:
            self.host.faults.append(f"no command: {line!r}")
            raise Cut
        act(rest)

    def _answer(self, step, usual=None):
        """Send the answer, and return whether it is positive."""
        answer = self.host.next_answer(step) or usual or _USUAL[step]
        if callable(answer):
            answer(self)
            return False
        self.sock.sendall(f"{answer}\r\n".encode())
        return answer[0] in "23"

    def do_ehlo(self, name):
        if not name:
            self.host.faults.append("EHLO without a name")
        offers = [
            offer for offer in self.host.offers if not (self.is_secure and offer == "STARTTLS")
        ]
        *first, last = ["mail.test", *offers]
        self._answer("EHLO", "".join(f"250-{line}\r\n" for line in first) + f"250 {last}")

    def do_helo(self, _name):
        self._answer("HELO")

    def do_starttls(self, _rest):
        if self._answer("STARTTLS"):
            self._secure()
            self.file = self.sock.makefile("rb")

    def do_auth(self, rest):
        if not self.is_secure:
            self.host.faults.append("a password without TLS")
        mechanism, _, initial = rest.partition(" ")
        given = base64.b64decode(initial).decode().split("\0")
        if mechanism == "LOGIN":
            self.sock.sendall(b"334 UGFzc3dvcmQ6\r\n")
            given = ["", *given, base64.b64decode(self.file.readline()).decode()]
        if f"AUTH {mechanism}" not in self.host.offers or given != ["", *self.host.login]:
            self.host.faults.append(f"AUTH {mechanism} {given}")
        self.is_known = self._answer("AUTH")

    def do_mail(self, rest):
        found = re.fullmatch(r"FROM:<([^<>\s]+)>(?: .*)?", rest, re.IGNORECASE)
        if found is None or self.sender:
            self.host.faults.append(f"MAIL {rest}")
        self.sender = found[1] if found and self._answer("MAIL") else ""

    def do_rcpt(self, rest):
        found = re.fullmatch(r"TO:<([^<>\s]+)>", rest, re.IGNORECASE)
        if found is None or not self.sender:
            self.host.faults.append(f"RCPT {rest}")
            raise Cut
        if self._answer("RCPT", self.host.by_recipient.get(found[1])):
            self.to.append(found[1])

    def do_data(self, _rest):
        if not self.to:
            self.host.faults.append("DATA without a recipient")
        if not self._answer("DATA"):
            return
        lines = []
        while (line := self.file.readline()) != b".\r\n":
            if not line.endswith(b"\r\n") or len(line) > 1000 or not line.isascii():
                if line:  # the client has not ended
                    self.host.faults.append(f"no line of a mail: {line[:80]!r}")
                raise Cut
            lines.append(line.removeprefix(b"."))
        if self._answer("CONTENT"):
            self.host.mails.append(
                Mail(self.sender, tuple(self.to), b"".join(lines), self.is_secure, self.is_known)
            )

    def do_quit(self, _rest):
        self._answer("QUIT")
        raise Cut


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    mail_server: MailServer

    def handle_error(self, request, client_address):
        """An error of this server is a fault. Clients may end their connections."""
        self.mail_server.faults.append(repr(sys.exc_info()[1]))


@contextmanager
def running_mail_server(certificate):
    """The server, until the block ends. A fault of the client fails the test."""
    server = _Server(("127.0.0.1", 0), Dialogue)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.mail_server = MailServer(port=server.server_address[1], tls=context)
    with listening(server):
        try:
            yield server.mail_server
            assert server.mail_server.faults == []
        finally:
            server.mail_server.stopped.set()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Certificate of 127.0.0.1 and its key, signed by itself."""
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def mail_server(certificate):
    with running_mail_server(certificate) as server:
        yield server
