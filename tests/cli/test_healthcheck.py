"""The command `healthcheck` against real servers: plain, encrypted, with passwords and with clients' certificates."""

import socket

import pytest

from commands import assert_refused, rankwatch
from servers.certificates import found
from servers.webhook import answer, disconnect, send_and_end, trickle_body, trickle_headers
from web.sites import serving, tls_of


def address_of(collector):
    return collector.url.removeprefix("http://")


def ask(port, options="", host="127.0.0.1"):
    """The exit code and the output of a check of this port."""
    return ask_at(f"{host}:{port}", options)


def ask_at(address, options=""):
    done = rankwatch(f"healthcheck {address} {options}")
    return done.returncode, (done.stdout + done.stderr).strip()


def test_the_health_of_a_daemon_is_a_word_and_an_exit_code(health):
    with serving(health) as site:
        assert ask(site.port) == ask(site.port, host="0.0.0.0") == (0, "healthy")  # noqa: S104 - it is asked
        health.lacking = "no database"
        assert ask(site.port) == (0, "healthy")
        assert ask(site.port, "--ready") == (1, "not ready")
        health.sick = "stuck"
        assert ask(site.port) == (1, "not healthy")


@pytest.mark.integration
def test_encryption_is_found_out_and_no_password_needed(health, server_pair):
    with serving(health, tls_server_config=tls_of(server_pair)) as site:
        assert ask(site.port, "--ready") == (0, "ready")
        health.sick = "stuck"
        assert ask(site.port) == (1, "not healthy")


@pytest.mark.integration
def test_where_every_client_needs_a_certificate_one_can_be_shown(
    health, authority, server_pair, client_pair, tmp_path
):
    tls = tls_of(
        server_pair,
        client_ca_file=str(authority.cert),
        client_auth_type="RequireAndVerifyClientCert",
    )
    with serving(health, tls_server_config=tls) as site:
        stranger = found(tmp_path, "stranger").own
        for options in ("", f"--cert {stranger.cert} --key {stranger.key}"):
            code, text = ask(site.port, options)
            assert (code, "give one that it trusts with --cert" in text) == (1, True)
        shown = f"--cert {client_pair.cert} --key {client_pair.key}"
        assert ask(site.port, shown) == (0, "healthy")


def test_who_does_not_answer_is_not_well():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert ask(port, "--timeout 0.2") == (
            1,
            f"no answer from 127.0.0.1:{port}: timed out. Is this the daemon's address (`listen`)?",
        )
    for host, name in (("127.0.0.1", "127.0.0.1"), ("[::]", "[::1]")):
        code, text = ask(port, host=host)
        assert code == 1
        assert text.startswith(f"no answer from {name}:{port}: ")


def of_tls(collector, sock):
    """The beginning of a record of TLS, and then drops."""
    sock.sendall(b"\x16\x03\x03\x40\x00")
    while not collector.stopped.wait(0.02):
        sock.sendall(b"\x16")


def test_nobody_who_answers_bit_by_bit_outlasts_the_time_given(collector):
    for reply in [trickle_body, trickle_headers, of_tls]:
        collector.default = reply
        address = address_of(collector)
        assert ask_at(address, "--timeout 0.3") == (
            1,
            f"no answer from {address}: timed out. Is this the daemon's address (`listen`)?",
        )


def test_only_the_word_of_a_daemon_counts(collector):
    for body, status in (("It works!", 200), ("ready\n", 200), ("healthy" * 1000, 200), ("x", 404)):
        collector.default = answer(status, body=body.encode())
        address = address_of(collector)
        code, text = ask_at(address)
        assert code == 1
        assert text.split(" (")[0] == f"another program answers at {address}, not rankwatch"


def test_of_one_who_closes_it_is_said_what_was_seen_without_tls(collector):
    for collector.default, said in (
        (
            disconnect,
            "no answer from {}: the server closed the connection. Is this the daemon's address (`listen`)?",
        ),
        (send_and_end(b"SSH-2.0-OpenSSH_9.2"), "another program answers at {}, not rankwatch"),
    ):
        address = address_of(collector)
        assert ask_at(address) == (1, said.format(address))


def test_what_cannot_be_asked_is_wrong_usage():
    assert_refused("""
        healthcheck a..b:80 | 2 | HOST:PORT must be host:port
        healthcheck h:00099999 | 2 | HOST:PORT must be host:port
        healthcheck [::1:80 | 2 | HOST:PORT must be host:port
        healthcheck ::1]:80 | 2 | HOST:PORT must be host:port
        healthcheck [localhost]:80 | 2 | HOST:PORT must be host:port
        healthcheck 29108 | 2 | HOST:PORT must be host:port, such as 127.0.0.1:29108
        healthcheck --key x.key | 2 | --key needs the certificate that it belongs to: give --cert too
        healthcheck --cert x.crt | 2 | x.crt is not a file
        healthcheck --timeout 0 | 2 | greater than or equal to 0.1
    """)
