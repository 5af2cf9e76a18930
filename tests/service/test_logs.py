"""What is logged: lines of this program, warnings of libraries, and no secret at any level."""

import io
import logging

import pytest
import structlog
import yaml

from monitor.service.logs import configure_logs
from servers.answering import answering
from servers.lists import pull_of
from tables import cells

AUTHENTICATIONS = """
query
basic
header       headers: {X-Api-Key: canary-header}
bearer       token: canary-bearer
hmac         auth: {hmac: {secret: canary-hmac}}
aws          auth: {aws: {region: eu-west-1, access_key: canary-id, secret_key: canary-aws}}
aws session  auth: {aws: {region: eu-west-1}}
oauth2       auth: {oauth2: {token_url: URL/token, client_id: me, client_secret: canary-client}}
"""


@pytest.fixture
def debug_log():
    """The stream that everything is logged to at level debug."""
    stream = io.StringIO()
    configure_logs("json", "debug", stream)
    return stream


def answer(path, _):
    """A list, or a token for whoever asks for one."""
    return 200, {"access_token": "canary-token"} if path.startswith("/token") else ["a"]


@pytest.mark.parametrize(
    "kind, options", [(each[0], "".join(each[1:])) for each in cells(AUTHENTICATIONS)]
)
def test_no_secret_of_a_source_is_logged_at_debug(kind, options, debug_log, monkeypatch):
    for name in ("access_key_id", "secret_access_key", "session_token"):
        monkeypatch.setenv(f"AWS_{name}".upper(), f"canary-{name}")
    with answering(answer) as server:
        url = address = server.url
        if kind == "basic":
            address = url.replace("//", "//me:canary-password@")
        given = {"url": f"{address}/recs/{{user}}?key=canary-query"} | yaml.safe_load(
            f"{{{options.replace('URL', url)}}}"
        )
        assert len(pull_of("canary-user", http=given).rankings) == 1
    structlog.get_logger("monitor.test").debug("end of the log")

    assert "canary" in f"{server.requests[-1]}"
    assert "canary" not in debug_log.getvalue()
    assert "end of the log" in debug_log.getvalue()


def test_libraries_log_only_warnings_and_errors(debug_log):
    for library in ("botocore.auth", "a_library_of_next_year"):
        logger = logging.getLogger(library)
        logger.setLevel(logging.DEBUG)
        for level in ("debug", "info", "warning"):
            getattr(logger, level)(f"{level} of {library}")
        logger.setLevel(logging.NOTSET)

        assert f"warning of {library}" in debug_log.getvalue()
    assert "info of" not in debug_log.getvalue()
    assert "debug of" not in debug_log.getvalue()
