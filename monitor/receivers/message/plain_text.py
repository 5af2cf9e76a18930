"""Writes the content of a message as plain text, for mail and for text-only services."""

from collections.abc import Iterable, Iterator, Sequence

from monitor.receivers.message.content import ChangeContent, MessageContent, SideBySide

_WIDEST_ITEM = 34


def plain_text(content: MessageContent, *, has_title: bool = True) -> str:
    """The text with all parts that are not empty.

    ``has_title`` is false for receivers that show the title in another place.
    """
    first, *others = content.changes
    parts = [
        _part("Why", content.why),
        _in_full(first),
        [*(f"{change.heading}: {change.reason}" for change in others), *content.more],
        _part("What the drop is made of", [f"{part}: {share}" for part, share in content.shares]),
        _part("Items that gained most", content.entered),
        _part("Items that lost most", content.left),
        *([f"Lists of {each.user}:", *_indent(list_lines(each))] for each in content.examples),
        _part("Links", [f"{name}: {url}" for name, url in content.links]),
        _part("Commands", content.commands),
    ]
    if has_title:
        parts.insert(0, [content.title])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _in_full(change: ChangeContent) -> list[str]:
    lines = [f"{name}: {value}" for name, value in change.facts]
    if change.reason:
        lines.insert(0, change.reason)
    return [change.heading, *_indent(lines)]


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *_indent(lines)] if lines else []


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def list_lines(example: SideBySide) -> Iterator[str]:
    """The lines of both lists, in columns."""
    rows = [("", "baseline", "candidate"), *example.rows]
    rows = [(rank, _cut(left), _cut(right)) for rank, left, right in rows]
    rank_width = max(len(rank) for rank, _, _ in rows)
    left_width = max(len(left) for _, left, _ in rows)
    for rank, left, right in rows:
        yield f"{rank:>{rank_width}}  {left:<{left_width}}  {right}".rstrip()


def _cut(item: str) -> str:
    return item if len(item) <= _WIDEST_ITEM else f"{item[: _WIDEST_ITEM - 11]}…{item[-10:]}"
