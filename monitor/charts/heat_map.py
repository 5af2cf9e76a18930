"""A distribution over time: a column a run, a row a bin, darker where more users are."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from monitor.charts.svg import Axis, drawing, element, ticks, write_value

WIDTH, HEIGHT = 960.0, 188.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 24.0, 8.0, 34.0
SHADES = 6
_MOST_ROWS = 20


def draw_heat_map(
    columns: Sequence[Sequence[int]], low: float, high: float, *, label: str, ends: tuple[str, str] = ("", "")
) -> Markup:
    """Counts by bin from ``low`` to ``high`` of each run, oldest first; neighbouring bins added up where they are too many.

    ``ends``: what is said below the first and the last column.
    """
    folded = [_fold(column, _MOST_ROWS) for column in columns]
    if not folded:
        return Markup()
    width = (WIDTH - LEFT - RIGHT) / len(folded)
    height = (HEIGHT - TOP - BOTTOM) / len(folded[0])
    cells: dict[int, list[str]] = {}
    for number, column in enumerate(folded):
        total = sum(column) or 1
        for row, count in enumerate(column):
            if shade := min(SHADES, round(SHADES * 3 * count / total + 0.3)):
                x, y = LEFT + number * width, HEIGHT - BOTTOM - (row + 1) * height
                cells.setdefault(shade, []).append(f"M{x:.1f} {y:.1f}h{width + 0.2:.1f}v{height + 0.2:.1f}h-{width + 0.2:.1f}z")
    drawn = [element("path", d="".join(found), class_=f"heat h{shade}") for shade, found in sorted(cells.items())]
    scale = Axis(low, high, HEIGHT - BOTTOM, TOP)
    marks = ticks(scale, 4)
    axis = [
        element("text", write_value(each, marks), x=LEFT - 6, y=scale(each) + 4, text_anchor="end", class_="tick")
        for each in marks
    ]
    axis += [
        element("text", said, x=x, y=HEIGHT - 8, text_anchor=anchor, class_="tick")
        for said, x, anchor in zip(ends, (LEFT, WIDTH - RIGHT), ("start", "end"), strict=True)
    ]
    return drawing(WIDTH, HEIGHT, label, *axis, *drawn)


def _fold(column: Sequence[int], most: int) -> list[int]:
    group = -(-len(column) // most)
    return [sum(column[start : start + group]) for start in range(0, len(column), group)]
