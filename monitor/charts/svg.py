"""Makes SVG elements with escaped text, scales, and charts for notebooks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

from markupsafe import Markup, escape


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element.

    The attribute ``class_`` is written as `class`. In other names, underscores are written as
    hyphens. Floats have one decimal. An attribute that is None is left out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            attribute = key.rstrip("_").replace("_", "-")
            parts.append(f' {attribute}="{_escape_value(value)}"')
    content = "".join(map(_escape_child, children))
    parts.append(f">{content}</{name}>" if content else "/>")
    return Markup("".join(parts))  # noqa: S704 - names are ours, all else is escaped


def link_to(url: str | None, label: str) -> str:
    """Return the label, as a link to another site if ``url`` is given.

    The label may be text or markup.
    """
    return element("a", label, href=url, rel="noreferrer") if url else label


def drawing(
    width: float,
    height: float,
    label: str,
    *children: object,
    class_: str = "chart",
    role: str = "img",
) -> Markup:
    """Return a picture that fills the width that the page gives it.

    Screen readers read ``label`` aloud. ``role`` must be `group` for a picture with links.
    """
    size = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=size, role=role, aria_label=label, class_=class_)


def draw_text(
    label: str, x: float, y: float, anchor: str | None = "middle", class_: str = "tick"
) -> Markup:
    """Return a short text, usually next to a mark."""
    return element("text", label, x=x, y=y, text_anchor=anchor, class_=class_)


def draw_line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def draw_box(
    x: float, y: float, width: float, height: float, class_: str, title: str | None = None
) -> Markup:
    """Return a rectangle. Its title is shown when the pointer is over it."""
    return element(
        "rect",
        *draw_title(title),
        x=x,
        y=y,
        width=width,
        height=height,
        class_=class_,
    )


def draw_dot(x: float, y: float, r: float, class_: str = "dot", title: str | None = None) -> Markup:
    """Return a circle. Its title is shown when the pointer is over it."""
    return element("circle", *draw_title(title), cx=x, cy=y, r=r, class_=class_)


def draw_title(title: str | None) -> tuple[Markup, ...]:
    """Return an element with the text that is shown under the pointer, or nothing."""
    return () if title is None else (element("title", title),)


def draw_area(
    x: Sequence[float],
    upper: Iterable[float],
    lower: Iterable[float],
    class_: str,
    title: str,
) -> Markup:
    """Return the area between two lines. The points of both lines have the places ``x``."""
    edge = [*zip(x, upper, strict=True)]
    edge += reversed([*zip(x, lower, strict=True)])
    points = _write_points(edge)
    return element("polygon", element("title", title), points=points, class_=class_)


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Return a line through the points."""
    return element("polyline", points=_write_points(points), class_=class_)


def _write_points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _escape_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(_printable(str(value)))


def _escape_child(child: object) -> Markup:
    if isinstance(child, Markup):
        return child
    return escape(_printable(str(child)))


def _printable(text: str) -> str:
    """Replace unprintable characters by their codes.

    Some of them change the direction of writing, and others are not allowed in XML.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale. ``low`` is drawn at the place ``start``, and ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value. If ``low`` equals ``high``, this is the middle."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def axis_of(values: Iterable[float | None], start: float, end: float) -> Axis:
    """Return a scale that covers all finite values, with some room at both ends.

    The room is 6 % of the range. If there are no finite values, the scale covers 0 to 1.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)] or [0.0, 1.0]
    low = min(finite)
    high = max(finite)
    room = (high - low) * 0.06 or 0.02
    return Axis(low - room, high + room, start, end)


def ticks(scale: Axis, most: int = 5) -> list[float]:
    """Return at most ``most`` + 1 round values within the scale.

    The distance between two values is 1, 2 or 5 times a power of ten.
    """
    span = scale.high - scale.low
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(step * power for step in (1, 2, 5, 10) if span / (step * power) <= most)
    first = math.ceil(scale.low / step)
    return [number * step for number in range(first, math.floor(scale.high / step) + 1)]


def write_tick(value: float, values: Sequence[float]) -> str:
    """Return the text of a tick, with enough decimals to differ from other ticks."""
    distance = min((abs(after - before) for before, after in pairwise(values)), default=1.0)
    if distance <= 0:
        return f"{value:g}"
    decimals = max(0, -math.floor(math.log10(distance)))
    return f"{value:,.{decimals}f}"


_ALONE = "& { max-width: 760px; color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }"


@cache
def read_style() -> str:
    """Return the style sheet for charts and pages."""
    return resources.files("monitor.charts").joinpath("rankwatch.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Plot:
    """Charts for a notebook. They are light or dark, as the reader's system is set.

    ``html`` can be saved as a file.
    """

    body: Markup

    @property
    def html(self) -> str:
        """The charts as HTML, with their own style."""
        # The style rules are nested, so that they do not change the rest of the notebook. The card
        # has its own background, because the notebook's theme may be dark or light.
        style = read_style().replace(":root", "&")
        card = '<div class="rankwatch"><div class="card">'
        return f"<style>.rankwatch {{ {style}\n{_ALONE} }}</style>{card}{self.body}</div></div>"

    def _repr_html_(self) -> str:
        return self.html
