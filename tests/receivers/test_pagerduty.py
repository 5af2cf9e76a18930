import base64
import json

import pytest

import messages
from messages import BRITISH, EVERYBODY, acknowledgement, end, message, repetition
from monitor.model.errors import DeliveryError
from monitor.model.rules import Severity
from servers.pagerduty import KEY
from servers.webhook import answer


def send(fake, *sent, **options):
    messages.send(*sent, pagerduty={"url": fake.url, "routing_key": KEY, **options})


def failure(fake, reply):
    fake.collector.replies.append(reply)
    with pytest.raises(DeliveryError) as caught:
        send(fake, message(EVERYBODY))
    assert not caught.value.of_message
    assert KEY not in str(caught.value)
    return caught.value


def test_each_severity_is_one_of_theirs(pagerduty):
    send(pagerduty, *(message(EVERYBODY, severity=severity) for severity in Severity))
    assert [event["payload"]["severity"] for event in pagerduty.events] == [*Severity]


def test_an_incident_is_one_alert_that_is_resolved_when_nothing_of_it_fires_any_more(pagerduty):
    both = EVERYBODY, BRITISH
    send(
        pagerduty,
        message(EVERYBODY),
        message(BRITISH, firing=both),
        message(acknowledgement(), firing=both),
        message(acknowledgement(), firing=both, acknowledged=frozenset({"uk"})),
        message(end(), firing=(BRITISH,)),
        repetition(BRITISH),
    )
    assert list(pagerduty.alerts) == ["home-feed:critical:2024-01-08"]
    send(pagerduty, message(end(segment="country=UK", dedup_key="uk")))
    assert " ".join(event["event_action"] for event in pagerduty.events) == (
        "trigger trigger trigger acknowledge trigger trigger resolve"
    )
    assert list(pagerduty.alerts.values()) == ["resolved"]


def test_an_incident_that_becomes_worse_is_a_new_alert_there_in_place_of_the_one_before(pagerduty):
    both = (EVERYBODY, BRITISH)
    send(pagerduty, message(EVERYBODY), message(BRITISH, firing=both, is_update=True))
    assert len(pagerduty.alerts) == 1
    send(pagerduty, message(BRITISH, firing=both, wake_ups=2, wake_ups_before=1, worse="more"))
    assert list(pagerduty.alerts.values()) == ["resolved", "triggered"]
    send(
        pagerduty,
        message(acknowledgement(), firing=(EVERYBODY,), wake_ups=2),
        message(end(), wake_ups=2),
    )
    assert list(pagerduty.alerts.values()) == ["resolved", "resolved"]
    assert [event["event_action"] for event in pagerduty.events[4:]] == ["acknowledge", "resolve"]


def test_a_long_incident_key_is_cut_and_stays_its_own(pagerduty):
    send(pagerduty, *(message(EVERYBODY, incident="x" * 300 + tail) for tail in "ab"))
    assert len(pagerduty.alerts) == 2
    assert all(len(key) == 255 for key in pagerduty.alerts)


def test_a_202_that_does_not_say_success_is_tried_again(pagerduty):
    quota = b'{"status": "unknown", "message": "quota exceeded"}'
    for body in (quota, b"", b"{}", b"[]", b"<html>", b"[" * 10_000, b"\xff"):
        error = failure(pagerduty, answer(202, body=body))
        assert (error.permanent, error.may_be_known) == (False, True)
        said = " (quota exceeded)" if body == quota else ""
        assert f"answered 202 Accepted but not success{said}: check its URL" in str(error)


def test_the_reason_is_reported_unless_it_may_contain_the_key(pagerduty):
    coded = base64.b64encode(KEY.encode()).decode().rstrip("=")
    harmless = "Event object is invalid"
    for reason in (harmless, f"starts with {KEY[:8].upper()}", f"is x{KEY}", coded):
        body = json.dumps({"status": "invalid event", "message": reason, "errors": [7]})
        error = failure(pagerduty, answer(400, body=body.encode()))
        said = f" ({harmless})" if reason == harmless else ""
        assert str(error) == (
            f"pagerduty at {pagerduty.url} answered 400 Bad Request: the receiver refuses this "
            f"message{said}"
        )
