"""SVG elements as escaped markup, scales from values to places, and charts outside the pages with their style."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

from markupsafe import Markup, escape


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element; ``class_`` is `class`, other underscores are hyphens, numbers have one decimal, None leaves out."""
    known = (
        (key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    said = "".join([f' {key}="{_written(value)}"' for key, value in known])
    inner = "".join(
        [
            child if isinstance(child, Markup) else escape(_printable(str(child)))
            for child in children
        ]
    )
    made = f"<{name}{said}>{inner}</{name}>" if inner else f"<{name}{said}/>"
    return Markup(made)  # noqa: S704 - names are ours, all else is escaped


def link_to(url: str | None, shown: str) -> str:
    """What is shown, markup or text, as a link to elsewhere where there is an address."""
    return element("a", shown, href=url, rel="noreferrer") if url else shown


def drawing(
    width: float,
    height: float,
    label: str,
    *children: object,
    class_: str = "chart",
    role: str = "img",
) -> Markup:
    """The whole picture, scaled to its place.

    ``label`` is for screen readers, ``role`` is `group` where it holds links.
    """
    size = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=size, role=role, aria_label=label, class_=class_)


def draw_tick(said: str, x: float, y: float, anchor: str | None = "middle") -> Markup:
    """A short text beside what is drawn."""
    return element("text", said, x=x, y=y, text_anchor=anchor, class_="tick")


def draw_area(
    x: Sequence[float],
    upper: Iterable[float],
    lower: Iterable[float],
    *children: Markup,
    class_: str,
) -> Markup:
    """What lies between two lines over these places."""
    edge = [*zip(x, upper, strict=True), *reversed([*zip(x, lower, strict=True)])]
    return element(
        "polygon",
        *children,
        points=" ".join(f"{px:.1f},{py:.1f}" for px, py in edge),
        class_=class_,
    )


def polyline(points: Iterable[tuple[float, float]], **attributes: object) -> Markup:
    """A line through the points."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), **attributes)


def _written(value: object) -> str:
    return (
        f"{value:.1f}".removesuffix(".0")
        if isinstance(value, float)
        else escape(_printable(str(value)))
    )


def _printable(text: str) -> str:
    """With what steers the writing, and what XML does not know, spelled out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


@dataclass(frozen=True, slots=True)
class Axis:
    """From values between ``low`` and ``high`` to places between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; the middle where the scale holds one value only."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def axis_of(values: Iterable[float | None], start: float, end: float) -> Axis:
    """A scale over all finite values, with a little room at both ends.

    From 0 to 1 where there are none.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    room = (high - low) * 0.06 or 0.02
    return Axis(low - room, high + room, start, end)


def ticks(scale: Axis, most: int = 5) -> list[float]:
    """Round values within the scale, 1, 2 or 5 times a power of ten apart, at most so many and one more."""
    span = scale.high - scale.low
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(step * power for step in (1, 2, 5, 10) if span / (step * power) <= most)
    first = math.ceil(scale.low / step)
    return [number * step for number in range(first, math.floor(scale.high / step) + 1)]


def write_value(value: float, values: Sequence[float]) -> str:
    """A tick in as many decimals as tell it from its neighbours."""
    apart = min((abs(after - before) for before, after in pairwise(values)), default=1.0)
    return f"{value:,.{max(0, -math.floor(math.log10(apart)))}f}" if apart > 0 else f"{value:g}"


_ALONE = "& { max-width: 760px; color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }"


@cache
def read_style() -> str:
    """The style sheet of charts and pages."""
    return resources.files("monitor.charts").joinpath("rankwatch.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Plot:
    """Charts as a notebook shows them, light or dark as the reader's system is.

    ``html`` is the same as text, to be saved.
    """

    body: Markup

    @property
    def html(self) -> str:
        """A part of a page that holds its own style."""
        # Nested, so that no rule reaches the rest of the notebook; on a ground of its own, whatever
        # the notebook's theme is.
        style = read_style().replace(":root", "&")
        card = '<div class="rankwatch"><div class="card">'
        return f"<style>.rankwatch {{ {style}\n{_ALONE} }}</style>{card}{self.body}</div></div>"

    def _repr_html_(self) -> str:
        return self.html
