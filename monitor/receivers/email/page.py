"""An account as an HTML page for mail: everything escaped, nothing loaded from anywhere, no script, few tags."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from monitor.model import MessageStatus
from monitor.receivers.account import Account, ChangeAccount, SideBySide

_COLOURS = {MessageStatus.FIRING: "#b00020", MessageStatus.ACKNOWLEDGED: "#8a6d00", MessageStatus.RESOLVED: "#1b6e20"}
_CELL = 'style="padding:1px 12px 1px 0;text-align:left;vertical-align:top"'
_HEAD = '<!doctype html>\n<html><head><meta charset="utf-8"></head>\n<body style="font-family:sans-serif">\n'
_WEB = ("http://", "https://")


def page_of(account: Account) -> str:
    """The page."""
    body = "\n".join(
        part
        for part in (
            f'<h2 style="color:{_COLOURS[account.status]}">{escape(account.title)}</h2>',
            _list("Why", map(escape, account.why)),
            *map(_in_full, account.changes[:1]),
            *(f"<p>{escape(f'{change.heading}: {change.reason}')}</p>" for change in account.changes[1:]),
            *(f"<p>{escape(line)}</p>" for line in account.more),
            _titled("What the drop is made of", _table(account.shares)),
            _list("Items that gained most", map(escape, account.entered)),
            _list("Items that lost most", map(escape, account.left)),
            *map(_example, account.examples),
            _list("Links", (_link(name, url) for name, url in account.links)),
            _list("Commands", (f"<code>{escape(command)}</code>" for command in account.commands)),
        )
        if part
    )
    return f"{_HEAD}{body}\n</body></html>\n"


def _in_full(change: ChangeAccount) -> str:
    return f"<h3>{escape(change.heading)}</h3>\n<p>{escape(change.reason)}</p>\n{_table(change.facts)}"


def _list(title: str, items: Iterable[str]) -> str:
    return _titled(title, "".join(f"<li>{item}</li>\n" for item in items), "ul")


def _titled(title: str, content: str, tag: str = "div") -> str:
    return f"<h4>{escape(title)}</h4>\n<{tag}>{content}</{tag}>" if content else ""


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    cells = ("".join(f"<td {_CELL}>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table>\n{body}\n</table>" if body else ""


def _example(example: SideBySide) -> str:
    return _titled(f"Lists of {example.user}", _table((("", "baseline", "candidate"), *example.rows)))


def _link(name: str, url: str) -> str:
    """A link, where the address is one of the web; else its text."""
    if not url.startswith(_WEB):
        return f"{escape(name)}: {escape(url)}"
    return f'<a href="{escape(url)}">{escape(name)}</a>'
