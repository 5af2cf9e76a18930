"""Who may look at a daemon: from the file to a Prometheus that scrapes it, over reloads good and bad."""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bcrypt
import pytest
import requests
from typer.testing import CliRunner, Result

from clocks import set_clock
from forking import ended, running
from monitor.cli.main import app
from servers import require
from servers.certificates import Authority, Pair
from servers.daemon import wait_for
from servers.prometheus import running_prometheus
from service.lists_world import write_world

KIM, JOE = ("kim", "old password"), ("joe", "new password")


def users(*known: tuple[str, str]) -> dict[str, str]:
    return {name: bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode() for name, password in known}


class World:
    """A configuration, its web configuration file beside it, and a daemon's log."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.folder, self.web, self.log = folder, folder / "web.yaml", folder / "serve.log"
        for source, name in ((pair.cert, "web.crt"), (pair.key, "web.key")):
            shutil.copy(source, folder / name)
        self.config = write_world(folder, f"sqlite:///{folder}/rankwatch.db", every="1d")
        self.config.write_text(f"web_config_file: web.yaml\n{self.config.read_text()}")

    def write(self, **given: object) -> None:
        told = {"tls_server_config": {"cert_file": "web.crt", "key_file": "web.key"}, **given}
        self.web.write_text(json.dumps(told))


@pytest.fixture
def world(tmp_path: Path, server_pair: Pair) -> World:
    world = World(tmp_path, server_pair)
    world.write(basic_auth_users=users(KIM))
    return world


def test_a_scraper_with_password_and_certificate_sees_the_daemon_through_reloads_good_and_bad(
    world: World, authority: Authority, client_pair: Pair
) -> None:
    clients = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": str(authority.cert)}
    strict = {"cert_file": "web.crt", "key_file": "web.key", **clients}
    world.write(basic_auth_users=users(KIM), tls_server_config=strict)
    session = requests.Session()
    session.trust_env = False  # the authority is the one given below
    session.verify, session.cert = str(authority.cert), (str(client_pair.cert), str(client_pair.key))

    with running(["serve", "--config", str(world.config)], cwd=world.config.parent, out=world.log) as process:
        found = wait_for(
            lambda: world.log.exists() and re.search(r'"url": "(https://\S+)", .*"rankwatch started"', world.log.read_text()),
            "it",
        )
        assert found
        url = found[1]
        scrape = {
            "scheme": "https",
            "tls_config": {
                "ca_file": str(authority.cert),
                "cert_file": str(client_pair.cert),
                "key_file": str(client_pair.key),
            },
            "basic_auth": {"username": KIM[0], "password": KIM[1]},
        }

        def reload() -> None:
            assert process.pid
            told = world.log.read_text().count("reloaded")
            os.kill(process.pid, signal.SIGHUP)
            wait_for(lambda: world.log.read_text().count("reloaded") > told, "the reload")

        def status(user: tuple[str, str] | None) -> int:
            return session.get(f"{url}/metrics", auth=user, timeout=10).status_code

        with running_prometheus(url.removeprefix("https://"), scrape=scrape) as prometheus:
            up = [sample["value"][1] for sample in prometheus.await_query("rankwatch_build_info and on() up == 1")]
            assert up == ["1"]
            assert (status(KIM), status(JOE), status(None)) == (200, 401, 401)

            world.web.write_text("basic_auth_users: {kim: hunter2}\n")
            reload()
            prometheus.await_query("rankwatch_config_last_reload_successful == 0")
            assert (status(KIM), status(JOE)) == (200, 401)

            (world.folder / "web.key").write_text("no key\n")
            world.write(basic_auth_users=users(JOE), tls_server_config=strict)
            reload()
            assert (status(KIM), status(JOE)) == (200, 401)

            (shown,) = prometheus.await_query("rankwatch_certificate_expiry_timestamp_seconds")
            assert float(shown["value"][1]) == ssl.cert_time_to_seconds(end_of(world.folder / "web.crt"))

            pair = authority.issue("renewed")
            for source, name in ((pair.cert, "web.crt"), (pair.key, "web.key")):
                shutil.copy(source, world.folder / name)
            world.write(basic_auth_users=users(KIM, JOE), tls_server_config=strict)
            reload()
            prometheus.await_query("rankwatch_config_last_reload_successful == 1")
            assert (status(KIM), status(JOE), status(None)) == (200, 200, 401)
        process.terminate()
        assert ended(process, 30) == 0
    log = world.log.read_text()
    assert "basic_auth_users.kim: must be a bcrypt hash" in log
    assert "cannot be used together" in log
    body = (world.folder / "web.key").read_text().splitlines()[1]
    assert not [secret for secret in ("hunter2", KIM[1], JOE[1], "$2b$04$", body) if secret in log]


def end_of(certificate: Path) -> str:
    told = subprocess.run(
        [require("openssl"), "x509", "-noout", "-enddate", "-in", certificate], capture_output=True, check=True
    )
    return told.stdout.decode().strip().removeprefix("notAfter=")


def test_check_tells_of_certificates_that_end_soon_and_refuses_those_that_have_ended(
    world: World, client_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(end_of(world.folder / "web.crt")), UTC)

    def check(days_left: int) -> Result:
        set_clock(monkeypatch, end - timedelta(days=days_left))
        return CliRunner().invoke(app, ["check", "--config", str(world.config)])

    assert "cert_file" not in check(15).output
    soon = check(13)
    assert soon.exit_code == 0
    assert re.search(
        rf"cert_file {world.folder}/web\.crt: its certificate, or one that signed it, ends 20\S+: renew it", soon.output
    )
    source = f"http: {{url: 'http://127.0.0.1:9/{{user}}', cert_file: {client_pair.cert}, key_file: {client_pair.key}}}"
    for path in (world.folder / "web.crt", client_pair.cert):
        ended = check(-1).exception
        assert getattr(ended, "exit_code", None) == 2
        assert f"cert_file {path}: its certificate, or one that signed it, ended 20" in str(ended)
        world.config.write_text(re.sub("candidate: {file: .*}", f"candidate: {{{source}}}", world.config.read_text()))
