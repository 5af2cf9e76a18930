"""The command `healthcheck` against real servers: plain, encrypted, with passwords and with clients' certificates."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forking import Done, rankwatch
from servers.certificates import Authority, Pair, authority, client_pair, server_pair  # noqa: F401 - fixtures
from web.conftest import Health, health  # noqa: F401 - a fixture
from web.sites import serving

# ruff: noqa: F811 - fixtures are imported


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("empty")  # there is no configuration
    return lambda port, *more: rankwatch("healthcheck", f"127.0.0.1:{port}", *more, cwd=place)


@contextmanager
def silent() -> Iterator[int]:
    """The port of one who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


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
    ask: Any, health: Health, authority: Authority, server_pair: Pair, client_pair: Pair
) -> None:
    files = {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key), "client_ca_file": str(authority.cert)}
    with serving(health, tls_server_config={**files, "client_auth_type": "RequireAndVerifyClientCert"}) as site:
        assert ask(site.port).returncode == 1
        assert told(ask(site.port, "--cert", str(client_pair.cert), "--key", str(client_pair.key))) == (0, "healthy")


def test_who_does_not_answer_is_not_well(ask: Any) -> None:
    with silent() as port:
        code, text = told(ask(port, "--timeout", "0.2"))
    assert (code, text) == (1, f"no answer from 127.0.0.1:{port}: timed out")
    code, text = told(ask(port))
    assert code == 1
    assert text.endswith("Connection refused")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["9108"], "'9108' is no host:port, such as 127.0.0.1:9108"),
        (["127.0.0.1:99999"], "'127.0.0.1:99999' is no host:port"),
        (["--key", "x.key"], "--key needs --cert"),
        (["--cert", "x.crt"], "x.crt: No such file or directory"),
        (["--timeout", "0"], "greater than or equal to 0.1"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = rankwatch("healthcheck", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.replace("│", " ").split())
