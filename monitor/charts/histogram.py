"""A distribution: a bar a bin, and levels such as the mean across it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from monitor.charts.svg import Axis, drawing, element, ticks, write_value
from monitor.charts.time_chart import Level

WIDTH, HEIGHT = 560.0, 170.0
_TOP, _BOTTOM, _SIDE, _NAME = 34.0, 20.0, 16.0, 13.0


def draw_histogram(counts: Sequence[int], low: float, high: float, *, label: str, levels: Sequence[Level] = ()) -> Markup:
    """Counts by equal bins from ``low`` to ``high``; levels beyond these are left out."""
    x, most = Axis(low, high, _SIDE, WIDTH - _SIDE), max(counts, default=0) or 1
    base, width = HEIGHT - _BOTTOM, (WIDTH - 2 * _SIDE) / max(1, len(counts))
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
    axis = [
        element("text", write_value(each, marks), x=x(each), y=HEIGHT - 5, text_anchor="middle", class_="tick")
        for each in marks
    ]
    near = [level for level in levels if low <= level.value <= high]
    lines = [_draw_level(level, x(level.value), _NAME * (number + 1), base) for number, level in enumerate(near)]
    ground = element("line", x1=_SIDE, x2=WIDTH - _SIDE, y1=base, y2=base, class_="grid")
    return drawing(WIDTH, HEIGHT, label, ground, *bars, *axis, *lines, class_="bars")


def _draw_level(level: Level, place: float, top: float, base: float) -> Markup:
    """Each name on a line of its own, and on the side where there is room."""
    x, anchor = (place - 5, "end") if place > WIDTH / 2 else (place + 5, "start")
    name = element("text", level.name, x=x, y=top, text_anchor=anchor, class_="tick")
    return element("g", element("line", x1=place, x2=place, y1=top - 8, y2=base, class_=f"level {level.kind}"), name)
