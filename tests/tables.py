"""Tables written as text."""

import re


def cells(table: str) -> list[list[str]]:
    """The cells of each row: two spaces or more part them, and a line that begins with ``#`` is a comment."""
    lines = (line.strip() for line in table.strip().splitlines())
    return [re.split(r"  +", line) for line in lines if not line.startswith("#")]
