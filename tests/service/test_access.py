"""Who may look at a daemon: from the file to a scraper's request, over reloads good and bad; and what `check` says."""

import json
import re
import shutil
import ssl
import subprocess
from datetime import UTC, datetime

import bcrypt
import pytest
import requests

from clocks import set_clock
from commands import rankwatch
from factories import DAY
from logs import captured
from monitor.service.daemon import daemon
from servers import require
from service.lists_world import write_world
from service.stepped_daemon import watching

pytestmark = pytest.mark.integration  # certificates are made by openssl

KIM = ("kim", "old password")
JOE = ("joe", "new password")
FILES = {"cert_file": "web.crt", "key_file": "web.key"}


def users(*known):
    return {
        name: bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        for name, password in known
    }


class World:
    """A configuration, and its web configuration file beside it."""

    def __init__(self, folder, url):
        self.folder = folder
        self.web = folder / "web.yaml"
        self.config = write_world(folder, url)
        self.config.write_text(f"web_config_file: web.yaml\n{self.config.read_text()}")

    def install(self, pair):
        for source, name in ((pair.cert, "web.crt"), (pair.key, "web.key")):
            shutil.copy(source, self.folder / name)

    def write(self, *known, **tls):
        told = {"tls_server_config": FILES | tls, "basic_auth_users": users(*known)}
        self.web.write_text(json.dumps(told))


@pytest.fixture
def world(tmp_path, url, server_pair):
    world = World(tmp_path, url)
    world.install(server_pair)
    return world


def test_a_scraper_with_password_and_certificate_can_read_before_and_after_good_and_bad_reloads(
    world, authority, client_pair, monkeypatch
):
    strict = {
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": str(authority.cert),
    }
    world.write(KIM, **strict)
    lines = captured(monkeypatch, daemon)
    with watching(world.config) as watched, requests.Session() as session:
        session.trust_env = False  # the authority is the one given below
        session.headers["Connection"] = "close"
        session.verify = str(authority.cert)
        session.cert = (str(client_pair.cert), str(client_pair.key))

        def page(user):
            return session.get(f"{watched.daemon.url}/metrics", auth=user, timeout=10)

        def statuses():
            return [page(user).status_code for user in (KIM, JOE, None)]

        assert statuses() == [200, 401, 401]
        shown = re.search(
            r"^rankwatch_certificate_expiry_timestamp_seconds (\S+)", page(KIM).text, re.MULTILINE
        )
        assert shown
        assert float(shown[1]) == end_of(world.folder / "web.crt").timestamp()

        world.web.write_text("basic_auth_users: {kim: hunter2}\n")
        assert not watched.daemon.reload()
        (world.folder / "web.key").write_text("no key\n")
        world.write(JOE, **strict)
        assert not watched.daemon.reload()
        assert statuses() == [200, 401, 401]

        world.install(authority.issue("renewed"))
        world.write(KIM, JOE, **strict)
        assert watched.daemon.reload()
        assert statuses() == [200, 200, 401]
    log = str(lines.entries)
    assert "basic_auth_users.kim: must be a bcrypt hash" in log
    assert "cannot be used together" in log
    body = (world.folder / "web.key").read_text().splitlines()[1]
    assert not [secret for secret in ("hunter2", KIM[1], JOE[1], "$2b$04$", body) if secret in log]


def end_of(certificate):
    command = [require("openssl"), "x509", "-noout", "-enddate", "-in", str(certificate)]
    told = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return datetime.fromtimestamp(
        ssl.cert_time_to_seconds(told.strip().removeprefix("notAfter=")), UTC
    )


def test_check_warns_of_certificates_that_expire_soon_and_rejects_expired_ones(
    world, client_pair, monkeypatch
):
    world.write(KIM)
    end = end_of(world.folder / "web.crt")

    def check(days_left):
        set_clock(monkeypatch, end - days_left * DAY)
        done = rankwatch(f"check --config {world.config}")
        return done.returncode, f"{done.stdout}{done.stderr}"

    assert "cert_file" not in check(15)[1]
    code, soon = check(13)
    assert code == 0
    ends = r"web\.crt: its certificate, or the certificate of a CA that signed it, expires at 20\S+: renew it"
    assert re.search(ends, soon)
    source = (
        f"http: {{url: 'http://127.0.0.1:9/{{user}}', cert_file: {client_pair.cert}, "
        f"key_file: {client_pair.key}}}"
    )
    for path in (world.folder / "web.crt", client_pair.cert):
        code, ended = check(-1)
        assert code == 2
        assert (
            f"cert_file {path}: its certificate, or the certificate of a CA that signed it, expired at 20"
            in ended
        )
        world.config.write_text(
            re.sub("candidate: {file: .*}", f"candidate: {{{source}}}", world.config.read_text())
        )
