"""Posts to Slack by an incoming webhook.

A webhook belongs to one channel, so a message cannot choose a channel.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from monitor.model.errors import DeliveryError
from monitor.model.notifications import Message, MessageStatus
from monitor.receivers.http_client import HttpAnswer, HttpReceiver
from monitor.receivers.message.content import ChangeContent, MessageContent, content_of
from monitor.receivers.message.plain_text import list_lines
from monitor.receivers.receiver_options import (
    HttpReceiverEntry,
    RepeatEvery,
    SecretUrl,
    repeating_treatment,
)

MAX_TEXT = 3000
MAX_FIELD = 2000
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = "```"
_MORE = "…"
MAX_FIELDS = 10
_MARKS = {MessageStatus.RESOLVED: "✅", MessageStatus.ACKNOWLEDGED: "👀"}
_NO_RULE = "⏹"
# Slack answers with a word such as ``invalid_blocks``. Any other answer is not shown, because it
# may contain secrets.
_REASON = re.compile(rb"[a-z]{2,12}(?:_[a-z]{2,12}){0,5}")


class SlackOptions(HttpReceiverEntry):
    """Post to a Slack channel by its incoming webhook."""

    url: SecretUrl
    """The URL of the incoming webhook, https://hooks.slack.com/services/... The URL is a secret,
    because anyone who has the URL can post to the channel."""
    repeat_every: RepeatEvery = timedelta(days=1)


def escape_mrkdwn(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text in mrkdwn, Slack's markup, with at most ``limit`` characters.

    If the text is too long, it ends with an ellipsis. An escape such as ``&amp;`` is never cut in
    two.
    """
    pieces = [_ESCAPES.get(char, char) for char in text]
    if sum(map(len, pieces)) <= limit:
        return "".join(pieces)
    mrkdwn = ""
    for piece in pieces:
        if len(mrkdwn) + len(piece) > limit - len(_MORE):
            break
        mrkdwn += piece
    return mrkdwn + _MORE


def bold(heading: str) -> str:
    """Return the heading as bold text."""
    # Replace asterisks, because they would end the bold text too early.
    visible = heading.replace("*", "∗").strip() or "-"  # noqa: RUF001 - no markup
    return f"*{escape_mrkdwn(visible, MAX_TEXT - 2)}*"


def stack_lines(lines: Iterable[str], limit: int = MAX_TEXT) -> str:
    """The first lines, as many as fit into ``limit`` characters, and an ellipsis for the others.

    The lines must be escaped already. Each line must be shorter than the limit.
    """
    shown: list[str] = []
    left = limit - len(_MORE)
    for line in lines:
        if len(line) > left:
            shown.append(_MORE)
            break
        shown.append(line)
        left -= len(line) + 1
    return "\n".join(shown)


def code_block(rows: Iterable[str]) -> str:
    """Return the rows as a block of code."""
    room = MAX_TEXT - 2 * len(_FENCE) - 2
    # Replace backticks, because they would end the block too early.
    code = (escape_mrkdwn(row.replace("`", "ˋ"), room // 2) for row in rows)  # noqa: RUF001
    return f"{_FENCE}\n{stack_lines(code, room)}\n{_FENCE}"


def mrkdwn_link(name: str, url: str) -> str:
    """Return a link in mrkdwn. Characters that would end the URL too early are encoded."""
    url = url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E").replace("&", "&amp;")
    return f"<{url}|{escape_mrkdwn(name)}>"


def slack_body(content: MessageContent) -> dict[str, object]:
    """The body of the request. Its text is the headline, which Slack shows in notifications."""
    return {
        "text": escape_mrkdwn(headline_of(content)),
        "blocks": list(_blocks(content)),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def headline_of(content: MessageContent) -> str:
    """Return the title with a mark before it.

    While an alert is firing, the mark is the severity. If the message is urgent, the mark says so.
    """
    mark = _NO_RULE
    if content.has_rules:
        severity = "urgent" if content.is_urgent else content.severity.value
        mark = _MARKS.get(content.status, f"{severity.upper()}:")
    return f"{mark} {content.title}"


def _blocks(content: MessageContent) -> Iterator[dict[str, object]]:
    """Yield the sections: what happened and what to do, then the alerts, then details."""
    situation = map(escape_mrkdwn, content.situation)
    yield _section(stack_lines([bold(headline_of(content)), *situation]))
    if content.why:
        yield _section(stack_lines(_points("Why", content.why)))
    if content.commands:
        yield _section(code_block(content.commands))
    yield _section(" · ".join(mrkdwn_link(name, url) for name, url in content.links))
    first, *others = content.changes
    reason = escape_mrkdwn(first.reason.strip() or first.heading)
    if others:
        reason = stack_lines([bold(first.heading), reason])
    yield {**_section(reason), "fields": _fields(first)}
    if others or content.more:
        lines = [
            f"• {bold(change.heading)}: {escape_mrkdwn(change.reason, 500)}" for change in others
        ]
        yield _section(stack_lines([*lines, *map(escape_mrkdwn, content.more)]))
    details: list[str] = []
    for title, texts in content.details.items():
        details += _points(title, texts)
    if details:
        yield _section(stack_lines(details))
    for example in content.examples:
        yield _section(code_block([f"user {example.user}", *list_lines(example)]))


def _section(mrkdwn: str) -> dict[str, object]:
    # With verbatim, Slack does not turn parts of the text into links or mentions.
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn, "verbatim": True}}


def _fields(change: ChangeContent) -> list[dict[str, object]]:
    fields: list[dict[str, object]] = []
    for name, value in change.facts[:MAX_FIELDS]:
        field = stack_lines([bold(name), escape_mrkdwn(value, MAX_FIELD // 2)], MAX_FIELD)
        fields.append({"type": "mrkdwn", "text": field, "verbatim": True})
    return fields


def _points(title: str, texts: Iterable[str]) -> list[str]:
    points = [f"• {escape_mrkdwn(text, MAX_TEXT // 2)}" for text in texts]
    return [bold(title), *points]


class Slack(HttpReceiver):
    """One incoming webhook of Slack."""

    has_small_messages = True

    def __init__(self, options: SlackOptions, name: str, *, external_url: str) -> None:
        url = options.url.get_secret_value()
        super().__init__(
            url, name, options, external_url, repeating_treatment(options.repeat_every)
        )

    def send(self, message: Message, *, now: datetime) -> None:
        """Post one message. Raises DeliveryError if Slack did not accept it.

        Slack accepts one message per second. If it refuses a message, it says when to try again.
        """
        answer = self._post(slack_body(content_of(message, self.external_url)), now)
        # If Slack accepts a message, it answers ``ok``. Any other answer with success is not from
        # Slack.
        if answer.body is not None and answer.body.strip() != b"ok":
            msg = (
                f"{self._client.who} answered {answer.status_name} without the text ok of Slack: "
                "check its URL"
            )
            raise DeliveryError(msg, permanent=True, may_be_known=True)

    def _reason(self, answer: HttpAnswer) -> str | None:
        """The body of the answer, if it has the form of Slack's words, which contain no secrets."""
        word = (answer.body or b"").strip()
        return word.decode() if _REASON.fullmatch(word) else None
