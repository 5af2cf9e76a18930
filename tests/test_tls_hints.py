"""What is said of TLS that fails follows the cause, whatever client met it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import s3fs

from messages import START, send
from monitor.errors import MonitorError
from monitor.storage import open_store
from servers.lists import pull_of
from servers.tls_faults import faulty_tls

pytestmark = pytest.mark.integration

TABLE = {"user": "u", "items": "i"}


def said(port: int, ca_file: Path) -> Iterator[tuple[str, str]]:
    """What clients other than those of PostgreSQL say, by their names."""
    url = f"https://127.0.0.1:{port}"
    clients: dict[str, Callable[[], Any]] = {
        "http": lambda: pull_of(
            "u", http={"url": f"{url}/{{user}}", "ca_file": str(ca_file), "retries": 0}
        ),
        "token_url": lambda: pull_of(
            "u",
            http={
                "url": "http://127.0.0.1:9/{user}",
                "ca_file": str(ca_file),
                "retries": 0,
                "auth": {"oauth2": {"token_url": url, "client_id": "me", "client_secret": "x"}},
            },
        ),
        "redis": lambda: pull_of(
            "u",
            redis={
                "url": f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={ca_file}",
                "key": "{user}",
                "type": "list",
            },
        ),
        "s3": lambda: pull_of("u", file={"path": "s3://bucket/lists.parquet", **TABLE}),
        "webhook": lambda: send(START, webhook={"url": url, "ca_file": str(ca_file)}),
        "mail": lambda: send(
            START,
            email={
                "host": "127.0.0.1",
                "port": port,
                "tls": "implicit",
                "ca_file": str(ca_file),
                "sender": "a@x.test",
                "to": ["b@x.test"],
            },
        ),
    }
    for name, ask in clients.items():
        try:
            yield name, " ".join(ask().notes.values())
        except MonitorError as error:
            yield name, str(error)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("expired", "has a certificate that has expired: the server's owner must renew"),
        ("not yet valid", "has a certificate that is not valid yet: set this machine's clock"),
        ("another name", "has a certificate for another host name: check the host"),
        (
            "unknown authority",
            (
                "has a certificate of an unknown authority: if the server is yours, name the file of its "
                "authority"
            ),
        ),
    ],
)
def test_the_hint_follows_the_cause_and_names_the_setting(fault, words, tmp_path, monkeypatch):
    with faulty_tls(tmp_path, fault) as (port, ca_file):
        for name, value in {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL": f"https://127.0.0.1:{port}",
            "AWS_CA_BUNDLE": str(ca_file),
            "AWS_MAX_ATTEMPTS": "1",
        }.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        for client, sentence in said(port, ca_file):
            assert words in sentence, client
            assert fault == "unknown authority" or "ca_" not in sentence.lower(), client


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
