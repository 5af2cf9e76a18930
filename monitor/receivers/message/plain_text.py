"""Writes the content of a message as plain text, for mails and for services without markup."""

from collections.abc import Sequence

from monitor.receivers.message.content import MessageContent, SideBySide

_WIDEST_ITEM = 34


def plain_text(content: MessageContent, *, has_title: bool = True) -> str:
    """Return the content as text. Empty parts are left out. What a reader needs first comes first.

    ``has_title`` is false if the receiver shows the title in another place.
    """
    first, *others = content.changes
    reason = [first.reason] if first.reason else []
    links = [f"{name}: {url}" for name, url in content.links]
    parts = [
        "\n".join(content.situation),
        _titled_part("Why:", content.why),
        _titled_part("Commands:", content.commands),
        _titled_part("Links:", links),
        _titled_part(first.heading, reason + [f"{name}: {value}" for name, value in first.facts]),
        "\n".join([*(f"{change.heading}: {change.reason}" for change in others), *content.more]),
        *(_titled_part(f"{title}:", lines) for title, lines in content.details.items()),
        *(
            _titled_part(f"Lists of {example.user}:", list_lines(example))
            for example in content.examples
        ),
    ]
    if has_title:
        parts.insert(0, content.title)
    return "\n\n".join(filter(None, parts)) + "\n"


def _titled_part(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return "\n  ".join([title, *lines])


def list_lines(example: SideBySide) -> list[str]:
    """Lines that show both lists in columns."""
    rows = [("", *example.heads), *example.rows]
    rows = [(rank, _cut_item(left), _cut_item(right)) for rank, left, right in rows]
    rank_width = max(len(rank) for rank, _, _ in rows)
    left_width = max(len(left) for _, left, _ in rows)
    return [
        f"{rank:>{rank_width}}  {left:<{left_width}}  {right}".rstrip()
        for rank, left, right in rows
    ]


def _cut_item(item: str) -> str:
    return item if len(item) <= _WIDEST_ITEM else f"{item[: _WIDEST_ITEM - 11]}…{item[-10:]}"
