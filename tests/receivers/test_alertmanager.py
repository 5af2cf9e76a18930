from datetime import UTC, datetime

import pytest

from factories import SLOT, transition
from messages import LABELS, URL, end, many, message, opened, send, start
from monitor.receivers.alertmanager import alert_of
from monitor.receivers.message.identity import alert_labels
from servers.daemon import wait_for
from tables import parsed

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than the clock of a real Alertmanager; SLOT is earlier."""


def test_labels_of_the_place_are_added_and_never_override_those_of_the_alert():
    there = {"job": "rankwatch", "namespace": "recs", "team": "nobody"}
    assert alert_of([transition()], SLOT, URL, there)["labels"] == there | LABELS


def test_a_rule_s_labels_never_override_ours_and_are_made_legal():
    labels = alert_labels(
        transition(labels={"severity": "none", "on-call": "me", "1st": "x", "": "y"})
    )
    assert labels["severity"] == "critical"
    assert (labels["on_call"], labels["_1st"], labels["_"]) == ("me", "x", "y")


def posted(collector, *changes, firing=()):
    send(message(*changes, firing=firing), alertmanager={"urls": [collector.url]})
    return collector.requests[-1].json()


def test_segments_of_one_rule_are_one_alert_which_ends_with_the_last_of_them(collector):
    starts = (start(users=9000), *many(61))
    other = start(alert="Other", dedup_key="other")
    alerts = posted(collector, *starts, other, firing=(*starts, other))
    assert [alert["labels"]["alertname"] for alert in alerts] == ["SimilarityLow", "Other"]
    assert "segment" not in alerts[0]["labels"]
    assert alerts[0]["annotations"]["summary"].endswith("(and 61 more segments)")
    assert alerts[0]["annotations"]["segments"].startswith("all, shop=0000, shop=0001, ")

    ends = [end(segment=each.segment, dedup_key=each.dedup_key) for each in starts]
    (still,) = posted(collector, *ends[1:], firing=starts[:1])
    (over,) = posted(collector, ends[0])
    assert still["labels"] == over["labels"] == alerts[0]["labels"]
    assert still["endsAt"] == "2024-01-08T00:05:00Z"  # five minutes ahead at least
    assert (over["startsAt"], over["endsAt"]) == ("2024-01-07T00:00:00Z", "2024-01-09T00:00:05Z")


def test_an_alert_has_at_most_4000_characters_of_annotations(collector):
    names = ("reason", "explanation", "runbook_url", "segment", "alert")
    huge = dict.fromkeys(names, "x" * 100_000)
    (alert,) = posted(collector, *(start(dedup_key=str(number), **huge) for number in range(100)))
    assert sum(len(name) + len(text) for name, text in alert["annotations"].items()) <= 4000


def test_a_firing_alert_ends_four_resends_ahead(collector):
    receiver = opened(alertmanager={"urls": [collector.url], "resend_every": "15m"})
    receiver.send(message(transition()), now=SLOT)
    (sent,) = collector.requests[-1].json()
    assert sent["endsAt"] == "2024-01-08T01:00:00Z"


def test_credentials_are_sent_as_a_header_and_the_path_prefix_is_kept(collector):
    for options, header in parsed("""
        [{"basic_auth": {"username": "me", "password": "pä"}}, "Basic bWU6cMOk"]
        [{"bearer_token": "abc"}, "Bearer abc"]
    """):
        send(message(transition()), alertmanager={"urls": [f"{collector.url}/prefix/"], **options})
        request = collector.requests[-1]
        assert (request.path, request.headers["Authorization"]) == ("/prefix/api/v2/alerts", header)


@pytest.mark.integration
def test_a_real_one_keeps_a_firing_alert_during_resends_and_resolves_it_at_its_end(
    make_alertmanager, collector
):
    server = make_alertmanager(collector.url)
    server.start()
    firing = transition(segment="country=UK")
    receiver = opened(alertmanager={"urls": [server.url]})
    for _ in range(3):
        receiver.send(message(firing), now=FUTURE)
    (held,) = server.alerts()
    assert (held["labels"], held["status"]["state"]) == (alert_labels(firing), "active")
    assert datetime.fromisoformat(held["startsAt"]) == firing.at
    assert datetime.fromisoformat(held["endsAt"]) > FUTURE
    collector.wait_for(1)

    receiver.send(message(end(segment=firing.segment, incident=None)), now=FUTURE)

    wait_for(lambda: server.alerts() == [], "the alert is gone")
    statuses = [request.json()["status"] for request in collector.wait_for(2)]
    assert statuses == ["firing", "resolved"]
