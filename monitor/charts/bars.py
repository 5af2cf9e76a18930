"""Bars: amounts by name from a common line, and a waterfall from one level to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from monitor.charts.svg import Axis, drawing, element

WIDTH, ROW = 560.0, 26.0
NAMES, VALUES = 160.0, 130.0
"""Room for the names on the left and for the figures on the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its amount, the figure that is shown beside it, and a class of the style sheet."""

    name: str
    amount: float
    figure: str
    kind: str = ""


def draw_bars(bars: Sequence[Bar], *, label: str) -> Markup:
    """Bars from 0, to the left where amounts are negative."""
    return _draw(bars, [(0.0, bar.amount) for bar in bars], label)


def draw_waterfall(start: Bar, pieces: Sequence[Bar], end: Bar, *, label: str) -> Markup:
    """From one level to another: each piece begins where the one before ended."""
    spans, level = [(0.0, start.amount)], start.amount
    for piece in pieces:
        spans.append((level, level + piece.amount))
        level += piece.amount
    return _draw([start, *pieces, end], [*spans, (0.0, end.amount)], label)


def _draw(bars: Sequence[Bar], spans: Sequence[tuple[float, float]], label: str) -> Markup:
    if not bars:
        return Markup()
    edges = [edge for span in spans for edge in span]
    scale = Axis(min(0.0, *edges), max(0.0, *edges) or 1.0, NAMES, WIDTH - VALUES)
    rows = (
        element(
            "g",
            element("text", bar.name, x=NAMES - 8, y=ROW * number + 17, text_anchor="end", class_="item"),
            _draw_bar(span, scale, ROW * number, bar.kind or ("worse" if bar.amount > 0 else "better")),
            element("text", bar.figure, x=WIDTH - VALUES + 8, y=ROW * number + 17, class_="tick"),
        )
        for number, (bar, span) in enumerate(zip(bars, spans, strict=True))
    )
    zero = scale(0.0)
    line = element("line", x1=zero, x2=zero, y1=0.0, y2=ROW * len(bars), class_="grid")
    return drawing(WIDTH, ROW * len(bars), label, *rows, line, class_="bars")


def _draw_bar(span: tuple[float, float], scale: Axis, top: float, kind: str) -> Markup:
    start, end = sorted(map(scale, span))
    return element("rect", x=start, y=top + 5, width=max(1.0, end - start), height=ROW - 10, class_=f"bar {kind}")
