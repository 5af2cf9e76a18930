import re

import pytest
from hypothesis import given, strategies as st

import messages
from monitor.model.errors import DeliveryError
from monitor.receivers.message.content import content_of
from monitor.receivers.slack import (
    bold,
    code_block,
    escape_mrkdwn,
    mrkdwn_link,
    slack_body,
    stack_lines,
)
from servers.slack import find_errors
from servers.webhook import answer


def failure(fake, status, body):
    fake.collector.replies.append(answer(status, body=body))
    with pytest.raises(DeliveryError) as caught:
        messages.send(messages.message(messages.EVERYBODY), slack={"url": fake.url})
    assert not caught.value.of_message
    assert "canary" not in str(caught.value)
    return caught.value


def test_a_refusal_of_slack_is_reported_with_its_code_and_a_200_that_does_not_say_ok_is_no_webhook(
    slack,
):
    error = failure(slack, 410, b"channel_is_archived")
    assert error.permanent
    assert re.search(r"answered 410 .*\(channel_is_archived\)", str(error))
    for body in (b"", b"<html>", b'{"ok":false,"error":"invalid_auth"}'):
        error = failure(slack, 200, body)
        assert (error.permanent, error.may_be_known) == (True, True)
        assert "answered 200 OK without the text ok of Slack: check its URL" in str(error)


def test_what_slack_reads_as_markup_is_escaped():
    assert escape_mrkdwn("<!channel> & <@U1>") == "&lt;!channel&gt; &amp; &lt;@U1&gt;"
    assert bold("2 * 3") == "*2 ∗ 3*"  # noqa: RUF001 - the mark that takes the asterisk's place
    assert code_block(["``` out"]) == "```\nˋˋˋ out\n```"  # noqa: RUF001 - likewise
    link = mrkdwn_link("a|b>", "https://x.test/?a=1&b=<|>")
    assert link == "<https://x.test/?a=1&amp;b=%3C%7C%3E|a|b&gt;>"


def test_what_is_cut_cuts_no_escape_in_two():
    cut = "&amp;&amp;&amp; &amp;&amp;… &amp;… …"
    assert " ".join(escape_mrkdwn("&&&", limit) for limit in (15, 14, 6, 5)) == cut
    assert stack_lines(["one", "two", "three"], 8) == "one\ntwo\n…"
    assert stack_lines(["one", "two"], 8) == "one\ntwo"


@given(st.text(st.characters(codec=None), max_size=3000))
def test_any_text_gives_blocks_within_their_limits_and_no_mention(text):
    body = slack_body(content_of(messages.hostile_message(text), messages.URL))
    assert not list(find_errors(body))
