"""Posts to Slack by an incoming webhook.

A webhook always posts to its own channel. So a message cannot choose a channel.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from monitor.model.errors import DeliveryError
from monitor.model.notifications import Message, MessageStatus
from monitor.receivers.fields import HttpReceiverEntry, RepeatEvery, SecretUrl, repeated
from monitor.receivers.http_client import HttpAnswer, HttpReceiver
from monitor.receivers.message.content import ChangeContent, MessageContent, content_of
from monitor.receivers.message.plain_text import list_lines

MAX_TEXT = 3000
MAX_FIELD = 2000
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = "```"
_MORE = "…"
MAX_FIELDS = 10
_MARKS = {MessageStatus.RESOLVED: "✅", MessageStatus.ACKNOWLEDGED: "👀"}
_NOT_WATCHED = "⏹"
# Slack answers with words such as ``invalid_blocks``. Other answers are not shown, because they may
# contain secrets.
_REASON = re.compile(rb"[a-z]{2,12}(?:_[a-z]{2,12}){0,5}")


class SlackOptions(HttpReceiverEntry):
    """Post to a Slack channel by its incoming webhook."""

    url: SecretUrl
    """URL of the incoming webhook, https://hooks.slack.com/services/... It is a secret: everybody
    who has it can post."""
    repeat_every: RepeatEvery = timedelta(days=1)


def escape_mrkdwn(text: str, limit: int = MAX_TEXT) -> str:
    """The text in Slack's markup, mrkdwn, with at most ``limit`` characters.

    A text that was cut ends with an ellipsis. A cut never divides an escape.
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
    """A heading."""
    # An asterisk inside would end the bold text early.
    visible = heading.replace("*", "∗").strip() or "-"  # noqa: RUF001 - no markup
    return f"*{escape_mrkdwn(visible, MAX_TEXT - 2)}*"


def stack(lines: Iterable[str], limit: int = MAX_TEXT) -> str:
    """As many lines as fit into ``limit`` characters. An ellipsis stands for further lines.

    The lines must be escaped, and each must be shorter than the limit.
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


def fence(rows: Iterable[str]) -> str:
    """The rows as a block of code."""
    room = MAX_TEXT - 2 * len(_FENCE) - 2
    # Backticks inside would end the block early.
    code = (escape_mrkdwn(row.replace("`", "ˋ"), room // 2) for row in rows)  # noqa: RUF001
    return f"{_FENCE}\n{stack(code, room)}\n{_FENCE}"


def link(name: str, url: str) -> str:
    """A link. Characters that would end the URL early are percent-encoded."""
    url = url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E").replace("&", "&amp;")
    return f"<{url}|{escape_mrkdwn(name)}>"


def slack_body(content: MessageContent) -> dict[str, object]:
    """The request: blocks, and the headline for Slack's notifications. Links have no previews."""
    return {
        "text": escape_mrkdwn(headline_of(content)),
        "blocks": list(_blocks(content)),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def headline_of(content: MessageContent) -> str:
    """The title after a mark. The mark is the severity if something is firing."""
    mark = _NOT_WATCHED
    if content.is_watched:
        mark = _MARKS.get(content.status, f"{content.severity.value.upper()}:")
    return f"{mark} {content.title}"


def _blocks(content: MessageContent) -> Iterator[dict[str, object]]:
    situation = map(escape_mrkdwn, content.situation)
    yield _section(stack([bold(headline_of(content)), *situation]))
    first, *others = content.changes
    reason = escape_mrkdwn(first.reason.strip() or first.heading)
    if others:
        reason = stack([bold(first.heading), reason])
    yield {**_section(reason), "fields": _fields(first)}
    why = _why(content)
    if why:
        yield _section(stack(why))
    if others or content.more:
        lines = [
            f"• {bold(change.heading)}: {escape_mrkdwn(change.reason, 500)}" for change in others
        ]
        yield _section(stack([*lines, *map(escape_mrkdwn, content.more)]))
    for example in content.examples:
        yield _section(fence([f"user {example.user}", *list_lines(example)]))
    yield _section(" · ".join(link(name, url) for name, url in content.links))
    if content.commands:
        yield _section(fence(content.commands))


def _section(mrkdwn: str) -> dict[str, object]:
    # With verbatim, Slack makes no links or mentions from the text.
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn, "verbatim": True}}


def _fields(change: ChangeContent) -> list[dict[str, object]]:
    fields: list[dict[str, object]] = []
    for name, value in change.facts[:MAX_FIELDS]:
        field = stack([bold(name), escape_mrkdwn(value, MAX_FIELD // 2)], MAX_FIELD)
        fields.append({"type": "mrkdwn", "text": field, "verbatim": True})
    return fields


def _why(content: MessageContent) -> list[str]:
    lines = []
    for title, texts in {"Why": content.why, **content.details}.items():
        if texts:
            lines.append(bold(title))
        for text in texts:
            lines.append(f"• {escape_mrkdwn(text, MAX_TEXT // 2)}")
    return lines


class Slack(HttpReceiver):
    """One incoming webhook of Slack."""

    is_bounded = True

    def __init__(self, options: SlackOptions, name: str, *, external_url: str) -> None:
        url = options.url.get_secret_value()
        super().__init__(url, name, options, external_url, repeated(options.repeat_every))

    def send(self, message: Message, *, now: datetime) -> None:
        """Post one message. Raises DeliveryError if Slack did not accept it.

        Slack accepts one message in a second. A refusal says when to try again.
        """
        answer = self._post(slack_body(content_of(message, self.external_url)), now)
        # If Slack accepts a message, it answers ``ok``. Any other answer is not from Slack.
        if answer.body is not None and answer.body.strip() != b"ok":
            msg = (
                f"{self._client.who} answered {answer.status_name} without the text ok of Slack: "
                "check its URL"
            )
            raise DeliveryError(msg, permanent=True, may_be_known=True)

    def _reason(self, answer: HttpAnswer) -> str | None:
        """The body of the answer, if it is one of Slack's words. Such words contain no secrets."""
        word = (answer.body or b"").strip()
        return word.decode() if _REASON.fullmatch(word) else None
