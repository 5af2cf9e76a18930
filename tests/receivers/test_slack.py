import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

LINK = "http://rankwatch.test:29108/c/home-feed/runs/2024-01-08T00:00:00Z?segment=all"


def post(fake, sent):
    """The texts of the blocks that were taken, fields behind their section."""
    messages.send(sent, slack={"url": fake.url})
    blocks = fake.posts[-1]["blocks"]
    return [text["text"] for block in blocks for text in (block["text"], *block.get("fields", []))]


def failure(fake, status, body):
    fake.collector.replies.append(answer(status, body=body))
    with pytest.raises(DeliveryError) as caught:
        messages.send(messages.message(messages.EVERYBODY), slack={"url": fake.url})
    assert not caught.value.of_message
    assert "canary" not in str(caught.value)
    return caught.value


def test_a_start_is_a_headline_its_figures_why_two_users_links_and_commands(slack):
    texts = post(slack, messages.message(messages.EVERYBODY, briefing=messages.briefing()))
    other = texts.pop()
    assert other.startswith("```\nuser u-42\n")
    assert other.endswith("10  i9 (only here)  j9 (only here)\n    2 more\n```")
    assert texts == [
        (
            f"*CRITICAL: SimilarityLow firing on home-feed: {messages.EVERYBODY.reason}*\n"
            "Still going on, since 2024-01-07T00:00:00Z.\n"
            "Critical: look at it now.\n"
            "Contacts: team ranking."
        ),
        (
            "*Why*\n• No clear cause. Similarity fell by 0.2500: items replaced 62 %, items moved "
            "38 %.\n"
            "• Items in the lists of one arm only: 1 of the baseline, 14 of the candidate."
        ),
        (
            "```\nrankwatch show home-feed --slot 2024-01-08T00:00:00Z\n"
            "rankwatch alerts ack home-feed --alert SimilarityLow\n"
            "rankwatch silence add alert=SimilarityLow comparison=home-feed --for 25h\n"
            "rankwatch runs home-feed\n```"
        ),
        f"<{LINK}|run> · <https://runbooks.test/similarity|runbook>",
        "mean of extended_tau is 0.254 over 1,874 users, below 0.35",
        "*segment*\nnone, the whole population",
        "*mean of extended_tau*\n0.254 (95 % interval 0.24 to 0.268)",
        "*users*\n1,874",
        "*threshold*\nbelow 0.35",
        "*normal before*\n0.61",
        "*in breach since*\n2024-01-07T00:00:00Z",
        "*run*\n2024-01-08T00:00:00Z",
        (
            "*What the drop is made of*\n• items replaced: 62 %\n• items moved: 38 %\n"
            "*Items that gained most*\n• Red shoes (sku-1): in 3 % of baseline lists, 61 % of "
            "candidate lists\n"
            "*Items that lost most*\n• sku-2: in 70 % of baseline lists, 0 % of candidate lists"
        ),
        (
            "```\nuser u-17\n"
            "   baseline           candidate\n"
            "1  sku-2 (only here)  Red shoes (only here)\n"
            "2  sku-3              sku-3\n"
            "3  sku-5              sku-4 (there: 4)\n"
            "4  sku-4              sku-5 (there: 3)\n"
            "5  sku-6 (only here)\n```"
        ),
    ]
    assert slack.posts[0]["text"] == texts[0].splitlines()[0].strip("*")
    assert (slack.posts[0]["unfurl_links"], slack.posts[0]["unfurl_media"]) == (False, False)


def test_the_headline_shows_where_the_incident_stands(slack):
    goes_on = messages.message(messages.end(), firing=(messages.BRITISH,))
    sent = messages.message(messages.end()), messages.message(messages.acknowledgement()), goes_on
    assert [post(slack, each)[0].splitlines()[0] for each in sent] == [
        "*✅ SimilarityLow resolved on home-feed*",
        "*👀 SimilarityLow acknowledged on home-feed*",
        "*CRITICAL: SimilarityLow resolved on home-feed; 1 still firing*",
    ]


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
    assert list(find_errors(body)) == []
