"""Values over time: a line with its normal band, limits, spans of alerts, and each run a point that leads to it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby, pairwise

from markupsafe import Markup

from monitor.charts.svg import (
    Axis,
    axis_of,
    draw_area,
    draw_tick,
    drawing,
    element,
    polyline,
    ticks,
    write_value,
)

WIDTH, HEIGHT = 960.0, 288.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 24.0, 12.0, 34.0
SPARK_WIDTH, SPARK_HEIGHT = 320.0, 64.0
"""Twice the size at which it is shown: whole numbers are then fine enough, and few bytes."""
_DAYS = timedelta(days=1), (1, 2, 7, 14, 28, 91, 365), "%d %b"
_HOURS = timedelta(hours=1), (1, 3, 6, 12), "%H:%M"
_MOST_MARKS = 7
_SHORT = timedelta(days=2)
"""Below which marks are hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run: its value, what is shown where the pointer rests, and where a click leads."""

    at: datetime
    value: float | None  # None breaks the line
    note: str
    link: str | None = None
    is_marked: bool = False
    low: float | None = None  # from here to ``high`` was normal, open where None
    high: float | None = None
    expected: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A line across the chart, such as a threshold."""

    value: float
    name: str
    kind: str
    is_always_drawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time that is shaded, such as that of an alert; until now where ``end`` is None."""

    start: datetime
    end: datetime | None
    name: str
    kind: str


def draw_series(
    points: Sequence[Point], *, label: str, levels: Sequence[Level] = (), spans: Sequence[Span] = ()
) -> Markup:
    """The chart of one series over the time of its points.

    Levels far outside what was seen do not stretch it.
    """
    if not points:
        return Markup()
    x = _time_scale([point.at for point in points], LEFT, WIDTH - RIGHT)
    # What is normal is wide while little is known; what was seen is not to become a flat line for
    # it.
    values = [*(point.value for point in points), points[-1].low, points[-1].high]
    seen = axis_of(values, HEIGHT - BOTTOM, TOP)
    reach = (seen.high - seen.low) / 2
    near = [
        level
        for level in levels
        if level.is_always_drawn or seen.low - reach <= level.value <= seen.high + reach
    ]
    y = axis_of([*values, *(level.value for level in near)], HEIGHT - BOTTOM, TOP)
    return drawing(
        WIDTH,
        HEIGHT,
        label,
        *_draw_axes(x, y),
        *_draw_spans(spans, x),
        _draw_normal(points, x, y),
        _draw_expected(points, x, y),
        *(_draw_level(level, y) for level in near),
        *_draw_line(points, x, y),
        *(_draw_point(point, x, y) for point in points),
        _draw_newest(points, x, y),
        role="group" if points[0].link else "img",
    )


@lru_cache(maxsize=2048)
def draw_sparkline(
    values: tuple[float | None, ...],
    *,
    label: str,
    band: tuple[float | None, float | None] = (None, None),
) -> Markup:
    """The last values over their normal band, in the room of a word.

    What was drawn lately is not drawn again.
    """
    x = Axis(0, max(1, len(values) - 1), 6, SPARK_WIDTH - 6)
    seen = axis_of(values, SPARK_HEIGHT - 6, 6)
    reach = (seen.high - seen.low) / 2  # a wide band does not flatten the line
    near = [
        min(max(edge, seen.low - reach), seen.high + reach) for edge in band if edge is not None
    ]
    y = axis_of([*values, *near], SPARK_HEIGHT - 6, 6)
    low, high = band
    top, bottom = (
        max(0.0, y(y.high if high is None else high)),
        min(SPARK_HEIGHT, y(y.low if low is None else low)),
    )
    known = [
        (round(x(number)), round(y(value)))
        for number, value in enumerate(values)
        if value is not None and math.isfinite(value)
    ]
    steps = "".join([f"{x1 - x0}{y1 - y0:+} " for (x0, y0), (x1, y1) in pairwise(known)])
    return drawing(
        SPARK_WIDTH,
        SPARK_HEIGHT,
        label,
        element("rect", y=top, width=SPARK_WIDTH, height=max(1.0, bottom - top), class_="band")
        if band != (None, None)
        else "",
        element("path", d=f"M{known[0][0]} {known[0][1]}l{steps.rstrip()}", class_="line")
        if steps
        else "",
        element("circle", cx=known[-1][0], cy=known[-1][1], r=5, class_="dot") if known else "",
        class_="spark",
    )


def draw_stack(
    at: Sequence[datetime], shares: Mapping[str, Sequence[float]], *, label: str
) -> Markup:
    """Shares from 0 to 1 that stand on each other over time, by name: the first one lowest.

    Scaled to the highest stack.
    """
    totals = [math.fsum(each) for each in zip(*shares.values(), strict=True)]
    if not totals or not max(totals):
        return Markup()
    x = _time_scale(at, LEFT, WIDTH - RIGHT)
    y = Axis(0.0, max(totals), HEIGHT / 2 - BOTTOM, TOP)
    places, below, areas = [x(each.timestamp()) for each in at], [0.0] * len(at), []
    for number, (name, values) in enumerate(shares.items()):
        above = [base + value for base, value in zip(below, values, strict=True)]
        areas.append(
            draw_area(
                places,
                map(y, above),
                map(y, below),
                element("title", name),
                class_=f"stack s{number % 8}",
            )
        )
        below = above
    return drawing(WIDTH, HEIGHT / 2, label, *_draw_axes(x, y, as_share=True), *areas)


def _time_scale(at: Sequence[datetime], start: float, end: float) -> Axis:
    return Axis(min(at).timestamp(), max(at).timestamp(), start, end)


def _draw_axes(x: Axis, y: Axis, *, as_share: bool = False) -> list[Markup]:
    marks = ticks(y, 2 if as_share else 5)
    drawn = []
    for value in marks:
        said = f"{100 * value:g} %" if as_share else write_value(value, marks)
        drawn.append(
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value), class_="grid")
        )
        drawn.append(draw_tick(said, LEFT - 6, y(value) + 4, "end"))
    return drawn + [
        draw_tick(said, x(at.timestamp()), y.start + BOTTOM - 8) for at, said in _time_marks(x)
    ]


def _time_marks(x: Axis) -> list[tuple[datetime, str]]:
    """Days, or hours of a short time, few enough to be read."""
    low, high = (datetime.fromtimestamp(each, UTC) for each in (x.low, x.high))
    unit, sizes, form = _DAYS if high - low >= _SHORT else _HOURS
    step = unit * next(
        (each for each in sizes if (high - low) / (each * unit) <= _MOST_MARKS), sizes[-1]
    )
    first = low.replace(hour=0, minute=0, second=0, microsecond=0)
    marks = (first + number * step for number in range(int((high - first) / step) + 1))
    return [(at, at.strftime(form)) for at in marks if at >= low]


def _draw_spans(spans: Sequence[Span], x: Axis) -> list[Markup]:
    """Each span where it lies; those of one name that would touch are drawn as one."""
    drawn: list[Markup] = []
    ordered = sorted(spans, key=lambda span: (span.name, span.kind, span.start))
    for (name, kind), alike in groupby(ordered, key=lambda span: (span.name, span.kind)):
        pieces: list[tuple[float, float]] = []
        for span in alike:
            start = max(x.start, x(span.start.timestamp()))
            end = max(start + 2, x.end if span.end is None else min(x.end, x(span.end.timestamp())))
            if pieces and start <= pieces[-1][1] + 1:
                start, end = pieces[-1][0], max(end, pieces.pop()[1])
            pieces.append((start, end))
        title, height = element("title", name), HEIGHT - TOP - BOTTOM
        drawn += [
            element(
                "rect",
                title,
                x=start,
                y=TOP,
                width=end - start,
                height=height,
                class_=f"span {kind}",
            )
            for start, end in pieces
        ]
    return drawn


def _draw_normal(points: Sequence[Point], x: Axis, y: Axis) -> Markup:
    """One area over all runs that had an expectation; an open side reaches the chart's edge."""
    known = [point for point in points if (point.low, point.high) != (None, None)]
    upper = [y(y.high if point.high is None else min(point.high, y.high)) for point in known]
    lower = [y(y.low if point.low is None else max(point.low, y.low)) for point in known]
    places = [x(point.at.timestamp()) for point in known]
    return (
        draw_area(places, upper, lower, element("title", "normal"), class_="band")
        if known
        else Markup()
    )


def _draw_expected(points: Sequence[Point], x: Axis, y: Axis) -> Markup:
    known = [
        (x(point.at.timestamp()), y(point.expected))
        for point in points
        if point.expected is not None
    ]
    return polyline(known, class_="expected") if known else Markup()


def _draw_level(level: Level, y: Axis) -> Markup:
    place = y(level.value)
    line = element(
        "line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_=f"level {level.kind}"
    )
    return element("g", line, draw_tick(level.name, LEFT + 4, place - 4, None))


def _draw_line(points: Sequence[Point], x: Axis, y: Axis) -> list[Markup]:
    """Pieces between runs without a value."""
    pieces = groupby(points, key=lambda point: point.value is not None)
    places = [
        [(x(point.at.timestamp()), y(point.value or 0.0)) for point in piece]
        for is_known, piece in pieces
        if is_known
    ]
    return [polyline(piece, class_="line") for piece in places if len(piece) > 1]


def _draw_newest(points: Sequence[Point], x: Axis, y: Axis) -> Markup:
    """The newest value, on that side of its point from which the line does not come."""
    *before, value = [point.value for point in points[-2:]]
    if value is None:
        return Markup()
    is_falling = any(each is not None and each > value for each in before)
    place = (
        y(value) + 26
        if y(value) < TOP + 24 or (is_falling and y(value) < y.start - 30)
        else y(value) - 9
    )
    return element(
        "text",
        f"{value:.3f}",
        x=x(points[-1].at.timestamp()) + 8,
        y=place,
        text_anchor="end",
        class_="value",
    )


def _draw_point(point: Point, x: Axis, y: Axis) -> Markup:
    place = x(point.at.timestamp())
    note = element("title", point.note)
    if point.value is None:
        mark = element(
            "text", note, "x", x=place, y=HEIGHT - BOTTOM - 4, text_anchor="middle", class_="failed"
        )
    else:
        mark = element(
            "circle",
            note,
            cx=place,
            cy=y(point.value),
            r=4.0 if point.is_marked else 2.5,
            class_="dot marked" if point.is_marked else "dot",
        )
    return (
        mark
        if point.link is None
        else element("a", mark, href=point.link, aria_label=point.note, tabindex=-1)
    )
