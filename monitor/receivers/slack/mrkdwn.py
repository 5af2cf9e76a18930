"""Slack's markup: outside text in it is nothing but text, and never longer than Slack takes.

Of what Slack reads as markup only ``&``, ``<`` and ``>`` can do harm (mentions and links stand in angle brackets), and these
three are what it wants escaped; ``*``, ``_`` and ``~`` cannot be escaped and can do no more than change the look of a name.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_TEXT = 3000
MAX_FIELD = 2000
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = "```"
_MORE = "…"


def escape(text: str, limit: int = MAX_TEXT) -> str:
    """The text as mrkdwn of at most ``limit`` characters; what is cut ends in an ellipsis and cuts no escape in two."""
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


def bold(text: str, limit: int = MAX_TEXT) -> str:
    """A heading. Asterisks within would end it early."""
    return f"*{escape(text.replace('*', '∗').strip() or '-', limit - 2)}*"  # noqa: RUF001 - an asterisk that is no markup


def stack(lines: Iterable[str], limit: int = MAX_TEXT) -> str:
    """As many lines as fit, of text that is escaped already and each shorter than the limit; an ellipsis for the others."""
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
    """Lines as a block of code, which backticks within would end early."""
    room = MAX_TEXT - 2 * len(_FENCE) - 2
    return f"{_FENCE}\n{stack((escape(line.replace('`', 'ˋ'), room // 2) for line in lines), room)}\n{_FENCE}"  # noqa: RUF001


def link(name: str, url: str) -> str:
    """A link; what could end its address early is percent-encoded."""
    safe = url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E")
    return f"<{safe.replace('&', '&amp;')}|{escape(name)}>"
