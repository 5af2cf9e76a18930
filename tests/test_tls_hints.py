"""The error message of a TLS failure follows from its cause, for each client."""

import ssl
from functools import partial
from string import Template
from typing import Any

import pytest
import yaml

from messages import START, send
from monitor.boundary.foreign_errors import system_cause
from monitor.model.errors import MonitorError
from monitor.storage import open_store
from servers.buckets import forgotten_stores
from servers.lists import pull_of
from servers.tls_faults import faulty_tls
from tables import cells

pytestmark = pytest.mark.integration

TABLE = {"user": "u", "items": "i"}


CLIENTS = """
- http: {url: "$url/{user}", ca_file: $ca_file, retries: 0}
- http:
    url: http://127.0.0.1:9/{user}
    ca_file: $ca_file
    retries: 0
    auth: {oauth2: {token_url: $url, client_id: me, client_secret: x}}
- redis: {url: "rediss://127.0.0.1:$port/0?ssl_ca_certs=$ca_file", key: "{user}", type: list}
- file: {path: "s3://bucket/lists.parquet", user: u, items: i}
- webhook: {url: $url, ca_file: $ca_file}
- email: {host: 127.0.0.1, port: $port, tls: implicit, ca_file: $ca_file, sender: a@x.test, to: [b@x.test]}
"""
"""All but those of PostgreSQL."""


def said(port, ca_file):
    """What each of these clients says."""
    names = {"url": f"https://127.0.0.1:{port}", "port": port, "ca_file": ca_file}
    for client in yaml.safe_load(Template(CLIENTS).safe_substitute(names)):
        ask: Any = partial(pull_of, "u")
        if client.keys() & {"webhook", "email"}:
            ask = partial(send, START)
        try:
            yield str(client), " ".join(ask(**client).notes.values())
        except MonitorError as error:
            yield str(client), str(error)


HINTS = cells("""
    expired            that has expired: the server's owner must renew
    not yet valid      that is not valid yet: set this machine's clock
    another name       for another host name: check the host
    unknown authority  of an unknown authority: if the server is yours, name the file of its authority
""")


@pytest.mark.parametrize("fault, words", HINTS)
def test_the_hint_follows_the_cause_and_names_the_setting(fault, words, tmp_path, monkeypatch):
    with faulty_tls(tmp_path, fault) as (port, ca_file), forgotten_stores():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(ca_file))
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        for client, sentence in said(port, ca_file):
            assert f"has a certificate {words}" in sentence, client
            assert fault == "unknown authority" or "ca_" not in sentence.lower(), client


def test_rules_that_some_pythons_do_not_check_are_named():
    error: Any = ssl.SSLCertVerificationError()
    error.verify_code = 85
    assert "RFC 5280" in str(system_cause(error))


def test_postgresql_says_only_whether_the_name_is_wrong(tmp_path):
    for fault, words in (
        ("another name", "has a certificate for another host name: check the host"),
        (
            "expired",
            "cannot be trusted: check the certificate's dates .* name the file of its authority as sslrootcert",
        ),
    ):
        with faulty_tls(tmp_path, fault, says_yes=True) as (port, ca_file):
            url = f"a:b@127.0.0.1:{port}/x?sslmode=verify-full&sslrootcert={ca_file}"
            with pytest.raises(MonitorError, match=words):
                pull_of("u", sql={"url": f"postgresql://{url}", "table": "t", **TABLE})
            with pytest.raises(MonitorError, match=words):
                open_store(f"postgresql+psycopg://{url}", create=False)
