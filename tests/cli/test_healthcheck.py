"""The command `healthcheck` against real servers: plain, encrypted, with passwords and with clients' certificates."""

import os
import socket
import socketserver
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from commands import rankwatch
from forking import Done
from servers import listening, require
from servers.certificates import Authority, Pair, found
from web.conftest import Health
from web.sites import serving


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("empty")  # there is no configuration
    return lambda port, *more: rankwatch("healthcheck", f"127.0.0.1:{port}", *more, cwd=place)


@contextmanager
def silent() -> Iterator[int]:
    """The port of one who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        yield mute.getsockname()[1]


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of one who hands every connection to this function, and then closes it."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                answer(self.request)

    with listening(server := socketserver.TCPServer(("127.0.0.1", 0), Answer)):
        yield int(server.server_address[1])


def saying(text: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(text)

    return answer


def page(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def endlessly(piece: bytes, first: bytes = b"") -> Callable[[socket.socket], None]:
    """Until the other side has gone."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(piece)
            time.sleep(0.02)

    return answer


def told(done: Done) -> tuple[int, str]:
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_daemon_that_is_well_or_not_is_told_by_a_word_and_the_exit_code(ask: Any, health: Health) -> None:
    with serving(health) as site:
        assert told(ask(site.port)) == (0, "healthy")
        health.lacking = "no database"
        assert told(ask(site.port)) == (0, "healthy")
        assert told(ask(site.port, "--ready")) == (1, "not ready")
        health.sick = "stuck"
        assert told(ask(site.port)) == (1, "not healthy")


def test_encryption_is_found_out_and_no_password_needed(ask: Any, health: Health, server_pair: Pair) -> None:
    files = {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key)}
    with serving(health, tls_server_config=files) as site:
        assert told(ask(site.port, "--ready")) == (0, "ready")
        health.sick = "stuck"
        assert told(ask(site.port)) == (1, "not healthy")


def test_where_every_client_needs_a_certificate_one_can_be_shown(
    ask: Any, health: Health, authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    files = {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key), "client_ca_file": str(authority.cert)}
    with serving(health, tls_server_config={**files, "client_auth_type": "RequireAndVerifyClientCert"}) as site:
        code, text = told(ask(site.port))
        assert (code, "give one that it trusts with --cert" in text) == (1, True)
        stranger = found(tmp_path, "stranger").own
        code, text = told(ask(site.port, "--cert", str(stranger.cert), "--key", str(stranger.key)))
        assert (code, "give one that it trusts with --cert" in text) == (1, True)
        assert told(ask(site.port, "--cert", str(client_pair.cert), "--key", str(client_pair.key))) == (0, "healthy")


def test_who_does_not_answer_is_not_well(ask: Any) -> None:
    with silent() as port:
        code, text = told(ask(port, "--timeout", "0.2"))
    assert (code, text) == (1, f"no answer from 127.0.0.1:{port}: timed out")
    code, text = told(ask(port))
    assert code == 1
    assert text.endswith("Connection refused")


@pytest.mark.parametrize(
    ("piece", "first"),
    [
        (b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"),
        (b"x", b"HTTP/1.1 200 OK\r\nX-Long: "),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b""),
        (b"\x16", b"\x16\x03\x03\x40\x00"),  # of a record of TLS
    ],
)
def test_nobody_who_answers_bit_by_bit_outlasts_the_time_given(ask: Any, piece: bytes, first: bytes) -> None:
    with answering(endlessly(piece, first)) as port:
        assert told(ask(port, "--timeout", "0.3")) == (1, f"no answer from 127.0.0.1:{port}: timed out")


@pytest.mark.parametrize(
    "answer", [page("It works!"), page("ready\n"), page("healthy" * 1000), page("not found", "404 Not Found")]
)
def test_only_the_word_of_a_daemon_counts(ask: Any, answer: bytes) -> None:
    with answering(saying(answer)) as port:
        code, text = told(ask(port))
    assert (code, text.split(" (")[0]) == (1, f"something else than rankwatch answers at 127.0.0.1:{port}")


def test_of_one_who_closes_it_is_said_what_was_seen_without_tls(ask: Any) -> None:
    for answer in (saying(b""), lambda connection: connection.close(), saying(b"SSH-2.0-OpenSSH_9.2\r\n")):
        with answering(answer) as port:
            code, text = told(ask(port))
        assert code == 1
        assert text.startswith(f"no answer from 127.0.0.1:{port}: ")
        assert "SSL" not in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a..b:80"], "HOST:PORT must be host:port"),
        (["29108"], "HOST:PORT must be host:port, such as 127.0.0.1:29108"),
        (["--key", "x.key"], "--key needs --cert"),
        (["--cert", "x.crt"], "x.crt: is no file"),
        (["--timeout", "0"], "greater than or equal to 0.1"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = rankwatch("healthcheck", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.replace("│", " ").split())


def test_a_certificate_or_key_that_cannot_be_shown_is_told_in_words(
    tmp_path: Path, client_pair: Pair, server_pair: Pair
) -> None:
    os.mkfifo(tmp_path / "fifo")
    locking = ("pkey", "-in", str(client_pair.key), "-aes256", "-passout", "pass:word", "-out", str(tmp_path / "locked.key"))
    subprocess.run([require("openssl"), *locking], check=True)
    (tmp_path / "empty").touch()

    for arguments, reason in (
        (("fifo",), "fifo: is no file"),
        ((str(client_pair.cert), "--key", "fifo"), "fifo: is no file"),
        (
            (str(client_pair.cert), "--key", "locked.key"),
            "and locked.key must be a certificate and its key in PEM, the key without",
        ),
        ((str(client_pair.cert), "--key", str(server_pair.key)), "must be a certificate and its key in PEM"),
        (("empty",), "empty and empty must be a certificate and its key in PEM"),
    ):
        done = rankwatch("healthcheck", "--cert", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert reason in " ".join(done.stderr.replace("│", " ").split())


def test_who_listens_everywhere_is_asked_at_the_loopback(health: Health, tmp_path: Path) -> None:
    with serving(health) as site:
        assert told(rankwatch("healthcheck", f"0.0.0.0:{site.port}", cwd=tmp_path)) == (0, "healthy")
    assert rankwatch("healthcheck", "[::]:1", cwd=tmp_path).stderr.startswith("no answer from [::1]:1: ")
