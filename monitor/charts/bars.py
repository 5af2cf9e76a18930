"""Bars from a common line, a waterfall from one level to another, histograms, and a heat map of them over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from monitor.charts.svg import Axis, draw_tick, drawing, element, ticks, write_value
from monitor.charts.time_chart import Level

WIDTH, ROW = 560.0, 26.0
NAMES, VALUES = 150.0, 150.0
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
            element(
                "text", bar.name, x=NAMES - 8, y=ROW * number + 17, text_anchor="end", class_="item"
            ),
            _draw_bar(
                span, scale, ROW * number, bar.kind or ("worse" if bar.amount > 0 else "better")
            ),
            draw_tick(bar.figure, WIDTH - VALUES + 8, ROW * number + 17, None),
        )
        for number, (bar, span) in enumerate(zip(bars, spans, strict=True))
    )
    zero = scale(0.0)
    line = element("line", x1=zero, x2=zero, y1=0.0, y2=ROW * len(bars), class_="grid")
    return drawing(WIDTH, ROW * len(bars), label, *rows, line, class_="bars")


def _draw_bar(span: tuple[float, float], scale: Axis, top: float, kind: str) -> Markup:
    start, end = sorted(map(scale, span))
    return element(
        "rect",
        x=start,
        y=top + 5,
        width=max(1.0, end - start),
        height=ROW - 10,
        class_=f"bar {kind}",
    )


_HISTOGRAM_WIDTH, _HISTOGRAM_HEIGHT = 560.0, 170.0
_TOP, _BOTTOM, _SIDE, _NAME = 34.0, 20.0, 16.0, 13.0


def draw_histogram(
    counts: Sequence[int], low: float, high: float, *, label: str, levels: Sequence[Level] = ()
) -> Markup:
    """Counts by equal bins from ``low`` to ``high``; levels beyond these are left out."""
    x, most = Axis(low, high, _SIDE, _HISTOGRAM_WIDTH - _SIDE), max(counts, default=0) or 1
    base, width = _HISTOGRAM_HEIGHT - _BOTTOM, (_HISTOGRAM_WIDTH - 2 * _SIDE) / max(1, len(counts))
    edges = [low + (high - low) * number / len(counts) for number in range(len(counts) + 1)]
    bars = [
        element(
            "rect",
            element("title", f"{edges[number]:.4g} to {edges[number + 1]:.4g}: {count:,}"),
            x=_SIDE + number * width,
            y=base - (base - _TOP) * count / most,
            width=max(0.5, width - 1),
            height=(base - _TOP) * count / most,
            class_="bar total",
        )
        for number, count in enumerate(counts)
        if count
    ]
    marks = ticks(x, 8)
    axis = [draw_tick(write_value(each, marks), x(each), _HISTOGRAM_HEIGHT - 5) for each in marks]
    near = [level for level in levels if low <= level.value <= high]
    lines = [
        _draw_level(level, x(level.value), _NAME * (number + 1), base)
        for number, level in enumerate(near)
    ]
    ground = element("line", x1=_SIDE, x2=_HISTOGRAM_WIDTH - _SIDE, y1=base, y2=base, class_="grid")
    return drawing(
        _HISTOGRAM_WIDTH, _HISTOGRAM_HEIGHT, label, ground, *bars, *axis, *lines, class_="bars"
    )


def _draw_level(level: Level, place: float, top: float, base: float) -> Markup:
    """Each name on a line of its own, and on the side where there is room."""
    x, anchor = (place - 5, "end") if place > _HISTOGRAM_WIDTH / 2 else (place + 5, "start")
    line = element("line", x1=place, x2=place, y1=top - 8, y2=base, class_=f"level {level.kind}")
    return element("g", line, draw_tick(level.name, x, top, anchor))


_MAP_WIDTH, _MAP_HEIGHT = 960.0, 188.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 24.0, 8.0, 34.0
SHADES = 6
_MOST_ROWS = 20


def draw_heat_map(
    columns: Sequence[Sequence[int]],
    low: float,
    high: float,
    *,
    label: str,
    ends: tuple[str, str] = ("", ""),
) -> Markup:
    """Counts by bin of each run, oldest first, neighbouring bins added up where many.

    ``ends``: below the outer columns.
    """
    folded = [_fold(column, _MOST_ROWS) for column in columns]
    if not folded:
        return Markup()
    width = (_MAP_WIDTH - LEFT - RIGHT) / len(folded)
    height = (_MAP_HEIGHT - TOP - BOTTOM) / len(folded[0])
    cells: dict[int, list[str]] = {}
    for number, column in enumerate(folded):
        total = sum(column) or 1
        for row, count in enumerate(column):
            if shade := min(SHADES, round(SHADES * 3 * count / total + 0.3)):
                x, y = LEFT + number * width, _MAP_HEIGHT - BOTTOM - (row + 1) * height
                cells.setdefault(shade, []).append(
                    f"M{x:.1f} {y:.1f}h{width + 0.2:.1f}v{height + 0.2:.1f}h-{width + 0.2:.1f}z"
                )
    drawn = [
        element("path", d="".join(found), class_=f"heat h{shade}")
        for shade, found in sorted(cells.items())
    ]
    scale = Axis(low, high, _MAP_HEIGHT - BOTTOM, TOP)
    marks = ticks(scale, 4)
    axis = [draw_tick(write_value(each, marks), LEFT - 6, scale(each) + 4, "end") for each in marks]
    axis.append(draw_tick(ends[0], LEFT, _MAP_HEIGHT - 8, "start"))
    axis.append(draw_tick(ends[1], _MAP_WIDTH - RIGHT, _MAP_HEIGHT - 8, "end"))
    return drawing(_MAP_WIDTH, _MAP_HEIGHT, label, *axis, *drawn)


def _fold(column: Sequence[int], most: int) -> list[int]:
    group = -(-len(column) // most)
    return [sum(column[start : start + group]) for start in range(0, len(column), group)]
