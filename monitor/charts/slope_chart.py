"""Draws two lists side by side. A line joins the places of each item that is in both lists."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from markupsafe import Markup

from monitor.charts.svg import draw_dot, draw_line, drawing, element, link_to
from monitor.model.rankings import ranks_by_item

THUMB_ROW = 5.0
THUMB_WIDTH = 64.0
_LONGEST_NAME_CHARS = 90
"""A name is cut to this many letters. The style sheet shows fewer, on two lines."""
_FAR_PLACES = 3
"""If an item moved by at least this many places, its class is ``far``."""


def draw_slopes(
    baseline: Sequence[str],
    candidate: Sequence[str],
    *,
    titles: Mapping[str, str],
    urls: Mapping[str, str] = MappingProxyType({}),
    heads: tuple[str, str] = ("baseline", "candidate"),
) -> Markup:
    """Draw both lists as text that wraps. The best items come first.

    Each item has one of these classes: kept, moved, far, gone or new. Gone items are only in the
    baseline. New items are only in the candidate.
    """
    ranks = ranks_by_item(baseline, candidate)
    lines = []
    left = []
    right = []
    for rank, item in enumerate(baseline, start=1):
        _, after = ranks[item]
        kind = _class_of(rank, after)
        left.append(_draw_item(rank, item, kind, titles, urls))
        if after is not None:
            lines.append(draw_line(0, rank - 0.5, 1, after - 0.5, f"slope {kind}"))
    for rank, item in enumerate(candidate, start=1):
        kind = _class_of(*ranks[item])
        right.append(_draw_item(rank, item, kind, titles, urls))
    # The picture is stretched to the height of the lists.
    area = {
        "viewBox": f"0 0 1 {max(len(baseline), len(candidate), 1)}",
        "preserveAspectRatio": "none",
    }
    picture = element("svg", *lines, role="img", aria_label=_describe(baseline, candidate), **area)
    return element(
        "div",
        element("p", heads[0], class_="head"),
        element("p", heads[1], class_="head"),
        element("ol", *left),
        element("div", picture),
        element("ol", *right),
        class_="slopes",
    )


def draw_thumbnail(baseline: Sequence[str], candidate: Sequence[str]) -> Markup:
    """Draw both lists in a picture as small as a word. Each item is a line without a name."""
    ranks = ranks_by_item(baseline, candidate)
    height = (max(len(baseline), len(candidate), 1) + 1) * THUMB_ROW
    drawn = []
    for rank, item in enumerate(baseline, start=1):
        _, after = ranks[item]
        line_class = f"slope {_class_of(rank, after)}"
        y = rank * THUMB_ROW
        if after is None:
            drawn.append(draw_dot(6.0, y, 2.0, line_class))
        else:
            drawn.append(draw_line(8.0, y, THUMB_WIDTH - 8, after * THUMB_ROW, line_class))
    for rank, item in enumerate(candidate, start=1):
        before, _ = ranks[item]
        if before is None:
            drawn.append(draw_dot(THUMB_WIDTH - 6, rank * THUMB_ROW, 2.0, "slope new"))
    return drawing(THUMB_WIDTH, height, _describe(baseline, candidate), *drawn, class_="thumb")


def describe_move(before: int | None, after: int | None) -> str:
    """Describe how an item moved: kept, up 2, down 3, gone or new. Ranks count from 1.

    The rank is None in a list without the item.
    """
    if before is None or after is None or before == after:
        return _class_of(before, after)
    if after < before:
        return f"up {before - after}"
    return f"down {after - before}"


def _class_of(before: int | None, after: int | None) -> str:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if before == after:
        return "kept"
    return "far" if abs(before - after) >= _FAR_PLACES else "moved"


def _draw_item(
    rank: int, item: str, kind: str, titles: Mapping[str, str], urls: Mapping[str, str]
) -> Markup:
    title = titles.get(item, item)
    label = title
    if len(title) > _LONGEST_NAME_CHARS:
        label = f"{title[: _LONGEST_NAME_CHARS - 1]}…"
    name = element("span", link_to(urls.get(item), label), class_=f"item {kind}")
    hint = f"{title} ({item})" if title != item else item
    return element("li", element("span", str(rank), class_="rank"), name, title=hint)


def _describe(baseline: Sequence[str], candidate: Sequence[str]) -> str:
    shared = len(set(baseline) & set(candidate))
    return (
        f"{shared} items in both lists, {len(baseline) - shared} only in the left list, "
        f"{len(candidate) - shared} only in the right list"
    )
