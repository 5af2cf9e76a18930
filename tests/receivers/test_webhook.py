import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

import factories
from factories import SLOT, transition
from monitor.errors import DeliveryError
from monitor.model import State
from monitor.ports import Receiver
from monitor.receivers import ReceiverOptions, WebhookOptions, open_receivers, verify
from servers.webhook import Collector, answer

SECRET = "correct-horse"  # noqa: S105 - a test's
WHY = "All of the drop: everywhere, items moved."
FIRING = transition(explanation=WHY)
ENDED = transition(from_state=State.FIRING, to_state=State.QUIET, value=None, reason="fine again", runbook_url=None)


@contextmanager
def receiving(url: str, **options: Any) -> Iterator[Receiver]:
    entry = ReceiverOptions(webhook=WebhookOptions.model_validate({"url": url, **options}))
    (receiver,) = open_receivers([entry], external_url="http://rankwatch.test:9108")
    yield receiver
    receiver.close()


def test_a_message_has_the_documented_shape(collector: Collector) -> None:
    with receiving(f"{collector.url}/hook") as receiver:
        receiver.send(factories.message(FIRING), now=SLOT)
    (request,) = collector.requests
    assert (request.method, request.path, request.headers["Content-Type"]) == ("POST", "/hook", "application/json")
    message = json.loads(request.body)
    assert message.pop("description").startswith(FIRING.reason)
    assert message == {
        "version": "1",
        "status": "firing",
        "dedup_key": FIRING.dedup_key,
        "summary": f"SimilarityLow firing on home-feed: {FIRING.reason}",
        "comparison": "home-feed",
        "alert": "SimilarityLow",
        "segment": "all",
        "severity": "critical",
        "from": "pending",
        "to": "firing",
        "reason": FIRING.reason,
        "explanation": WHY,
        "value": 0.254,
        "direction": "below",
        "threshold": 0.35,
        "users": 1874,
        "metric": "extended_tau",
        "statistic": "mean",
        "slot": "2024-01-08T00:00:00Z",
        "at": "2024-01-08T00:00:05Z",
        "since": "2024-01-07T00:00:00Z",
        "runbook_url": "https://runbooks.test/similarity",
        "labels": {"team": "ranking"},
        "link": "http://rankwatch.test:9108/comparisons/home-feed?alert=SimilarityLow&segment=all",
    }


def test_start_and_end_are_told_one_by_one_under_one_key(collector: Collector) -> None:
    with receiving(collector.url) as receiver:
        receiver.send(factories.message(FIRING, ENDED), now=SLOT)
    messages = [json.loads(request.body) for request in collector.requests]
    assert [(message["status"], message["value"], message["runbook_url"]) for message in messages] == [
        ("firing", 0.254, "https://runbooks.test/similarity"),
        ("resolved", None, None),
    ]
    assert [request.headers["Idempotency-Key"] for request in collector.requests] == [
        f"{FIRING.dedup_key}:firing",
        f"{FIRING.dedup_key}:resolved",
    ]


def test_the_signature_is_the_documented_hmac_and_verifies(collector: Collector) -> None:
    with receiving(collector.url, secret=SECRET, headers={"X-Team": "ranking"}) as receiver:
        receiver.send(factories.message(FIRING), now=SLOT)
    (request,) = collector.requests
    assert request.headers["X-Team"] == "ranking"
    assert request.headers["X-Rankwatch-Timestamp"] == "1704672000"
    digest = hmac.new(SECRET.encode(), b"1704672000." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Rankwatch-Signature"] == f"sha256={digest}"
    assert verify(SECRET, request.headers, request.body, now=SLOT)


def test_without_a_secret_nothing_is_signed(collector: Collector) -> None:
    with receiving(collector.url) as receiver:
        receiver.send(factories.message(FIRING), now=SLOT)
    assert "X-Rankwatch-Signature" not in collector.requests[0].headers


def test_what_was_changed_replayed_or_made_up_does_not_verify(collector: Collector) -> None:
    with receiving(collector.url, secret=SECRET) as receiver:
        receiver.send(factories.message(FIRING), now=SLOT)
    body, headers = collector.requests[0].body, {name.lower(): value for name, value in collector.requests[0].headers.items()}
    assert verify(SECRET, headers, body, now=SLOT + timedelta(minutes=5))
    assert not verify(SECRET, headers, body, now=SLOT + timedelta(minutes=5, seconds=1))
    assert not verify(SECRET, headers, body, now=SLOT - timedelta(minutes=6))
    assert not verify("another-secret", headers, body, now=SLOT)
    assert not verify(SECRET, headers, body + b" ", now=SLOT)
    assert not verify(SECRET, {**headers, "x-rankwatch-timestamp": "1704672001"}, body, now=SLOT)
    for made_up in ("", "-1", "²", "1e9", "9" * 5000):
        assert not verify(SECRET, {**headers, "x-rankwatch-timestamp": made_up}, body, now=SLOT)
    assert not verify(SECRET, {**headers, "x-rankwatch-signature": "sha256=ü"}, body, now=SLOT)
    assert not verify(SECRET, {}, body, now=SLOT)


def test_a_failure_ends_the_batch_and_holds_no_secret(collector: Collector) -> None:
    collector.replies.extend([answer(200), answer(503, {"Retry-After": "9"})])
    with (
        receiving(f"{collector.url}/canary?canary=1", secret="canary-secret") as receiver,  # noqa: S106 - that is the point
        pytest.raises(DeliveryError) as caught,
    ):
        receiver.send(factories.message(FIRING, ENDED, FIRING), now=SLOT)
    assert len(collector.requests) == 2
    assert (caught.value.permanent, caught.value.retry_after_s) == (False, 9.0)
    assert str(caught.value) == f"webhook at {collector.url} answered 503 Service Unavailable: it will be tried again"


def test_hostile_text_arrives_as_plain_json(collector: Collector) -> None:
    hostile = '"}{{ x }}<!channel>\r\n\x00\u202e\ud800' + "x" * 1_000_000
    with receiving(collector.url, secret=SECRET) as receiver:
        receiver.send(factories.message(transition(segment=hostile, reason=hostile, labels={hostile: hostile})), now=SLOT)
    (request,) = collector.requests
    message = json.loads(request.body)
    assert len(request.body) < 50_000
    assert message["segment"].startswith('"}{{ x }}<!channel>    ?xxx')
    assert verify(SECRET, request.headers, request.body, now=SLOT)
