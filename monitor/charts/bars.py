"""Draws bars, waterfalls, histograms, and heat maps of histograms over time."""

from collections.abc import Sequence

from markupsafe import Markup

from monitor.charts.svg import (
    Axis,
    draw_box,
    draw_line,
    draw_text,
    drawing,
    element,
    ticks,
    write_tick,
)
from monitor.charts.time_chart import Level
from monitor.model.immutable import immutable

_BARS_WIDTH = 560.0
_BAR_ROW = 26.0
_NAMES_WIDTH = 150.0
_FIGURES_WIDTH = 150.0
"""The width for figures on the right, as `_NAMES_WIDTH` is for names on the left."""


@immutable
class Bar:
    """One bar: its name, its amount, the text to its right, and its class in the style sheet."""

    name: str
    amount: float
    figure: str
    kind: str = ""


def draw_bars(bars: Sequence[Bar], *, label: str) -> Markup:
    """Draw bars that begin at 0. Bars with negative amounts go to the left."""
    return _draw(bars, [(0.0, bar.amount) for bar in bars], label)


def draw_waterfall(start: Bar, pieces: Sequence[Bar], end: Bar, *, label: str) -> Markup:
    """Draw a bar for each piece of the change from one amount to another, and for both amounts.

    The bar of a piece begins where the previous bar ends.
    """
    level = start.amount
    spans = [(0.0, level)]
    for piece in pieces:
        spans.append((level, level + piece.amount))
        level += piece.amount
    return _draw([start, *pieces, end], [*spans, (0.0, end.amount)], label)


def _draw(bars: Sequence[Bar], spans: Sequence[tuple[float, float]], label: str) -> Markup:
    if not bars:
        return Markup()
    lowest = min(0.0, *map(min, spans))
    highest = max(0.0, *map(max, spans)) or 1.0
    scale = Axis(lowest, highest, _NAMES_WIDTH, _BARS_WIDTH - _FIGURES_WIDTH)
    drawn = []
    for number, (bar, span) in enumerate(zip(bars, spans, strict=True)):
        top = _BAR_ROW * number
        name = draw_text(bar.name, _NAMES_WIDTH - 8, top + 17, "end", "item")
        kind = bar.kind or ("worse" if bar.amount > 0 else "better")
        start, end = sorted(map(scale, span))
        box = draw_box(start, top + 5, max(1.0, end - start), _BAR_ROW - 10, f"bar {kind}")
        figure = draw_text(bar.figure, _BARS_WIDTH - _FIGURES_WIDTH + 8, top + 17, None)
        drawn.append(element("g", name, box, figure))
    zero = scale(0.0)
    height = _BAR_ROW * len(bars)
    drawn.append(draw_line(zero, 0.0, zero, height))
    return drawing(_BARS_WIDTH, height, label, *drawn, class_="bars")


_HISTOGRAM_WIDTH = 560.0
_HISTOGRAM_HEIGHT = 170.0
_HISTOGRAM_TOP = 34.0
_HISTOGRAM_BOTTOM = 20.0
_HISTOGRAM_SIDE = 16.0
_LEVEL_LINE = 13.0


def draw_histogram(
    counts: Sequence[int],
    low: float,
    high: float,
    *,
    label: str,
    levels: Sequence[Level],
) -> Markup:
    """Draw counts in equal bins from ``low`` to ``high``. Leaves out levels outside this range."""
    x = Axis(low, high, _HISTOGRAM_SIDE, _HISTOGRAM_WIDTH - _HISTOGRAM_SIDE)
    base = _HISTOGRAM_HEIGHT - _HISTOGRAM_BOTTOM
    width = (_HISTOGRAM_WIDTH - 2 * _HISTOGRAM_SIDE) / max(1, len(counts))
    highest_count = max(counts, default=0) or 1
    drawn = [draw_line(_HISTOGRAM_SIDE, base, _HISTOGRAM_WIDTH - _HISTOGRAM_SIDE, base)]
    for number, count in enumerate(counts):
        if not count:
            continue
        left = low + (high - low) * number / len(counts)
        right = low + (high - low) * (number + 1) / len(counts)
        height = (base - _HISTOGRAM_TOP) * count / highest_count
        place = _HISTOGRAM_SIDE + number * width
        title = f"{left:.4g} to {right:.4g}: {count:,}"
        bar_width = max(0.5, width - 1)
        drawn.append(draw_box(place, base - height, bar_width, height, "bar total", title))
    marks = ticks(x, 8)
    for mark in marks:
        drawn.append(draw_text(write_tick(mark, marks), x(mark), _HISTOGRAM_HEIGHT - 5))
    name_y = 0.0
    for level in levels:
        if low <= level.value <= high:
            name_y += _LEVEL_LINE
            drawn.append(_draw_level(level, x(level.value), name_y, base))
    return drawing(_HISTOGRAM_WIDTH, _HISTOGRAM_HEIGHT, label, *drawn, class_="bars")


def _draw_level(level: Level, place: float, name_y: float, base: float) -> Markup:
    """Draw a level. Its name is on the side with more room."""
    if place > _HISTOGRAM_WIDTH / 2:
        name = draw_text(level.name, place - 5, name_y, "end")
    else:
        name = draw_text(level.name, place + 5, name_y, "start")
    line = draw_line(place, name_y - 8, place, base, f"level {level.kind}")
    return element("g", line, name)


_MAP_WIDTH = 960.0
_MAP_HEIGHT = 188.0
_MAP_LEFT = 52.0
_MAP_RIGHT = 24.0
_MAP_TOP = 8.0
_MAP_BOTTOM = 34.0
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
    """Draw the histogram of each run as a column. The oldest run comes first.

    Neighbouring bins are added up, so that a column has at most 20 rows. The two texts in ``ends``
    are written below the first and the last column.
    """
    if not columns:
        return Markup()
    width = (_MAP_WIDTH - _MAP_LEFT - _MAP_RIGHT) / len(columns)
    cells: dict[int, list[str]] = {}
    for number, column in enumerate(columns):
        counts = _fold(column)
        total = sum(counts) or 1
        height = (_MAP_HEIGHT - _MAP_TOP - _MAP_BOTTOM) / len(counts)
        x = _MAP_LEFT + number * width
        for row, count in enumerate(counts):
            shade = min(SHADES, round(SHADES * 3 * count / total + 0.3))
            if shade:
                y = _MAP_HEIGHT - _MAP_BOTTOM - (row + 1) * height
                cell = f"M{x:.1f} {y:.1f}h{width + 0.2:.1f}v{height + 0.2:.1f}h-{width + 0.2:.1f}z"
                cells.setdefault(shade, []).append(cell)
    drawn = []
    scale = Axis(low, high, _MAP_HEIGHT - _MAP_BOTTOM, _MAP_TOP)
    marks = ticks(scale, 4)
    for mark in marks:
        drawn.append(draw_text(write_tick(mark, marks), _MAP_LEFT - 6, scale(mark) + 4, "end"))
    drawn.append(draw_text(ends[0], _MAP_LEFT, _MAP_HEIGHT - 8, "start"))
    drawn.append(draw_text(ends[1], _MAP_WIDTH - _MAP_RIGHT, _MAP_HEIGHT - 8, "end"))
    for shade, paths in sorted(cells.items()):
        drawn.append(element("path", d="".join(paths), class_=f"heat h{shade}"))
    return drawing(_MAP_WIDTH, _MAP_HEIGHT, label, *drawn)


def _fold(column: Sequence[int]) -> list[int]:
    group = -(-len(column) // _MOST_ROWS)
    return [sum(column[start : start + group]) for start in range(0, len(column), group)]
