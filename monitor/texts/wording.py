"""Formats counts for texts, and cleans names from outside."""


def count_of(count: int, thing: str) -> str:
    """Write a number and a noun: ``1 user``, ``1,874 users``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def write_percent(share: float) -> str:
    """Write a share from 0 to 1 for a sentence: ``12 %``, and ``0.4 %`` if it is below 1 %."""
    percent = 100 * share
    # Values below 0.95 % get one decimal, because a whole number would be 0 or far off.
    decimals = 1 if 0.05 <= percent < 0.95 else 0  # noqa: PLR2004
    return f"{percent:.{decimals}f} %"


def printable(text: str) -> str:
    """Replace each unprintable character by a blank."""
    return "".join(char if char.isprintable() else " " for char in text)


def shorten_to(text: str, limit: int) -> str:
    """Cut the text to ``limit`` characters. If it is longer, it ends with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def write_extra(extra: str) -> str:
    """Say how to install an extra from the wheel, because rankwatch is in no package index."""
    return f"pip install 'WHEEL[{extra}]', where WHEEL is the file of rankwatch's wheel"
