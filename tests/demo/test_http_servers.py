import hashlib
import hmac
import json
import time
from collections.abc import Iterator

import pytest
import requests

from monitor.demo.http_servers import OnCallServer, serve_app

SECRET = "not so secret"  # noqa: S105 - a test's


def body(status: str, *keys: str) -> bytes:
    labels = {"alertname": "SimilarityLow", "segment": "country=DE"}
    return json.dumps(
        {"alerts": [{"status": status, "labels": labels, "annotations": {"dedup_key": key}} for key in keys]}
    ).encode()


BODY = body("firing", "a")


@pytest.fixture
def on_call() -> OnCallServer:
    return OnCallServer(SECRET)


@pytest.fixture
def url(on_call: OnCallServer) -> Iterator[str]:
    with serve_app(on_call.app()) as url:
        yield f"{url}/page"


def post(url: str, body: bytes, *, secret: str = SECRET) -> int:
    stamp = str(int(time.time()))
    signature = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Rankwatch-Timestamp": stamp, "X-Rankwatch-Signature": f"sha256={signature}"}
    return requests.post(url, data=body, headers=headers, timeout=60).status_code


def test_a_signed_message_is_taken_and_understood(on_call: OnCallServer, url: str) -> None:
    assert post(url, BODY) == 204
    (notice,) = on_call.received
    assert (notice.is_signed, notice.status, notice.alert, notice.segment) == (True, "firing", "SimilarityLow", "country=DE")


def test_what_a_later_message_tells_again_is_no_news(on_call: OnCallServer, url: str) -> None:
    for told in (BODY, BODY, body("firing", "a", "b"), body("resolved", "a")):
        assert post(url, told) == 204
    assert [notice.status for notice in on_call.received] == ["firing", "firing", "resolved"]


def test_a_message_signed_with_another_secret_is_refused_and_kept_as_such(on_call: OnCallServer, url: str) -> None:
    assert post(url, BODY, secret="another secret") == 401  # noqa: S106 - a test's
    (notice,) = on_call.received
    assert (notice.is_signed, notice.alert) == (False, None)


def test_a_message_without_a_signature_is_refused(on_call: OnCallServer, url: str) -> None:
    assert requests.post(url, data=BODY, timeout=60).status_code == 401
    assert [notice.is_signed for notice in on_call.received] == [False]
