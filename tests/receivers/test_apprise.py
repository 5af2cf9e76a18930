import logging
import sys

import pytest

from factories import SLOT, transition
from messages import END, START, message, opened
from monitor.model.errors import DeliveryError
from monitor.receivers.apprise import AppriseOptions, defuse
from servers.webhook import answer, disconnect, hang, running_webhook


def url_of(collector):
    return f"{collector.url.replace('http:', 'json:')}/canary-token"


def notifying(*urls, **options):
    named = {f"service-{number}": url for number, url in enumerate(urls, start=1)}
    return opened(apprise={"urls": named, **options})


def test_title_and_text_reach_the_service_as_a_failure_mentioning_nobody_and_the_end_as_a_success(
    collector,
):
    change = transition(reason="@everyone <!channel> <@U123>")
    receiver = notifying(url_of(collector))
    receiver.send(message(change, firing=(change,)), now=SLOT)
    receiver.send(END, now=SLOT)
    start, end = (request.json() for request in collector.requests)
    title = defuse(f"SimilarityLow firing on home-feed: {change.reason}")
    assert (start["title"], start["type"], end["type"]) == (title, "failure", "success")
    assert defuse(change.reason) in start["message"]
    assert not start["message"].startswith(start["title"])


def test_whatever_is_no_success_is_a_failure_that_may_pass_and_redirects_are_not_followed(
    collector,
):
    receiver = notifying(url_of(collector), timeout="500ms")
    moved = answer(307, {"Location": f"{collector.url}/elsewhere"})
    for reply in (answer(500), answer(404), moved, disconnect, hang):
        collector.replies.append(reply)
        with pytest.raises(DeliveryError) as caught:
            receiver.send(START, now=SLOT)
        assert (caught.value.permanent, caught.value.may_be_known) == (False, True)
        outcome = "timeout" if reply is hang else "failure"
        assert str(caught.value) == (
            f"apprise: service-1 ended with {outcome}; 0 of 1 services have the message: "
            "a later attempt may succeed"
        )
    assert {request.path for request in collector.requests} == {"/canary-token"}


def test_only_the_service_that_did_not_accept_it_is_notified_again(collector):
    said = "service-2 ended with failure; 1 of 2 services"
    with running_webhook() as other:
        other.replies.append(answer(503))
        receiver = notifying(url_of(collector), url_of(other))
        with pytest.raises(DeliveryError, match=said) as caught:
            receiver.send(START, now=SLOT)
        receiver.send(START, now=SLOT)
        assert (len(collector.requests), len(other.requests)) == (1, 2)
        assert caught.value.may_be_known


def test_a_url_that_apprise_cannot_read_is_refused_without_showing_it(caplog):
    for url in (
        "file:///etc/canary",
        "canary",
        "nosuch://canary",
        "http://canary",
        "json://",
        "json://a,json://b",
    ):
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(ValueError, match="two is not a URL that Apprise can read") as caught,
        ):
            AppriseOptions.model_validate({"urls": {"one": "json://127.0.0.1", "two": url}})
        assert "canary" not in str(caught.value) + caplog.text


def test_a_mention_is_broken_and_plain_signs_stay():
    assert defuse("a < b, at @ noon") == "a < b, at @ noon"
    assert defuse("@here <!channel>") == "@\u200bhere <\u200b!channel>"


def test_without_the_extra_the_configuration_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(
        ValueError, match=r"Apprise is not installed: pip install 'WHEEL\[apprise\]'"
    ) as caught:
        AppriseOptions.model_validate({"urls": {"one": "json://canary"}})
    assert "canary" not in str(caught.value)
