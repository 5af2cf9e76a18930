"""The content of a message as plain text of short lines, for mail and for services that take nothing but text."""

from collections.abc import Iterable, Iterator
from itertools import chain

from monitor.receivers.message.content import ChangeContent, MessageContent, SideBySide

_WIDEST_ITEM = 34


def plain_text(content: MessageContent, *, has_title: bool = True) -> str:
    """The parts that are not empty, without the title for channels that show it elsewhere."""
    parts = chain(
        [[content.title]] if has_title else [],
        _part("Why", content.why),
        map(_in_full, content.changes[:1]),
        [
            [f"{change.heading}: {change.reason}" for change in content.changes[1:]]
            + [*content.more]
        ],
        _part("What the drop is made of", (f"{name}: {share}" for name, share in content.shares)),
        _part("Items that gained most", content.entered),
        _part("Items that lost most", content.left),
        map(_example, content.examples),
        _part("Links", (f"{name}: {url}" for name, url in content.links)),
        _part("Commands", content.commands),
    )
    return "\n\n".join("\n".join(lines) for part in parts if (lines := tuple(part))) + "\n"


def _in_full(change: ChangeContent) -> Iterator[str]:
    yield change.heading
    yield from [f"  {change.reason}"] if change.reason else []
    yield from (f"  {name}: {value}" for name, value in change.facts)


def _part(title: str, lines: Iterable[str]) -> Iterator[list[str]]:
    indented = [f"  {line}" for line in lines]
    yield [f"{title}:", *indented] if indented else []


def _example(example: SideBySide) -> Iterator[str]:
    yield f"Lists of {example.user}:"
    yield from (f"  {line}" for line in list_lines(example))


def list_lines(example: SideBySide) -> Iterator[str]:
    """Both lists in columns."""
    rows = [
        tuple(_cut(cell) for cell in row) for row in (("", "baseline", "candidate"), *example.rows)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    yield from (
        f"{rank:>{widths[0]}}  {left:<{widths[1]}}  {right}".rstrip() for rank, left, right in rows
    )


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST_ITEM else f"{text[: _WIDEST_ITEM - 11]}…{text[-10:]}"
