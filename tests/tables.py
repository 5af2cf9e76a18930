"""Tables of examples as text."""

import re


def rows(table: str) -> list[list[str]]:
    """Cells of each line, which ` | ` divides."""
    return [[cell.strip() for cell in line.split(" | ")] for line in table.strip().splitlines()]


def cells(table: str) -> list[list[str]]:
    """Cells of each line, which two spaces or more divide.

    A line that begins with ``#`` is a comment.
    """
    lines = (line.strip() for line in table.strip().splitlines())
    return [re.split(r"  +", line) for line in lines if not line.startswith("#")]
