import hashlib
import hmac
import json
import re
from dataclasses import replace
from datetime import timedelta

from factories import SLOT
from json_keys import read_listed
from messages import BRITISH, END, ENDED, FIRING, INCIDENT, LABELS, SEEN, START, message, send
from monitor.model.notifications import message_key
from monitor.receivers import verify_signature
from monitor.receivers.webhook import MAX_WEBHOOK_BYTES

SECRET = "correct-horse"  # noqa: S105 - a test's


def posted(collector, message):
    """The body of the request that tells this message."""
    return read_listed(asked(collector, message).body)


def asked(collector, *messages, **options):
    """The last of the requests that tell these messages."""
    send(*messages, webhook={"url": collector.url, **options})
    return collector.requests[-1]


SHAPE = """{
  "version": "4",
  "groupKey": "home-feed:critical:2024-01-08",
  "truncatedAlerts": 0,
  "status": "firing",
  "receiver": "pager",
  "groupLabels": {"comparison": "home-feed", "severity": "critical"},
  "externalURL": "http://rankwatch.test:29108",
  "alerts": [{
    "status": "firing",
    "annotations": {
      "summary": "SimilarityLow firing on home-feed: mean of extended_tau is 0.254 over 1,874 users, below 0.35",
      "reason": "mean of extended_tau is 0.254 over 1,874 users, below 0.35",
      "explanation": "No clear cause. Similarity fell by 0.2500: items replaced 62 %, items moved 38 %.",
      "value": "0.254",
      "interval": "0.24 0.268",
      "normal": "0.61",
      "direction": "below",
      "threshold": "0.35",
      "users": "1874",
      "from_state": "pending",
      "to_state": "firing",
      "slot": "2024-01-08T00:00:00Z",
      "at": "2024-01-08T00:00:05Z",
      "since": "2024-01-07T00:00:00Z",
      "dedup_key": "0123456789abcdef0123456789abcdef",
      "runbook_url": "https://runbooks.test/similarity"
    },
    "startsAt": "2024-01-08T00:00:05Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://rankwatch.test:29108/c/home-feed/runs/2024-01-08T00:00:00Z?segment=all"
  }]
}"""


def test_a_message_has_the_documented_shape(collector):
    request = asked(collector, START, url=f"{collector.url}/hook", name="pager")
    assert (request.method, request.path, request.headers["Content-Type"]) == (
        "POST",
        "/hook",
        "application/json",
    )
    body = json.loads(request.body)
    (alert,) = body["alerts"]
    assert alert["annotations"].pop("description").startswith(FIRING.reason)
    assert alert.pop("labels") == body.pop("commonLabels") == LABELS
    assert re.fullmatch("[0-9a-f]{16}", alert.pop("fingerprint"))
    del body["commonAnnotations"]
    assert body == json.loads(SHAPE)


def test_an_end_leaves_the_group_firing_until_nothing_fires_any_more(collector):
    partly = posted(collector, message(ENDED, firing=(BRITISH,)))
    assert [(alert["status"], alert["labels"]["segment"]) for alert in partly["alerts"]] == [
        ("resolved", "all"),
        ("firing", "country=UK"),
    ]
    assert (partly["status"], partly["alerts"][0]["endsAt"]) == ("firing", "2024-01-09T00:00:05Z")
    assert "segment" not in partly["commonLabels"]
    assert posted(collector, END)["status"] == "resolved"


def test_an_acknowledgement_is_a_firing_alert_that_says_who_looks_after_it(collector):
    (alert,) = posted(collector, message(SEEN, firing=(FIRING,)))["alerts"]
    assert (alert["status"], alert["annotations"]["acknowledgement"]) == (
        "firing",
        "acknowledged by ann: looking",
    )


def test_a_body_is_bounded_and_names_more_than_it_shows_in_full(collector):
    many = tuple(
        replace(BRITISH, segment=f"user={number}", dedup_key=f"{number:032}")
        for number in range(1000)
    )
    body = posted(collector, message(*many, FIRING))
    alerts, left_out = body["alerts"], body["truncatedAlerts"]
    assert alerts[0]["labels"]["segment"] == "all"  # all users stand for the segments
    assert list(alerts[-1]["annotations"]) == ["dedup_key"]
    assert (len(alerts) + left_out, len(alerts) > 25) == (1001, True)
    assert 15_000 < len(collector.requests[-1].body) <= MAX_WEBHOOK_BYTES

    few = posted(collector, message(*many[:4], FIRING))
    assert [len(alert["annotations"]) > 10 for alert in few["alerts"]] == [True] * 5
    assert few["truncatedAlerts"] == 0


def test_what_joins_a_known_incident_is_marked_as_nothing_to_page_for(collector):
    assert (
        posted(collector, message(BRITISH, firing=(FIRING, BRITISH), is_update=True))["is_update"]
        is True
    )
    worse = posted(
        collector, message(BRITISH, wake_ups=2, worse="its severity rose from info to critical")
    )
    assert (worse["worse"], "is_update" in worse) == (
        "its severity rose from info to critical",
        False,
    )


def test_the_same_message_has_the_same_key_and_a_repetition_its_own(collector):
    asked(collector, START, START, END)
    keys = [request.headers["Idempotency-Key"] for request in collector.requests]
    assert keys[0] == keys[1] != keys[2]
    assert all(key.startswith(f"{INCIDENT}:") for key in keys)
    again = message(firing=(FIRING,), is_repetition=True)
    assert (
        len({message_key(again, SLOT), message_key(again, SLOT + timedelta(hours=1)), keys[0]}) == 3
    )


def test_the_signature_is_the_documented_hmac_and_verifies_and_without_a_secret_there_is_none(
    collector,
):
    request = asked(collector, START, secret=SECRET, headers={"X-Team": "ranking"})
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
        return verify_signature(
            secret, changed, request.body + more, now=SLOT + timedelta(seconds=later_s)
        )

    assert verifies(later_s=300)
    assert not verifies(later_s=301)
    assert not verifies(later_s=-301)
    assert not verifies(secret="another")  # noqa: S106 - a test's
    assert not verifies(more=b" ")
    for made_up in ("1704672001", "", "-1", "²", "1e9", "9" * 5000):
        assert not verifies(timestamp=made_up)
    assert not verifies(signature="sha256=ü")
    assert not verify_signature(SECRET, {}, request.body, now=SLOT)
