"""Charts: where things are drawn, by hand-worked places.

And that what is drawn is well-formed whatever comes.
"""

import math
import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies as st

from factories import DAY
from monitor.charts.bars import Bar, draw_bars, draw_heat_map, draw_waterfall
from monitor.charts.slope_chart import describe_move, draw_slopes, draw_thumbnail
from monitor.charts.svg import Axis, axis_of, element, read_style, ticks, write_tick
from monitor.charts.time_chart import Level, Point, Span, draw_series, draw_sparkline, draw_stack
from tables import parsed

START = datetime(2024, 1, 1, tzinfo=UTC)


def parts(drawn, tag, class_=None):
    """Elements of the drawing in order, by tag and by the first word of their class."""
    found = ET.fromstring(drawn).iter(tag)  # noqa: S314 - our own
    return [each for each in found if class_ is None or class_ in (each.get("class") or "").split()]


def ends(rectangle):
    """From left to right."""
    left = float(rectangle.get("x", 0))
    return left, left + float(rectangle.get("width", 0))


def series(values, normal=None, **more):
    points = [
        Point(at=START + number * DAY, value=value, note="n", **(normal or {}))
        for number, value in enumerate(values)
    ]
    return draw_series(points, label="l", **more)


def test_a_scale_goes_from_its_lowest_to_its_highest_value():
    scale = Axis(0.0, 10.0, 100.0, 0.0)
    assert [scale(value) for value in (0, 5, 10)] == [100.0, 50.0, 0.0]
    assert Axis(3.0, 3.0, 0.0, 10.0)(3.0) == 5.0
    assert (axis_of([1.0, None, math.nan, 3.0], 0, 1).low, axis_of([], 0, 1).high) == (0.88, 1.06)


TICKS = parsed("""
    [0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]]
    [0.47, 0.53, [0.48, 0.5, 0.52]]
    [-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0]]
""")


def test_ticks_are_round_and_their_labels_differ():
    for low, high, expected in TICKS:
        found = ticks(Axis(low, high, 0, 1))
        assert found == pytest.approx(expected)
        assert len({write_tick(value, found) for value in found}) == len(found)


def test_text_and_attributes_are_escaped_and_what_steers_the_writing_is_spelled_out():
    drawn = element("text", '<b>&"\u202e\x1b', x='"><script>')
    assert drawn == '<text x="&#34;&gt;&lt;script&gt;">&lt;b&gt;&amp;&#34;\\u202e\\u001b</text>'


def test_a_run_is_a_point_at_its_time_and_value_and_leads_to_it():
    values = (0.5, 0.25, 0.5)
    points = [
        Point(at=START + i * DAY, value=value, note=f"run {i}", link=f"/{i}")
        for i, value in enumerate(values)
    ]
    drawn = draw_series(points, label="l")
    circles = parts(drawn, "circle")
    assert [each.get("cx") for each in circles] == ["52", "494", "936"]
    first, lower, last = (float(each.get("cy", 0)) for each in circles)
    assert first == last < lower
    assert [each.get("href") for each in parts(drawn, "a")] == ["/0", "/1", "/2"]
    assert [each.text for each in parts(drawn, "title")] == ["run 0", "run 1", "run 2"]


def test_a_run_without_a_value_breaks_the_line_and_is_marked():
    drawn = series([0.5, 0.4, None, 0.5, 0.6])
    assert [
        len((each.get("points") or "").split()) for each in parts(drawn, "polyline", "line")
    ] == [2, 2]
    assert len(parts(drawn, "text", "failed")) == 1


def test_bands_levels_and_spans_are_drawn_where_they_lie():
    levels = [
        Level(value=value, name=name, kind="limit")
        for value, name in ((0.45, "Low"), (-9.0, "far"))
    ]
    spans = [Span(start=START + DAY, end=None, name="fires", kind="firing")]
    drawn = series([0.5, 0.4, 0.5], {"low": 0.4, "expected": 0.5}, levels=levels, spans=spans)
    assert len(parts(drawn, "polygon", "band")) == len(parts(drawn, "polyline", "expected")) == 1
    ticks_and_names = {each.text for each in parts(drawn, "text", "tick")}
    assert ticks_and_names & {"Low", "far"} == {"Low"}  # far ones stretch nothing
    (span,) = parts(drawn, "rect", "firing")
    assert ends(span) == (494, 936)


def test_marks_of_time_are_hours_or_days_and_few():
    for days, first in [(0.5, "00:00"), (10, "01 Jan"), (400, "01 Jan")]:
        drawn = draw_series(
            [Point(at=START + part * days * DAY, value=0.5, note="") for part in (0, 1)], label="l"
        )
        said = [
            each.text
            for each in parts(drawn, "text", "tick")
            if re.match(r"\d\d[: ]", each.text or "")
        ]
        assert said[0] == first
        assert 2 <= len(said) <= 10


def test_a_list_shows_what_was_kept_moved_is_gone_and_is_new():
    drawn = draw_slopes(list("abcde"), list("acexb"), titles={"x": "Tea <hot>"})
    assert [each.get("class") for each in parts(drawn, "line")] == [
        "slope kept",
        "slope far",
        "slope moved",
        "slope moved",
    ]
    assert [
        each.text for each in (*parts(drawn, "span", "gone"), *parts(drawn, "span", "new"))
    ] == ["d", "Tea <hot>"]
    assert "4 items in both lists, 1 only in the left list, 1 only in the right list" in drawn
    small = draw_thumbnail(["a", "b"], ["b", "c"])
    assert [len(parts(small, tag)) for tag in ("line", "circle")] == [1, 2]
    moves = [describe_move(*ranks) for ranks in ((1, 1), (3, 1), (1, 4), (2, None), (None, 2))]
    assert moves == ["kept", "up 2", "down 3", "gone", "new"]


def test_a_waterfall_begins_each_piece_where_the_one_before_ended():
    before, now = (
        Bar(name="total", amount=amount, figure="=", kind="total") for amount in (0.4, 0.6)
    )
    pieces = [Bar(name="a", amount=0.3, figure="+"), Bar(name="b", amount=-0.1, figure="-")]
    drawn = parts(draw_waterfall(before, pieces, now, label="l"), "rect")
    (_, level), first, second, (_, last) = map(ends, drawn)
    assert [first[0], second[1], second[0]] == pytest.approx([level, first[1], last], abs=0.2)
    assert [each.get("class") for each in drawn] == [
        "bar total",
        "bar worse",
        "bar better",
        "bar total",
    ]


def test_a_chart_of_nothing_is_no_chart():
    assert draw_bars([], label="l") == draw_heat_map([], 0, 1, label="l") == ""
    assert draw_stack([START], {"missing": [0.0]}, label="l") == ""


def test_a_distribution_is_a_column_a_run():
    drawn = draw_heat_map([(10, 0), (0, 10), (5, 5)], -1.0, 1.0, label="l")
    (path,) = parts(drawn, "path")
    assert (path.get("class"), (path.get("d") or "").count("M")) == ("heat h6", 4)


def test_shares_are_stacked():
    drawn = draw_stack([START, START + DAY], {"a": [0.1, 0.1], "b": [0.2, 0.0]}, label="l")
    assert [each.findtext("title") for each in parts(drawn, "polygon")] == ["a", "b"]


@given(st.lists(st.none() | st.floats(-1e9, 1e9), max_size=30), st.none() | st.floats(-2, 2))
def test_whatever_comes_is_drawn_well_formed_and_without_what_is_no_number(values, low):
    for drawn in (
        series(values, {"low": low}),
        draw_sparkline(tuple(values), label="l", band=(low, None)),
    ):
        if drawn:
            ET.fromstring(drawn)  # noqa: S314 - our own
        assert not re.search("nan|inf", drawn)


OKABE_ITO = "#000000 #E69F00 #56B4E9 #009E73 #F0E442 #0072B2 #D55E00 #CC79A7 #999999 #7F7F7F"


def test_stacked_colours_are_of_a_palette_for_colour_blind_people():
    stacked = re.findall(r"svg \.s\d \{ fill: (#[0-9a-f]{6})", read_style())
    assert {colour.upper() for colour in stacked} <= set(OKABE_ITO.split())
    assert len({*stacked}) == len(stacked) == 8
