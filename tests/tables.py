"""Tables of examples as text."""

import json
import re


def rows(table):
    """Cells of each line, which ` | ` divides."""
    return [[cell.strip() for cell in line.split(" | ")] for line in table.strip().splitlines()]


def cells(table):
    """Cells of each line, which two spaces or more divide. A line that begins with ``#`` is a comment."""
    lines = (line.strip() for line in table.strip().splitlines())
    return [re.split(r"  +", line) for line in lines if not line.startswith("#")]


def parsed(lines):
    """Values of lines of JSON."""
    return [json.loads(line) for line in lines.strip().splitlines()]
