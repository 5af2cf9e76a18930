"""A row of little bars."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest ``width`` values as bars, oldest first: 0 and below is the lowest bar, 1 and above the highest."""
    newest = values[-width:] if width > 0 else ()
    return "".join(_BARS[min(max(int(value * len(_BARS)), 0), len(_BARS) - 1)] for value in newest)
