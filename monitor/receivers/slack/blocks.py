"""An account as Slack's blocks: the headline, the weightiest change, why, the others, two users' lists, links and commands.

Limits of Block Kit: 50 blocks a message, 3,000 characters a text, ten fields of 2,000 a section.
https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.model import MessageStatus
from monitor.receivers.account import Account, ChangeAccount, SideBySide
from monitor.receivers.slack.mrkdwn import MAX_FIELD, MAX_TEXT, bold, escape, fence, link, stack

MAX_FIELDS = 10
_COLUMN = 34
_MARKS = {MessageStatus.RESOLVED: "✅", MessageStatus.ACKNOWLEDGED: "👀"}


def body_of(account: Account) -> dict[str, object]:
    """The request: blocks, and the headline as the text that notifications show. No address in it is fetched for a preview."""
    return {
        "text": escape(headline_of(account)),
        "blocks": list(_blocks(account)),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def headline_of(account: Account) -> str:
    """The title behind a mark of where the incident stands: its severity while something fires."""
    mark = _MARKS.get(account.status, f"{account.severity.value.upper()}:")
    return f"{mark} {account.title}"


def _blocks(account: Account) -> Iterator[dict[str, object]]:
    yield _section(bold(headline_of(account)))
    first, *others = account.changes
    yield {**_section(_reason(first, is_alone=not others)), "fields": _fields(first)}
    if why := _why(account):
        yield _section(stack(why))
    if others or account.more:
        yield _section(stack([*(_line(change) for change in others), *map(escape, account.more)]))
    for example in account.examples:
        yield _section(fence(_lists(example)))
    yield _section(" · ".join(link(name, url) for name, url in account.links))
    yield _section(fence(account.commands))


def _section(mrkdwn: str) -> dict[str, object]:
    """Verbatim: Slack makes no links and mentions of its own out of what looks like them."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn, "verbatim": True}}


def _reason(change: ChangeAccount, *, is_alone: bool) -> str:
    reason = escape(change.reason.strip() or change.heading)
    return reason if is_alone else stack([bold(change.heading), reason])


def _fields(change: ChangeAccount) -> list[dict[str, object]]:
    told = [stack([bold(name), escape(value, MAX_FIELD // 2)], MAX_FIELD) for name, value in change.facts[:MAX_FIELDS]]
    return [{"type": "mrkdwn", "text": text, "verbatim": True} for text in told]


def _line(change: ChangeAccount) -> str:
    return f"• {bold(change.heading)}: {escape(change.reason, 500)}"


def _why(account: Account) -> list[str]:
    lines = [escape(sentence, MAX_TEXT // 2) for sentence in account.why]
    if account.shares:
        lines.append(escape("Of the drop: " + ", ".join(f"{part} {share}" for part, share in account.shares)))
    for caption, items in (("Entered or rose", account.entered), ("Left or fell", account.left)):
        if items:
            lines += [bold(caption), *(f"• {escape(item)}" for item in items)]
    return [bold("Why"), *lines] if lines else []


def _lists(example: SideBySide) -> Iterator[str]:
    """Both lists in columns, the user above."""
    yield f"user {example.user}"
    yield _row("", "baseline", "candidate")
    for rank, ours, theirs in example.rows:
        yield _row(rank, ours, theirs)


def _row(rank: str, ours: str, theirs: str) -> str:
    return f"{rank:>2}  {_fit(ours):<{_COLUMN}}  {_fit(theirs)}".rstrip()


def _fit(item: str) -> str:
    """The start of a long item, and the mark at its end."""
    return item if len(item) <= _COLUMN else f"{item[: _COLUMN - 11]}…{item[-10:]}"
