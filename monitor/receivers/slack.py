"""Slack, by an incoming webhook: the channel is the webhook's own, so nothing in a message can choose another."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from pydantic import Field

from monitor.errors import DeliveryError
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
# Its answers are words such as ``invalid_blocks``; no other text is shown, since it could echo
# anything.
_REASON = re.compile(rb"[a-z]{2,12}(?:_[a-z]{2,12}){0,5}")


class SlackOptions(HttpReceiverEntry):
    """Post to a Slack channel by its incoming webhook."""

    url: SecretUrl = Field(
        description=(
            "The incoming webhook's URL, https://hooks.slack.com/services/... A secret: "
            "it lets anybody post."
        )
    )
    repeat_every: RepeatEvery = timedelta(days=1)


def escape_mrkdwn(text: str, limit: int = MAX_TEXT) -> str:
    """The text as mrkdwn of at most ``limit`` characters.

    What is cut ends in an ellipsis and cuts no escape in two.
    """
    pieces = [_ESCAPES.get(char, char) for char in text]
    if sum(map(len, pieces)) <= limit:
        return "".join(pieces)
    kept, left = [], limit - len(_MORE)
    for piece in pieces:
        if len(piece) > left:
            break
        kept.append(piece)
        left -= len(piece)
    return "".join(kept) + _MORE


def bold(text: str) -> str:
    """A heading."""
    # Asterisks within would end it early.
    return f"*{escape_mrkdwn(text.replace('*', '∗').strip() or '-', MAX_TEXT - 2)}*"  # noqa: RUF001 - an asterisk that is no markup


def stack(lines: Iterable[str], limit: int = MAX_TEXT) -> str:
    """As many lines as fit, of text that is escaped already and each shorter than the limit.

    An ellipsis for the others.
    """
    kept: list[str] = []
    left = limit - len(_MORE)
    for line in lines:
        if len(line) > left:
            kept.append(_MORE)
            break
        kept.append(line)
        left -= len(line) + 1
    return "\n".join(kept)


def fence(lines: Iterable[str]) -> str:
    """Lines as a block of code."""
    room = MAX_TEXT - 2 * len(_FENCE) - 2
    # Backticks within would end it early.
    return f"{_FENCE}\n{stack((escape_mrkdwn(line.replace('`', 'ˋ'), room // 2) for line in lines), room)}\n{_FENCE}"  # noqa: RUF001


def link(name: str, url: str) -> str:
    """A link; what could end its address early is percent-encoded."""
    safe = url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E")
    return f"<{safe.replace('&', '&amp;')}|{escape_mrkdwn(name)}>"


def slack_body(content: MessageContent) -> dict[str, object]:
    """The request: blocks, and the headline as the text that notifications show.

    No address in it is fetched for a preview.
    """
    return {
        "text": escape_mrkdwn(headline_of(content)),
        "blocks": list(_blocks(content)),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def headline_of(content: MessageContent) -> str:
    """The title behind a mark of where the incident stands: its severity while something fires."""
    mark = (
        _MARKS.get(content.status, f"{content.severity.value.upper()}:")
        if content.is_watched
        else _NOT_WATCHED
    )
    return f"{mark} {content.title}"


def _blocks(content: MessageContent) -> Iterator[dict[str, object]]:
    yield _section(bold(headline_of(content)))
    first, *others = content.changes
    yield {**_section(_reason(first, is_alone=not others)), "fields": _fields(first)}
    if why := _why(content):
        yield _section(stack(why))
    if others or content.more:
        lines = (
            f"• {bold(change.heading)}: {escape_mrkdwn(change.reason, 500)}" for change in others
        )
        yield _section(stack([*lines, *map(escape_mrkdwn, content.more)]))
    for example in content.examples:
        yield _section(fence([f"user {example.user}", *list_lines(example)]))
    yield _section(" · ".join(link(name, url) for name, url in content.links))
    yield _section(fence(content.commands))


def _section(mrkdwn: str) -> dict[str, object]:
    # Verbatim: Slack makes no links and mentions of its own out of what looks like them.
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn, "verbatim": True}}


def _reason(change: ChangeContent, *, is_alone: bool) -> str:
    reason = escape_mrkdwn(change.reason.strip() or change.heading)
    return reason if is_alone else stack([bold(change.heading), reason])


def _fields(change: ChangeContent) -> list[dict[str, object]]:
    texts = [
        stack([bold(name), escape_mrkdwn(value, MAX_FIELD // 2)], MAX_FIELD)
        for name, value in change.facts[:MAX_FIELDS]
    ]
    return [{"type": "mrkdwn", "text": text, "verbatim": True} for text in texts]


def _why(content: MessageContent) -> list[str]:
    lines = [escape_mrkdwn(sentence, MAX_TEXT // 2) for sentence in content.why]
    if content.shares:
        lines.append(
            escape_mrkdwn(
                "Of the drop: " + ", ".join(f"{part} {share}" for part, share in content.shares)
            )
        )
    for caption, items in (("Entered or rose", content.entered), ("Left or fell", content.left)):
        if items:
            lines += [bold(caption), *(f"• {escape_mrkdwn(item)}" for item in items)]
    return [bold("Why"), *lines] if lines else []


class Slack(HttpReceiver):
    """One incoming webhook."""

    is_bounded = True

    def __init__(self, options: SlackOptions, name: str, *, external_url: str) -> None:
        url, treatment = options.url.get_secret_value(), repeated(options.repeat_every)
        super().__init__(url, name, options, treatment=treatment)
        self._external_url = external_url

    def send(self, message: Message, *, now: datetime) -> None:
        """Post one message.

        DeliveryError when Slack did not accept it; of more than one a second it says when to try
        again.
        """
        body = json.dumps(
            slack_body(content_of(message, self._external_url)), ensure_ascii=False
        ).encode()
        answer = self._post(body, {"Content-Type": "application/json; charset=utf-8"}, now)
        # Slack answers ``ok`` to what it accepts; whatever answers something else is not Slack, and
        # is refused for good.
        if answer.body is not None and answer.body.strip() != b"ok":
            msg = (
                f"{self._client.who} answered {answer.status_name} but not ok, as Slack does: "
                "check its URL"
            )
            raise DeliveryError(msg, permanent=True, may_be_known=True)

    def _reason(self, answer: HttpAnswer) -> str | None:
        """Its answer, if it is such a word."""
        word = (answer.body or b"").strip()
        return word.decode() if _REASON.fullmatch(word) else None
