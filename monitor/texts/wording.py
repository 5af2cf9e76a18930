"""Formats values for texts and tables, and cleans names from outside."""

import math
from collections.abc import Callable
from datetime import datetime


def count_of(count: int, thing: str) -> str:
    """Write a number and a noun: ``1 user``, ``1,874 users``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def write_percent(share: float) -> str:
    """Write a share from 0 to 1 for a sentence: ``12 %``, and ``0.4 %`` if it is below 1 %."""
    percent = 100 * share
    # Values below 0.95 % get one decimal, because a whole number would be 0 or far off.
    decimals = 1 if 0.05 <= percent < 0.95 else 0  # noqa: PLR2004
    return f"{percent:.{decimals}f} %"


def write_number(value: float | None, digits: int = 4) -> str:
    """Write a figure for a table, or ``-`` if there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def write_cell(value: object, write_instant: Callable[[datetime], str]) -> str:
    """Write a value of any type for a cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return write_instant(value)
    if isinstance(value, float):
        return write_number(value)
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def printable(text: str) -> str:
    """Replace each unprintable character by a blank."""
    return "".join(char if char.isprintable() else " " for char in text)


def shorten_to(text: str, limit: int) -> str:
    """Cut the text to ``limit`` characters. If it is longer, it ends with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def write_extra(extra: str) -> str:
    """Say how to install an extra from the wheel, because rankwatch is in no package index."""
    return f"pip install 'WHEEL[{extra}]', where WHEEL is the file of rankwatch's wheel"
