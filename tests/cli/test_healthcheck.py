"""The command `healthcheck` against real servers: plain, encrypted, with passwords and with clients' certificates."""

import os
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from commands import assert_refused, rankwatch
from servers import listening, require
from servers.certificates import found
from web.sites import serving


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no configuration."""
    monkeypatch.chdir(tmp_path)


def ask(port: int, options: str = "", host: str = "127.0.0.1") -> tuple[int, str]:
    """Exit code, and what was printed."""
    done = rankwatch(f"healthcheck {host}:{port} {options}")
    return done.returncode, (done.stdout + done.stderr).strip()


@contextmanager
def answering(first: bytes | None, piece: bytes = b"") -> Iterator[int]:
    """The port of one who says this to every connection, and this piece again and again until the block ends.

    None closes the connection at once.
    """
    over = threading.Event()

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if first is None:
                return
            with suppress(OSError):
                if not piece:
                    self.request.recv(1000)
                self.request.sendall(first)
                while piece and not over.wait(0.02):
                    self.request.sendall(piece)
                self.request.shutdown(
                    socket.SHUT_WR
                )  # what was not read would reset the connection when it is closed
                self.request.recv(1000)

    with listening(server := socketserver.TCPServer(("127.0.0.1", 0), Answer)):
        yield int(server.server_address[1])
        over.set()


def page(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_daemon_that_is_well_or_not_is_told_by_a_word_and_the_exit_code(health):
    with serving(health) as site:
        assert ask(site.port) == ask(site.port, host="0.0.0.0") == (0, "healthy")  # noqa: S104 - it is asked
        health.lacking = "no database"
        assert ask(site.port) == (0, "healthy")
        assert ask(site.port, "--ready") == (1, "not ready")
        health.sick = "stuck"
        assert ask(site.port) == (1, "not healthy")


@pytest.mark.integration
def test_encryption_is_found_out_and_no_password_needed(health, server_pair):
    files = {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key)}
    with serving(health, tls_server_config=files) as site:
        assert ask(site.port, "--ready") == (0, "ready")
        health.sick = "stuck"
        assert ask(site.port) == (1, "not healthy")


@pytest.mark.integration
def test_where_every_client_needs_a_certificate_one_can_be_shown(
    health, authority, server_pair, client_pair, tmp_path
):
    files = {
        "cert_file": str(server_pair.cert),
        "key_file": str(server_pair.key),
        "client_ca_file": str(authority.cert),
    }
    with serving(
        health, tls_server_config={**files, "client_auth_type": "RequireAndVerifyClientCert"}
    ) as site:
        stranger = found(tmp_path, "stranger").own
        for options in ("", f"--cert {stranger.cert} --key {stranger.key}"):
            code, text = ask(site.port, options)
            assert (code, "name one with --cert that it trusts" in text) == (1, True)
        assert ask(site.port, f"--cert {client_pair.cert} --key {client_pair.key}") == (
            0,
            "healthy",
        )


def test_who_does_not_answer_is_not_well():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert ask(port, "--timeout 0.2") == (1, f"no answer from 127.0.0.1:{port}: timed out")
    for host, name in (("127.0.0.1", "127.0.0.1"), ("[::]", "[::1]")):
        code, text = ask(port, host=host)
        assert code == 1
        assert text.startswith(f"no answer from {name}:{port}: ")


@pytest.mark.parametrize(
    ("piece", "first"),
    [
        (b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"),
        (b"x", b"HTTP/1.1 200 OK\r\nX-Long: "),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b""),
        (b"\x16", b"\x16\x03\x03\x40\x00"),  # of a record of TLS
    ],
)
def test_nobody_who_answers_bit_by_bit_outlasts_the_time_given(piece, first):
    with answering(first, piece) as port:
        assert ask(port, "--timeout 0.3") == (1, f"no answer from 127.0.0.1:{port}: timed out")


def test_only_the_word_of_a_daemon_counts():
    for body, status in (
        ("It works!", "200 OK"),
        ("ready\n", "200 OK"),
        ("healthy" * 1000, "200 OK"),
        ("x", "404 Not Found"),
    ):
        with answering(page(body, status)) as port:
            code, text = ask(port)
        assert (code, text.split(" (")[0]) == (
            1,
            f"another program answers at 127.0.0.1:{port}, not rankwatch",
        )


def test_of_one_who_closes_it_is_said_what_was_seen_without_tls():
    for said in (b"", None, b"SSH-2.0-OpenSSH_9.2\r\n"):
        with answering(said) as port:
            code, text = ask(port)
        assert code == 1
        assert text.startswith(f"no answer from 127.0.0.1:{port}: ")
        assert "SSL" not in text


def test_what_cannot_be_asked_is_wrong_usage():
    assert_refused("""
        healthcheck a..b:80 | 2 | HOST:PORT must be host:port
        healthcheck 29108 | 2 | HOST:PORT must be host:port, such as 127.0.0.1:29108
        healthcheck --key x.key | 2 | --key is the key of a certificate: give --cert too
        healthcheck --cert x.crt | 2 | x.crt is not a file
        healthcheck --timeout 0 | 2 | greater than or equal to 0.1
    """)


@pytest.mark.integration
def test_a_certificate_or_key_that_cannot_be_shown_is_told_in_words(
    tmp_path, client_pair, server_pair
):
    os.mkfifo(tmp_path / "fifo")
    locking = f"pkey -in {client_pair.key} -aes256 -passout pass:word -out locked.key"
    subprocess.run([require("openssl"), *locking.split()], cwd=tmp_path, check=True)
    (tmp_path / "empty").touch()

    certificate = f"healthcheck --cert {client_pair.cert}"
    assert_refused(f"""
        healthcheck --cert fifo | 2 | fifo is not a file
        {certificate} --key fifo | 2 | fifo is not a file
        {certificate} --key locked.key | 2 | and locked.key must be a certificate and its key in PEM; the key has no password
        {certificate} --key {server_pair.key} | 2 | must be a certificate and its key in PEM
        healthcheck --cert empty | 2 | empty and empty must be a certificate and its key in PEM
    """)
