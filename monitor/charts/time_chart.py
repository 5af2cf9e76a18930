"""Draws values over time: a line with a point for each run, a normal band, limits, and alerts."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from markupsafe import Markup

from monitor.charts.svg import (
    Axis,
    axis_of,
    draw_area,
    draw_box,
    draw_dot,
    draw_line,
    draw_text,
    drawing,
    element,
    polyline,
    ticks,
    write_tick,
)
from monitor.model.immutable import immutable

CHART_WIDTH = 960.0
CHART_HEIGHT = 288.0
PLOT_LEFT = 52.0
_PLOT_RIGHT = 24.0
_PLOT_TOP = 12.0
_PLOT_BOTTOM = 34.0
SPARK_WIDTH = 320.0
SPARK_HEIGHT = 64.0
_DAYS = timedelta(days=1), (1, 2, 7, 14, 28, 91, 365), "%d %b"
_HOURS = timedelta(hours=1), (1, 3, 6, 12), "%H:%M"
_MOST_MARKS = 7
_SHORT = timedelta(days=2)
"""If the chart covers less time than this, the time axis shows hours instead of days."""


@immutable
class Point:
    """One run: its value, the note under the pointer, and the address that a click opens."""

    at: datetime
    value: float | None  # None makes a gap in the line
    note: str
    link: str | None = None
    is_marked: bool = False
    low: float | None = None  # lowest normal value. None if there is no limit
    high: float | None = None  # highest normal value. None if there is no limit
    expected: float | None = None


@immutable
class Level:
    """A horizontal line across the chart, such as a threshold."""

    value: float
    name: str
    kind: str
    is_always_drawn: bool = False


@immutable
class Span:
    """A shaded time span, such as the time of an alert. ``end`` is None if it has not ended."""

    start: datetime
    end: datetime | None
    name: str
    kind: str


def draw_series(
    points: Sequence[Point],
    *,
    label: str,
    levels: Sequence[Level] = (),
    spans: Sequence[Span] = (),
) -> Markup:
    """Draw the points of one series over time.

    A level that is far from all values is left out, unless ``is_always_drawn`` is set.
    """
    if not points:
        return Markup()
    x = _time_scale([point.at for point in points])
    places = [x(point.at.timestamp()) for point in points]
    # Only the newest band sets the scale, because early bands are wide and would flatten the line.
    values = [point.value for point in points]
    values += (points[-1].low, points[-1].high)
    seen = axis_of(values, CHART_HEIGHT - _PLOT_BOTTOM, _PLOT_TOP)
    reach = (seen.high - seen.low) / 2
    near = []
    for level in levels:
        if level.is_always_drawn or seen.low - reach <= level.value <= seen.high + reach:
            near.append(level)
            values.append(level.value)
    y = axis_of(values, CHART_HEIGHT - _PLOT_BOTTOM, _PLOT_TOP)
    drawn = _draw_axes(x, y)
    for span in spans:
        drawn.append(_draw_span(span, x))
    drawn += _draw_normal(points, places, y)
    for level in near:
        drawn.append(_draw_level(level, y))
    drawn += _draw_line(points, places, y)
    for point, place in zip(points, places, strict=True):
        drawn.append(_draw_point(point, place, y))
    drawn.append(_draw_newest(points, places[-1], y))
    role = "group" if points[0].link else "img"
    return drawing(CHART_WIDTH, CHART_HEIGHT, label, *drawn, role=role)


@lru_cache(maxsize=2048)
def draw_sparkline(
    values: tuple[float | None, ...],
    *,
    label: str,
    band: tuple[float | None, float | None] = (None, None),
) -> Markup:
    """Draw the last values over their normal band, in a picture as small as a word."""
    x = Axis(0, max(1, len(values) - 1), 6, SPARK_WIDTH - 6)
    seen = axis_of(values, SPARK_HEIGHT - 6, 6)
    reach = (seen.high - seen.low) / 2  # cuts the band, because a wide band would flatten the line
    scaled = list(values)
    for edge in band:
        if edge is not None:
            scaled.append(min(max(edge, seen.low - reach), seen.high + reach))
    y = axis_of(scaled, SPARK_HEIGHT - 6, 6)
    drawn = []
    low, high = band
    if band != (None, None):
        top = max(0.0, y(_edge(high, y.high)))
        bottom = min(SPARK_HEIGHT, y(_edge(low, y.low)))
        drawn.append(draw_box(0, top, SPARK_WIDTH, max(1.0, bottom - top), "band"))
    places = []
    for number, value in enumerate(values):
        if value is not None and math.isfinite(value):
            places.append((x(number), y(value)))
    if places:
        drawn += (polyline(places, "line"), draw_dot(*places[-1], 5))
    return drawing(SPARK_WIDTH, SPARK_HEIGHT, label, *drawn, class_="spark")


def draw_stack(
    at: Sequence[datetime], shares: Mapping[str, Sequence[float]], *, label: str
) -> Markup:
    """Draw shares from 0 to 1 over time, on top of each other. The first name is at the bottom.

    The scale ends at the largest sum of shares.
    """
    totals = [*map(math.fsum, zip(*shares.values(), strict=True))]
    if not any(totals):
        return Markup()
    x = _time_scale(at)
    y = Axis(0.0, max(totals), CHART_HEIGHT / 2 - _PLOT_BOTTOM, _PLOT_TOP)
    drawn = _draw_axes(x, y, as_share=True)
    places = [x(instant.timestamp()) for instant in at]
    below = [0.0] * len(at)
    for number, (name, values) in enumerate(shares.items()):
        above = [base + value for base, value in zip(below, values, strict=True)]
        drawn.append(draw_area(places, map(y, above), map(y, below), f"stack s{number % 8}", name))
        below = above
    return drawing(CHART_WIDTH, CHART_HEIGHT / 2, label, *drawn)


def _time_scale(at: Sequence[datetime]) -> Axis:
    return Axis(min(at).timestamp(), max(at).timestamp(), PLOT_LEFT, CHART_WIDTH - _PLOT_RIGHT)


def _draw_axes(x: Axis, y: Axis, *, as_share: bool = False) -> list[Markup]:
    marks = ticks(y, 2 if as_share else 5)
    drawn = []
    for value in marks:
        place = y(value)
        label = f"{100 * value:g} %" if as_share else write_tick(value, marks)
        drawn.append(draw_line(PLOT_LEFT, place, CHART_WIDTH - _PLOT_RIGHT, place))
        drawn.append(draw_text(label, PLOT_LEFT - 6, place + 4, "end"))
    for at, label in _time_marks(x):
        drawn.append(draw_text(label, x(at.timestamp()), y.start + _PLOT_BOTTOM - 8))
    return drawn


def _time_marks(x: Axis) -> list[tuple[datetime, str]]:
    """Return the marks of the time axis with their labels: days, or hours for a short time."""
    low = datetime.fromtimestamp(x.low, UTC)
    high = datetime.fromtimestamp(x.high, UTC)
    unit, sizes, form = _DAYS if high - low >= _SHORT else _HOURS
    fitting = [size for size in sizes if (high - low) / (size * unit) <= _MOST_MARKS]
    step = unit * (fitting or sizes[-1:])[0]
    marks = []
    at = low.replace(hour=0, minute=0, second=0, microsecond=0)
    while at <= high:
        if at >= low:
            marks.append((at, at.strftime(form)))
        at += step
    return marks


def _draw_span(span: Span, x: Axis) -> Markup:
    start = max(x.start, x(span.start.timestamp()))
    end = x.end
    if span.end is not None:
        end = min(x.end, x(span.end.timestamp()))
    width = max(2.0, end - start)
    return draw_box(
        start,
        _PLOT_TOP,
        width,
        CHART_HEIGHT - _PLOT_TOP - _PLOT_BOTTOM,
        f"span {span.kind}",
        span.name,
    )


def _draw_normal(points: Sequence[Point], places: Sequence[float], y: Axis) -> list[Markup]:
    """Draw the normal bands of all runs as one area, and the expected values as a line.

    A band without a limit on one side goes to the edge of the chart.
    """
    banded = []
    upper = []
    lower = []
    expected = []
    for point, place in zip(points, places, strict=True):
        if point.low is not None or point.high is not None:
            banded.append(place)
            upper.append(y(min(_edge(point.high, y.high), y.high)))
            lower.append(y(max(_edge(point.low, y.low), y.low)))
        if point.expected is not None:
            expected.append((place, y(point.expected)))
    drawn = []
    if banded:
        drawn.append(draw_area(banded, upper, lower, "band", "normal"))
    if expected:
        drawn.append(polyline(expected, "expected"))
    return drawn


def _edge(value: float | None, end: float) -> float:
    """Return the edge of a band. Without a limit it is the end of the scale."""
    return end if value is None else value


def _draw_level(level: Level, y: Axis) -> Markup:
    place = y(level.value)
    line = draw_line(PLOT_LEFT, place, CHART_WIDTH - _PLOT_RIGHT, place, f"level {level.kind}")
    return element("g", line, draw_text(level.name, PLOT_LEFT + 4, place - 4, None))


def _draw_line(points: Sequence[Point], places: Sequence[float], y: Axis) -> list[Markup]:
    """Draw the line, with a gap at each run without a value."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for point, place in zip(points, places, strict=True):
        if point.value is None:
            pieces.append([])
        else:
            pieces[-1].append((place, y(point.value)))
    return [polyline(piece, "line") for piece in pieces if len(piece) > 1]


def _draw_newest(points: Sequence[Point], place: float, y: Axis) -> Markup:
    """Write the newest value above its point, or below it if there is no room above."""
    value = points[-1].value
    if value is None:
        return Markup()
    height = y(value)
    before = points[-2:][0].value  # equal to ``value`` if there is only one point
    is_falling = before is not None and before > value
    is_below = height < _PLOT_TOP + 24 or (is_falling and height < y.start - 30)
    height += 26 if is_below else -9
    return draw_text(f"{value:.3f}", place + 8, height, "end", "value")


def _draw_point(point: Point, place: float, y: Axis) -> Markup:
    if point.value is None:
        title = element("title", point.note)
        bottom = CHART_HEIGHT - _PLOT_BOTTOM - 4
        mark = element("text", title, "x", x=place, y=bottom, text_anchor="middle", class_="failed")
    elif point.is_marked:
        mark = draw_dot(place, y(point.value), 4.0, "dot marked", point.note)
    else:
        mark = draw_dot(place, y(point.value), 2.5, "dot", point.note)
    if point.link is None:
        return mark
    return element("a", mark, href=point.link, aria_label=point.note, tabindex=-1)
