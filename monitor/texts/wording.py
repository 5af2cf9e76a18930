"""Counts, and names from outside, as texts show them."""


def count_of(count: int, thing: str) -> str:
    """``1 user``, ``1,874 users``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def printable(text: str) -> str:
    """The text with a blank for each unprintable character."""
    return "".join(char if char.isprintable() else " " for char in text)


def shorten_to(text: str, limit: int) -> str:
    """The text, or its beginning and an ellipsis, with at most ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
