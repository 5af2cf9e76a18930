import hashlib
import hmac

from factories import HOUR, SECOND, SLOT
from json_keys import read_listed
from messages import END, FIRING, INCIDENT, START, many, message, repetition, send
from monitor.model.notifications import message_key
from monitor.receivers import verify_signature
from monitor.receivers.webhook import MAX_WEBHOOK_BYTES
from receivers.message_examples import NAMED, ON_SHARED

SECRET = "correct-horse"  # noqa: S105 - a test's


def posted(collector, message):
    """The body of the request with this message."""
    return read_listed(asked(collector, message).body)


def asked(collector, *messages, **options):
    """The last of the requests with these messages."""
    send(*messages, webhook={"url": collector.url, **options})
    return collector.requests[-1]


def test_a_body_is_bounded_and_names_more_than_it_shows_in_full(collector):
    segments = many(1000)
    body = posted(collector, message(*segments, FIRING))
    alerts, left_out = body["alerts"], body["truncatedAlerts"]
    assert alerts[0]["labels"]["segment"] == "all"  # the alert on all users comes first
    assert list(alerts[-1]["annotations"]) == ["dedup_key"]
    assert (len(alerts) + left_out, len(alerts) > 25) == (1001, True)
    assert 15_000 < len(collector.requests[-1].body) <= MAX_WEBHOOK_BYTES

    few = posted(collector, message(*segments[:4], NAMED, briefing=ON_SHARED))
    assert few["alerts"][0]["labels"]["alertname"] == NAMED.alert  # its runbook fits the fault
    assert [len(alert["annotations"]) > 10 for alert in few["alerts"]] == [True] * 5


def test_the_same_message_has_the_same_key_and_a_repetition_its_own(collector):
    asked(collector, START, START, END)
    keys = [request.headers["Idempotency-Key"] for request in collector.requests]
    assert keys[0] == keys[1] != keys[2]
    assert all(key.startswith(f"{INCIDENT}:") for key in keys)
    again = repetition(FIRING)
    assert len({message_key(again, SLOT), message_key(again, SLOT + HOUR), keys[0]}) == 3


def test_a_message_is_posted_as_json_with_the_documented_hmac_that_verifies_if_there_is_a_secret(
    collector,
):
    request = asked(collector, START, secret=SECRET, headers={"X-Team": "ranking"}, name="pager")
    assert (request.method, read_listed(request.body)["receiver"]) == ("POST", "pager")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["X-Team"] == "ranking"
    assert request.headers["X-Rankwatch-Timestamp"] == "1704672000"
    digest = hmac.new(SECRET.encode(), b"1704672000." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Rankwatch-Signature"] == f"sha256={digest}"
    assert verify_signature(SECRET, request.headers, request.body, now=SLOT)
    assert "X-Rankwatch-Signature" not in asked(collector, START).headers


def test_what_was_changed_replayed_or_made_up_does_not_verify(collector):
    request = asked(collector, START, secret=SECRET)
    given = {name.lower(): value for name, value in request.headers.items()}

    def verifies(*, secret=SECRET, more=b"", later_s=0.0, **headers):
        changed = given | {f"x-rankwatch-{name}": value for name, value in headers.items()}
        return verify_signature(secret, changed, request.body + more, now=SLOT + later_s * SECOND)

    assert verifies(later_s=300)
    assert not verifies(later_s=301)
    assert not verifies(later_s=-301)
    assert not verifies(secret="another")  # noqa: S106 - a test's
    assert not verifies(more=b" ")
    for made_up in ("1704672001", "", "-1", "²", "1e9", "9" * 5000):
        assert not verifies(timestamp=made_up)
    assert not verifies(signature="sha256=ü")
    assert not verify_signature(SECRET, {}, request.body, now=SLOT)
