"""What is logged: lines of this program, warnings of libraries, and no secret at any level."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from monitor.service.logs import configure
from servers.answering import answering
from servers.lists import pull_of
from servers.recommender import Asked

AUTHENTICATIONS: dict[str, dict[str, Any]] = {
    "query": {},
    "header": {"headers": {"X-Api-Key": "canary-header"}},
    "bearer": {"token": "canary-bearer"},
    "hmac": {"auth": {"hmac": {"secret": "canary-hmac"}}},
    "aws": {
        "auth": {
            "aws": {"region": "eu-west-1", "access_key": "canary-id", "secret_key": "canary-aws"}
        }
    },
}


@pytest.fixture
def debug_log() -> Iterator[io.StringIO]:
    """The stream that everything is logged to at level debug."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("json", "debug", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def answer(path: str, _: object) -> tuple[int, object]:
    """A list, or a token for whoever asks for one."""
    return 200, {"access_token": "canary-token"} if path.startswith("/token") else ["a"]


@pytest.mark.parametrize("kind", [*AUTHENTICATIONS, "aws session", "basic", "oauth2"])
def test_no_secret_of_a_source_is_logged_at_debug(kind, debug_log, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "canary-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-session")
    seen = list[Asked]()
    with answering(answer, seen) as url:
        client = {"token_url": f"{url}/token", "client_id": "me", "client_secret": "canary-client"}
        options = {
            **AUTHENTICATIONS,
            "aws session": {"auth": {"aws": {"region": "eu-west-1"}}},
            "basic": {},
            "oauth2": {"auth": {"oauth2": client}},
        }[kind]
        address = url.replace("//", "//me:canary-password@") if kind == "basic" else url
        given = {"url": f"{address}/recs/{{user}}?key=canary-query", **options}
        assert len(pull_of("canary-user", http=given).rankings) == 1
    structlog.get_logger("monitor.test").debug("end of the log")

    assert "canary" in f"{seen[-1].target} {seen[-1].headers}"
    assert "canary" not in debug_log.getvalue()
    assert "end of the log" in debug_log.getvalue()


@pytest.mark.integration
def test_no_certificate_is_logged_at_debug(debug_log, authority, client_pair):
    own = {"cert_file": str(client_pair.cert), "key_file": str(client_pair.key)}
    given = {"url": "https://127.0.0.1:9/{user}", "ca_file": str(authority.cert), "retries": 0}
    pull_of("canary-user", http=given | own)

    assert "canary" not in debug_log.getvalue()
    assert "PRIVATE" not in debug_log.getvalue()


@pytest.mark.parametrize("library", ["botocore.auth", "httpx", "a_library_of_next_year"])
def test_a_library_is_logged_from_warnings_on(library, debug_log):
    logger = logging.getLogger(library)
    logger.setLevel(logging.DEBUG)
    logger.info("info of a library")
    logger.debug("debug of a library")
    logger.warning("warning of a library")
    logger.setLevel(logging.NOTSET)

    assert "info of" not in debug_log.getvalue()
    assert "debug of" not in debug_log.getvalue()
    assert "warning of a library" in debug_log.getvalue()
