import json
from datetime import UTC, datetime, timedelta

import pytest

from factories import SLOT, transition
from messages import LABELS, URL, end, many, message, opened, send, start
from monitor.receivers.alertmanager import alert_of
from monitor.receivers.message.identity import alert_labels
from servers.daemon import wait_for

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than the clock of a real Alertmanager; SLOT is earlier."""


def test_an_alert_carries_stable_labels_and_its_figures_and_what_explains_it_in_annotations():
    why = "All of the drop: country=UK, items replaced."
    there = {"job": "rankwatch", "namespace": "recs", "team": "nobody"}
    plain = alert_of([transition(explanation=None)], SLOT + timedelta(minutes=9), URL, there)
    alert = alert_of([transition(explanation=why)], SLOT + timedelta(minutes=9), URL)
    # Labels of the place stand beside those of the alert, which win.
    assert (alert["labels"], plain["labels"]) == (LABELS, there | LABELS)
    annotations = alert["annotations"]
    assert isinstance(annotations, dict)
    figures = ["0.254", "0.35", "1874", "https://runbooks.test/similarity", why]
    names = ("value", "threshold", "users", "runbook_url", "explanation")
    assert [annotations[name] for name in names] == figures
    assert "explanation" not in str(plain)
    assert f"Why: {why}" in annotations["description"]
    assert (alert["startsAt"], alert["endsAt"]) == ("2024-01-08T00:00:05Z", "2024-01-08T00:09:00Z")
    assert alert["generatorURL"] == f"{URL}/c/home-feed/runs/2024-01-08T00:00:00Z?segment=all"


def test_an_end_carries_the_same_labels_and_the_time_of_its_end():
    alert = alert_of([end(at=SLOT + timedelta(days=2), since=SLOT, incident=None)], SLOT, URL)
    assert alert["labels"] == alert_labels(transition())
    assert (alert["startsAt"], alert["endsAt"]) == ("2024-01-08T00:00:00Z", "2024-01-10T00:00:00Z")


def test_a_rule_s_labels_never_override_ours_and_are_made_legal():
    labels = alert_labels(
        transition(labels={"severity": "none", "on-call": "me", "1st": "x", "": "y"})
    )
    assert labels["severity"] == "critical"
    assert (labels["on_call"], labels["_1st"], labels["_"]) == ("me", "x", "y")


def posted(collector, *changes, firing=()):
    send(message(*changes, firing=firing), alertmanager={"urls": [collector.url]})
    return json.loads(collector.requests[-1].body)


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
    assert (still["endsAt"], over["endsAt"]) == ("2024-01-08T00:05:00Z", "2024-01-09T00:00:05Z")


def test_an_alert_has_at_most_4000_characters_of_annotations(collector):
    huge = "x" * 100_000
    names = {
        "reason": huge,
        "explanation": huge,
        "runbook_url": huge,
        "segment": huge,
        "alert": huge,
    }
    (alert,) = posted(collector, *(start(dedup_key=str(number), **names) for number in range(100)))
    assert sum(len(name) + len(text) for name, text in alert["annotations"].items()) <= 4000


def test_the_end_of_a_firing_alert_lies_four_resends_ahead_and_at_least_five_minutes(collector):
    for resend, minutes in (("1m", 5), ("15m", 60)):
        receiver = opened(alertmanager={"urls": [collector.url], "resend_every": resend})
        receiver.send(message(transition()), now=SLOT + timedelta(hours=1))
        (sent,) = json.loads(collector.requests[-1].body)
        assert datetime.fromisoformat(sent["endsAt"]) == SLOT + timedelta(hours=1, minutes=minutes)


def test_credentials_are_sent_as_a_header_and_the_path_prefix_is_kept(collector):
    for options, header in (
        ({"basic_auth": {"username": "me", "password": "pä"}}, "Basic bWU6cMOk"),
        ({"bearer_token": "abc"}, "Bearer abc"),
    ):
        send(message(transition()), alertmanager={"urls": [f"{collector.url}/prefix/"], **options})
        request = collector.requests[-1]
        assert (request.path, request.headers["Authorization"]) == ("/prefix/api/v2/alerts", header)


@pytest.mark.integration
def test_a_real_one_holds_a_firing_alert_through_resends_and_lets_it_go_at_its_end(
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
    assert held["annotations"]["summary"].startswith(
        "SimilarityLow firing on home-feed (country=UK)"
    )
    assert datetime.fromisoformat(held["startsAt"]) == firing.at
    assert datetime.fromisoformat(held["endsAt"]) > FUTURE
    collector.wait_for(1)

    ended = end(
        at=SLOT + timedelta(days=2), since=firing.slot, segment=firing.segment, incident=None
    )
    receiver.send(message(ended), now=FUTURE)

    wait_for(lambda: server.alerts() == [], "the alert is gone")
    statuses = [json.loads(request.body)["status"] for request in collector.wait_for(2)]
    assert statuses == ["firing", "resolved"]
