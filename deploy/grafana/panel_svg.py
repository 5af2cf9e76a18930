"""Panels of a dashboard as SVG, in the dashboard's own colours.

Not Grafana, and not meant to pass for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

INK, FAINT, RULE, PAPER = "#1b1f24", "#6a737d", "#e4e7eb", "#ffffff"
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
"""Five of the colours that matplotlib's viridis passes through, evenly spaced."""
LEFT, RIGHT, HEAD, FOOT = 46, 16, 30, 52
DAY_S = 86400.0
Points = list[tuple[float, float]]
Panel = Mapping[str, Any]
WIDE = 400
"""From here on there is room for every second day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of a panel: its points and what the panel's overrides make of it."""

    name: str
    points: Points
    look: Mapping[str, Any]

    @property
    def color(self) -> str:
        """Its own colour, or that of its kind."""
        fixed = self.look.get("color", {}).get("fixedColor")
        return str(fixed) if fixed else str(self.look["default"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a panel stands, and how time and values map into it."""

    x: int
    y: int
    width: int
    height: int
    begin: float
    end: float
    low: float = 0.0
    high: float = 1.0

    def across(self, instant: float) -> float:
        """Where an instant lies from left to right."""
        share = (instant - self.begin) / (self.end - self.begin)
        return self.x + LEFT + share * (self.width - LEFT - RIGHT)

    def up(self, value: float) -> float:
        """Where a value lies from top to bottom."""
        share = (value - self.low) / (self.high - self.low)
        return self.y + self.height - FOOT - share * (self.height - HEAD - FOOT)


def viridis(share: float) -> str:
    """The colour at that share of the scale, from 0 to 1."""
    place = min(max(share, 0.0), 1.0) * (len(VIRIDIS) - 1)
    lower = min(int(place), len(VIRIDIS) - 2)
    mixed = [
        round(a + (b - a) * (place - lower))
        for a, b in zip(VIRIDIS[lower], VIRIDIS[lower + 1], strict=True)
    ]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def lines_of(panel: Panel, answers: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[Line]:
    """The series of a panel from the answers to its queries: each a legend and samples over time."""
    found = []
    for legend, samples in answers:
        for sample in samples:
            name = re.sub(
                r"\{\{(\w+)\}\}", lambda label, of=sample: of["metric"].get(label[1], ""), legend
            )  # type: ignore[misc]
            points = [(float(instant), float(value)) for instant, value in sample["values"]]
            found.append(Line(name=name, points=points, look=_look(panel, name)))
    lasts = sorted(line.points[-1][1] for line in found)
    span = (lasts[-1] - lasts[0]) or 1.0
    return [
        Line(
            name=line.name,
            points=line.points,
            look={"default": viridis((line.points[-1][1] - lasts[0]) / span * 0.9), **line.look},
        )
        for line in found
    ]


def _look(panel: Panel, name: str) -> dict[str, Any]:
    look: dict[str, Any] = {}
    for override in panel["fieldConfig"]["overrides"]:
        wanted = override["matcher"]["options"]
        is_pattern = override["matcher"]["id"] == "byRegexp"
        if (
            re.fullmatch(wanted.strip("/").removeprefix("^").removesuffix("$"), name)
            if is_pattern
            else wanted == name
        ):
            look |= {
                each["id"].removeprefix("custom."): each["value"] for each in override["properties"]
            }
    return look


def text(  # noqa: PLR0913 - attributes of a text
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: int = 11,
    weight: int = 400,
) -> str:
    """Words at a place."""
    looks = f'text-anchor="{anchor}" fill="{fill}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {looks}>{escape(words)}</text>'


def draw(
    panel: Panel, answers: Sequence[tuple[str, list[dict[str, Any]]]], frame: Frame
) -> Iterator[str]:
    """The panel with its title, axes and legend."""
    box = f'x="{frame.x}" y="{frame.y}" width="{frame.width}" height="{frame.height}"'
    yield f'<rect {box} rx="3" fill="{PAPER}" stroke="{RULE}"/>'
    yield text(frame.x + 10, frame.y + 18, panel["title"], size=12, weight=600)
    kinds = {"timeseries": _graph, "heatmap": _heat_map, "state-timeline": _timeline}
    yield from kinds[panel["type"]](panel, lines_of(panel, answers), frame)


def _graph(panel: Panel, lines: list[Line], frame: Frame) -> Iterator[str]:
    is_stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    lines = [line for line in lines if not is_stacked or any(value for _, value in line.points)]
    frame = _scaled(lines, frame, is_stacked=is_stacked)
    yield from _axes(frame, panel["fieldConfig"]["defaults"]["unit"])
    yield from _stacked(lines, frame) if is_stacked else _drawn(lines, frame)
    yield from _legend(lines, frame)


def _scaled(lines: list[Line], frame: Frame, *, is_stacked: bool) -> Frame:
    values = [value for line in lines for _, value in line.points]
    low, high = (0.0, _tallest(lines)) if is_stacked else (min(values), max(values))
    margin = (high - low or 1.0) * 0.08
    low = 0.0 if low >= 0 and low < 2 * (high - low) else low - margin
    return Frame(
        x=frame.x,
        y=frame.y,
        width=frame.width,
        height=frame.height,
        begin=frame.begin,
        end=frame.end,
        low=low,
        high=high + margin,
    )


def _tallest(lines: list[Line]) -> float:
    totals: dict[float, float] = {}
    for line in lines:
        for instant, value in line.points:
            totals[instant] = totals.get(instant, 0.0) + value
    return max(totals.values(), default=1.0)


def _axes(frame: Frame, unit: str) -> Iterator[str]:
    step = _round_step((frame.high - frame.low) / 5)
    tick = math.ceil(frame.low / step) * step
    while tick <= frame.high:
        y = frame.up(tick)
        yield (
            f'<path d="M{frame.x + LEFT} {y:.1f}H{frame.x + frame.width - RIGHT}" stroke="{RULE}"/>'
        )
        words = f"{tick * 100:.0f} %" if unit == "percentunit" else f"{tick:.4g}"
        yield text(frame.x + LEFT - 6, y + 4, words, anchor="end", fill=FAINT, size=10)
        tick = round(tick + step, 10)
    yield from _days(frame)


def _days(frame: Frame) -> Iterator[str]:
    every = 2 if frame.width > WIDE else 4
    for day in range(0, round((frame.end - frame.begin) / DAY_S), every):
        instant = frame.begin + day * DAY_S
        words = datetime.fromtimestamp(instant, UTC).strftime("%d %b").lstrip("0")
        yield text(
            frame.across(instant),
            frame.y + frame.height - FOOT + 14,
            words,
            anchor="middle",
            fill=FAINT,
            size=10,
        )


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(
        round(power * factor, 10) for factor in (1, 2, 5, 10) if power * factor >= step * 0.99
    )


def _drawn(lines: list[Line], frame: Frame) -> Iterator[str]:
    by_name = {line.name: line for line in lines}
    for line in lines:
        if (below := by_name.get(line.look.get("fillBelowTo", ""))) is not None:
            corners = (
                _path(line.points, frame) + _path(below.points[::-1], frame).replace("M", "L") + "Z"
            )
            yield (
                f'<path d="{corners}" fill="{line.color}" '
                f'fill-opacity="{line.look["fillOpacity"] / 100:g}"/>'
            )
    for line in lines:
        width = line.look.get("lineWidth", 2)
        if width:
            dash = " ".join(map(str, line.look.get("lineStyle", {}).get("dash", [])))
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            yield (
                f'<path d="{_path(line.points, frame)}" fill="none" stroke="{line.color}" '
                f'stroke-width="{width}"{dashes}/>'
            )


def _path(points: Points, frame: Frame) -> str:
    """Through the points; those that lie on a straight line are left out."""
    kept = [
        point
        for number, point in enumerate(points)
        if number in (0, len(points) - 1)
        or not points[number - 1][1] == point[1] == points[number + 1][1]
    ]
    return "M" + "L".join(
        f"{frame.across(instant):.1f} {frame.up(value):.1f}" for instant, value in kept
    )


def _stacked(lines: list[Line], frame: Frame) -> Iterator[str]:
    floors: dict[float, float] = {}
    width = (frame.across(DAY_S) - frame.across(0)) / 24
    for line in lines:
        for begin, value, hours in _runs(line.points):
            low = floors.get(begin, 0.0)
            floors |= {begin + hour * 3600: low + value for hour in range(hours)}
            top, bottom = frame.up(low + value), frame.up(low)
            box = (
                f'x="{frame.across(begin):.1f}" y="{top:.1f}" width="{width * hours:.1f}" '
                f'height="{bottom - top:.1f}"'
            )
            yield f'<rect {box} fill="{line.color}" fill-opacity="0.7"/>'


def _runs(points: Points) -> Iterator[tuple[float, float, int]]:
    """Stretches of one value within a day: when it begins, the value, and how many hours."""
    begin, held, hours = points[0][0], points[0][1], 0
    for instant, value in points:
        if value != held or (instant != begin and instant % DAY_S == 0):
            yield begin, held, hours
            begin, held, hours = instant, value, 0
        hours += 1
    yield begin, held, hours


def _legend(lines: list[Line], frame: Frame) -> Iterator[str]:
    shown = [line for line in lines if line.look.get("lineWidth", 2) or "fillBelowTo" in line.look]
    x, y = float(frame.x + 12), frame.y + frame.height - 22
    for line in shown:
        is_band = "fillBelowTo" in line.look
        name = line.name.removesuffix(" to") if is_band else line.name
        if x + 16 + 5.6 * len(name) > frame.x + frame.width:
            x, y = float(frame.x + 12), y + 14
        paleness = line.look["fillOpacity"] / 100 if is_band else 1
        yield (
            f'<rect x="{x:.1f}" y="{y - 7}" width="12" height="5" fill="{line.color}" '
            f'fill-opacity="{paleness:g}"/>'
        )
        yield text(x + 16, y, name, fill=FAINT, size=10)
        x += 28 + 5.6 * len(name)


def _heat_map(_: Panel, lines: list[Line], frame: Frame) -> Iterator[str]:
    bounds = sorted(lines, key=lambda line: float(line.name))
    most = max(value for line, cells in _cells(bounds) for _, value, _ in cells)
    rows = len(bounds)
    scaled = Frame(
        x=frame.x,
        y=frame.y,
        width=frame.width,
        height=frame.height,
        begin=frame.begin,
        end=frame.end,
        high=rows,
    )
    width = (scaled.across(DAY_S) - scaled.across(0)) / 24
    for row, (line, cells) in enumerate(_cells(bounds)):
        top, bottom = scaled.up(row + 1), scaled.up(row)
        if (row + 1) % 4 == 0 or line.name == "+Inf":
            yield text(
                frame.x + LEFT - 6,
                top + 4,
                "1" if line.name == "+Inf" else line.name,
                anchor="end",
                fill=FAINT,
                size=10,
            )
        for begin, users, hours in cells:
            if users > 0:
                left, wide = scaled.across(begin), width * hours - 1
                box = (
                    f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                    f'height="{bottom - top - 1:.1f}"'
                )
                yield f'<rect {box} fill="{viridis(math.sqrt(users / most))}"/>'
    yield from _days(scaled)
    yield text(
        frame.x + LEFT,
        frame.y + frame.height - 20,
        f"users in a bucket of similarity, up to {most:.0f}",
        fill=FAINT,
        size=10,
    )


def _cells(bounds: list[Line]) -> Iterator[tuple[Line, list[tuple[float, float, int]]]]:
    """What lies in each bucket alone: buckets hold all below them too."""
    below: dict[float, float] = {}
    for line in bounds:
        alone = [(instant, value - below.get(instant, 0.0)) for instant, value in line.points]
        yield line, list(_runs(alone))
        below = dict(line.points)


def _timeline(panel: Panel, lines: list[Line], frame: Frame) -> Iterator[str]:
    states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    wide = Frame(
        x=frame.x + 100,
        y=frame.y,
        width=frame.width - 100,
        height=frame.height,
        begin=frame.begin,
        end=frame.end,
    )
    height = (frame.height - HEAD - FOOT) / len(lines)
    for row, line in enumerate(lines):
        top = frame.y + HEAD + row * height
        yield text(
            wide.x + LEFT - 6, top + height / 2 + 4, line.name, anchor="end", fill=FAINT, size=10
        )
        width = (wide.across(DAY_S) - wide.across(0)) / 24
        for begin, value, hours in _runs(line.points):
            box = (
                f'x="{wide.across(begin):.1f}" y="{top:.1f}" width="{width * hours + 0.4:.1f}" '
                f'height="{height - 3:.1f}"'
            )
            yield f'<rect {box} fill="{states[str(int(value))]["color"]}"/>'
    x = float(wide.x + LEFT)
    for state in states.values():
        yield (
            f'<rect x="{x:.1f}" y="{frame.y + frame.height - 27}" width="12" height="5" '
            f'fill="{state["color"]}"/>'
        )
        yield text(x + 16, frame.y + frame.height - 20, state["text"], fill=FAINT, size=10)
        x += 28 + 5.6 * len(state["text"])
    yield from _days(wide)
