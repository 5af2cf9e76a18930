"""Encryption and client certificates over real sockets, and certificates that change while the server runs."""

import os
import ssl
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from logs import captured
from monitor.model.errors import ConfigError
from monitor.web import access as rotating
from monitor.web.access import Access, CertificateStore, read_access, server_tls_context
from monitor.web.access_options import AccessOptions, TlsOptions
from monitor.web.connections import Limits
from servers.certificates import (  # noqa: F401 - fixtures
    Authority,
    Pair,
    authority,
    client_pair,
    server_pair,
    stranger_pair,
)
from servers.daemon import wait_for
from web.sites import KIM, Site, access_of, basic, serving, tls_of

# ruff: noqa: F811 - fixtures are imported
pytestmark = pytest.mark.integration
WITHOUT_CLIENTS, IF_GIVEN, REQUIRED = (
    "NoClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
)


@pytest.fixture
def logged(monkeypatch):
    return captured(monkeypatch, rotating)


def page_by(connection):
    connection.request("GET", "/metrics", headers={"Authorization": basic(*KIM)})
    return connection.getresponse().read()


def is_let_in(site):
    """Whether the server serves a page.

    A certificate may be refused by TLS 1.3 only after the client's part of the handshake.
    """
    try:
        return site.status("/metrics", KIM) == 200
    except (ssl.SSLError, ConnectionError):
        return False


def test_large_pages_are_served_over_tls_by_one_connection_and_not_without_tls(
    authority, server_pair
):
    page = bytes(range(256)) * 20_000
    with serving(
        tls=authority.client_context(), page=page, tls_server_config=tls_of(server_pair)
    ) as site:
        assert site.server.url == f"https://127.0.0.1:{site.port}"
        assert site.status("/metrics") == 401
        with pytest.raises(ConnectionError):
            Site(site.server).status("/metrics", KIM)
        with closing(site.connect()) as connection:
            assert [page_by(connection) == page for _ in range(3)] == [True] * 3


def test_client_certificates_are_asked_for_and_verified_as_configured(
    authority, server_pair, client_pair, stranger_pair, tmp_path
):
    for client_auth_type, are_let_in in [
        (WITHOUT_CLIENTS, [True, True, True]),
        (IF_GIVEN, [True, True, False]),
        (REQUIRED, [False, True, False]),
    ]:
        configured = tls_of(server_pair, client_auth_type=client_auth_type)
        if client_auth_type != WITHOUT_CLIENTS:
            (tmp_path / "ca.crt").write_text(
                f"# Zertifizierungsstelle für Prüfungen\n{authority.cert.read_text()}"
            )
            configured["client_ca_file"] = f"{tmp_path}/ca.crt"
        with serving(tls_server_config=configured) as site:
            found = []
            for pair in (None, client_pair, stranger_pair):
                site.tls = authority.client_context(pair)
                found.append(is_let_in(site))
        assert found == are_let_in


def test_of_good_certificates_only_those_with_an_allowed_name_come_in(
    authority, server_pair, client_pair
):
    for allowed in [
        "prometheus.test",
        "spiffe://x/y",
        "p@x.test",
        "::1",
        "0:0:0:0:0:0:0:1",
        "client",
        "*.test",
    ]:
        configured = tls_of(
            server_pair, client_auth_type=REQUIRED, client_ca_file=str(authority.cert)
        )
        configured["client_allowed_sans"] = ["somebody.else", allowed]
        with serving(
            tls=authority.client_context(client_pair), tls_server_config=configured
        ) as site:
            assert is_let_in(site) is (allowed not in {"client", "*.test"})


def test_versions_are_those_of_the_file(authority, server_pair):
    for configured, version, is_spoken in [
        ({}, ssl.TLSVersion.TLSv1_2, True),
        ({"min_version": "TLS13"}, ssl.TLSVersion.TLSv1_2, False),
        ({"min_version": "TLS13"}, ssl.TLSVersion.TLSv1_3, True),
    ]:
        client = authority.client_context()
        client.minimum_version = client.maximum_version = version
        with serving(tls=client, tls_server_config=tls_of(server_pair, **configured)) as site:
            assert is_let_in(site) is is_spoken


UNUSABLE = yaml.safe_load(r"""
- [key_file, "{folder}/fifo", "tls_server_config.key_file: cannot read {folder}/fifo: it is not a file"]
- [client_ca_file, "{folder}/fifo", "tls_server_config.client_ca_file: cannot read {folder}/fifo: it is not a file"]
- [cert_file, /dev/zero, "tls_server_config.cert_file: cannot read /dev/zero: it is not a file"]
- [cert_file, "{folder}/huge", "tls_server_config.cert_file: cannot read {folder}/huge: it is larger than 1048576 bytes"]
- [cert_file, "a\0b", "tls_server_config.cert_file: cannot read a\0b: no file can have that name"]
- [key_file, "{folder}/none.key", "tls_server_config.key_file: cannot read {folder}/none.key: No such file or directory"]
- [key_file, "{other}", the key does not belong to the certificate]
- [cert_file, "{folder}/no.crt", "one of them is not a PEM file, or contains no certificate or no key"]
- [key_file, "{folder}/locked.key", "the key is encrypted: remove its password"]
- [client_ca_file, "{folder}/no.crt", "client_ca_file {folder}/no.crt contains no certificate in PEM"]
""")


def test_certificates_that_cannot_be_used_are_refused_by_name(tmp_path, server_pair, client_pair):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "no.crt").write_bytes(b"\xff canary")
    (tmp_path / "huge").write_bytes(b"#" * (1 << 20) + b"#")
    os.system(  # noqa: S605
        f"openssl ec -in {server_pair.key} -aes128 -passout pass:x -out {tmp_path}/locked.key "
        "2>/dev/null"
    )
    places = {"folder": tmp_path, "other": client_pair.key}
    for key, path, message in UNUSABLE:
        given = tls_of(server_pair) | {key: path.format(**places)}
        if key == "client_ca_file":
            given["client_auth_type"] = REQUIRED
        options = AccessOptions.model_validate({"tls_server_config": given})
        with pytest.raises(ConfigError) as caught:
            read_access(options, file_name="web.yaml")
        said = str(caught.value)
        assert message.format(**places) in said
        assert said.startswith("web.yaml: tls_server_config")
        assert "canary" not in said
        assert "\n" not in said


class _Gone(CertificateStore):
    """Has no context when it is asked for one."""

    def current(self):
        msg = "no context"
        raise TypeError(msg)


def test_a_connection_for_which_there_is_no_encryption_is_ended_and_never_spoken_to_in_plain(
    server_pair,
):
    gone = _Gone(TlsOptions(cert_file=str(server_pair.cert), key_file=str(server_pair.key)))
    with serving(access=Access(certificates=gone)) as site, site.open() as raw:
        with suppress(ConnectionError):
            raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert raw.recv(1) == b""
        wait_for(lambda: not site.server._front.connections, "the connection to be forgotten")


@pytest.mark.parametrize("fault", [ConfigError("odd"), MemoryError()], ids=repr)
def test_files_that_could_not_be_read_are_tried_again_though_their_content_stays_and_the_old_ones_serve_meanwhile(
    authority, monkeypatch, logged, fault
):
    """As between a renewal's copy and its chmod, or when a disk failed for a moment."""
    pair, now, tries = authority.issue("renewed"), 0.0, []
    certificates = CertificateStore(
        TlsOptions(cert_file=str(pair.cert), key_file=str(pair.key)), clock=lambda: now
    )
    first = certificates.current()

    def open_at_the_third_try(options):
        tries.append(options)
        if len(tries) < 3:
            raise fault
        return server_tls_context(options)

    monkeypatch.setattr(rotating, "server_tls_context", open_at_the_third_try)
    Path(pair.key).chmod(0o640)  # neither its time nor its size changes
    are_old = []
    for _ in range(4):
        now += 1
        is_old = certificates.current() is first
        are_old.append((is_old, certificates.refusal is not None))

    assert are_old == [(True, True), (True, True), (False, False), (False, False)]
    assert len(tries) == 3
    assert [each["log_level"] for each in logged.entries] == ["error", "info"]
    assert logged.entries[0]["reason"]


def test_the_refusal_of_files_ends_when_those_in_force_are_back(authority, tmp_path):
    pair, now, are_refused = authority.issue("linked"), 0.0, []
    link = tmp_path / "tls.crt"
    link.symlink_to(pair.cert)
    certificates = CertificateStore(
        TlsOptions(cert_file=str(link), key_file=str(pair.key)), clock=lambda: now
    )
    for target in (tmp_path / "absent", pair.cert):
        link.unlink()
        link.symlink_to(target)
        now += 1
        certificates.current()
        are_refused.append(certificates.refusal is not None)

    assert are_refused == [True, False]


def test_encryption_can_be_put_in_force_on_a_running_server_and_ends_plain_connections(
    authority, server_pair
):
    with serving(access=access_of()) as site, closing(site.connect()) as regular:
        assert page_by(regular) == b"page\n"

        site.server.use_access(access_of(tls_server_config=tls_of(server_pair)))

        assert regular.sock.recv(1) == b""
        assert not is_let_in(site)
        site.tls = authority.client_context()
        assert is_let_in(site)
        site.server.use_access(Access())
        site.tls = None
        assert site.status("/metrics") == 200


def test_a_handshake_that_is_not_finished_is_ended_in_time(server_pair):
    for sent in [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"]:
        with (
            serving(limits=Limits(handshake_s=0.3), tls_server_config=tls_of(server_pair)) as site,
            site.open(sent) as raw,
        ):
            with suppress(ConnectionError):
                while raw.recv(4096):  # an alert may come first
                    pass
            wait_for(lambda: not site.server._front.connections, "the connection to be forgotten")


def test_stopping_does_not_wait_for_handshakes(server_pair):
    limits = Limits(handshake_s=600)
    with serving(limits=limits, tls_server_config=tls_of(server_pair)) as site, site.open() as raw:
        wait_for(lambda: site.server._front.connections, "the connection")
        site.server.stop(timeout_s=60)
        assert raw.recv(1) == b""
        assert not site.server.is_alive


def test_a_reader_that_takes_no_answer_is_cut_off_at_the_deadline(authority, server_pair):
    access = read_access(AccessOptions.model_validate({"tls_server_config": tls_of(server_pair)}))
    with (
        serving(access=access, page=b"x" * 30_000_000, limits=Limits(exchange_s=1)) as site,
        authority.client_context().wrap_socket(
            site.open(is_small=True), server_hostname="127.0.0.1"
        ) as raw,
    ):
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        connections = site.server._front.connections
        wait_for(lambda: any(one.is_authenticated for one in connections), "the request")
        wait_for(lambda: not connections, "the slow reader's end")
