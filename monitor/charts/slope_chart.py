"""Two lists side by side: items that both have are joined by a line, items of one stand alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from monitor.charts.svg import drawing, element, link_to

ROW = 26.0
WIDTH = 640.0
LINES = (262.0, 378.0)
"""Between which places the lines run; the names stand on both sides."""
THUMB_ROW, THUMB_WIDTH = 5.0, 64.0
_LONGEST, _SHORT = 34, 18
"""Letters of a name; on a narrow page the style sheet hides those beyond the second number."""
_FAR = 3
"""Places from which on an item counts as moved far."""


def draw_slopes(
    baseline: Sequence[str],
    candidate: Sequence[str],
    *,
    titles: Mapping[str, str] | None = None,
    urls: Mapping[str, str] | None = None,
) -> Markup:
    """Both lists in full, best first; an item's class is kept, moved, far, gone (baseline alone) or new (candidate alone).

    ``urls``: where items lead.
    """
    ranks = {item: rank for rank, item in enumerate(candidate)}
    before = {item: rank for rank, item in enumerate(baseline)}
    height = (max(len(baseline), len(candidate), 1) + 1) * ROW
    heads = [
        element("text", "baseline", x=LINES[0] - 34, y=14, text_anchor="end", class_="head"),
        element("text", "candidate", x=LINES[1] + 34, y=14, class_="head"),
    ]
    lines = [_draw_move(rank, ranks[item]) for rank, item in enumerate(baseline) if item in ranks]

    def draw(rank: int, item: str, side: str, kind: str) -> str:
        return link_to((urls or {}).get(item), _draw_item(rank, item, (titles or {}).get(item, item), side, kind))

    left = [draw(rank, item, "left", _class_of(rank, ranks.get(item))) for rank, item in enumerate(baseline)]
    right = [draw(rank, item, "right", _class_of(before.get(item), rank)) for rank, item in enumerate(candidate)]
    role = "group" if urls else "img"
    return drawing(WIDTH, height, _describe(baseline, candidate), *heads, *lines, *left, *right, class_="slopes", role=role)


def draw_thumbnail(baseline: Sequence[str], candidate: Sequence[str]) -> Markup:
    """The same in the room of a word: a line an item, without names."""
    ranks = {item: rank for rank, item in enumerate(candidate)}
    height = (max(len(baseline), len(candidate), 1) + 1) * THUMB_ROW
    drawn = []
    for rank, item in enumerate(baseline):
        y = (rank + 1) * THUMB_ROW
        if item in ranks:
            end = (ranks[item] + 1) * THUMB_ROW
            drawn.append(
                element("line", x1=8.0, y1=y, x2=THUMB_WIDTH - 8, y2=end, class_=f"slope {_class_of(rank, ranks[item])}")
            )
        else:
            drawn.append(element("circle", cx=6.0, cy=y, r=2.0, class_="slope gone"))
    known = set(baseline)
    drawn += [
        element("circle", cx=THUMB_WIDTH - 6, cy=(rank + 1) * THUMB_ROW, r=2.0, class_="slope new")
        for rank, item in enumerate(candidate)
        if item not in known
    ]
    return drawing(THUMB_WIDTH, height, _describe(baseline, candidate), *drawn, class_="thumb")


def describe_move(before: int | None, after: int | None) -> str:
    """What became of an item, of its ranks counted from 1, in words: kept, up 2, down 3, gone, new."""
    if before is None or after is None:
        return "new" if before is None else "gone"
    return "kept" if before == after else f"up {before - after}" if after < before else f"down {after - before}"


def _class_of(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "new" if before is None else "gone"
    return "kept" if before == after else "far" if abs(before - after) >= _FAR else "moved"


def _draw_move(before: int, after: int) -> Markup:
    y1, y2 = (ROW * (rank + 1) + 12 for rank in (before, after))
    return element("line", x1=LINES[0], y1=y1, x2=LINES[1], y2=y2, class_=f"slope {_class_of(before, after)}")


def _draw_item(rank: int, item: str, full: str, side: str, kind: str) -> Markup:
    said = full if len(full) <= _LONGEST else f"{full[: _LONGEST - 1]}…"
    parts = [said]
    if len(said) > _SHORT:
        parts = [said[:_SHORT], element("tspan", said[_SHORT:], class_="rest"), element("tspan", "…", class_="cut")]
    y = ROW * (rank + 1) + 16
    mark, name = (LINES[0] - 10, LINES[0] - 38) if side == "left" else (LINES[1] + 10, LINES[1] + 38)
    anchor, outer = ("end", "end") if side == "left" else ("start", "start")
    return element(
        "g",
        element("title", f"{full} ({item})" if full != item else item),
        element("text", str(rank + 1), x=mark, y=y, text_anchor=anchor, class_="tick"),
        element("text", *parts, x=name, y=y, text_anchor=outer, class_=f"item {kind}"),
    )


def _describe(baseline: Sequence[str], candidate: Sequence[str]) -> str:
    shared = len(set(baseline) & set(candidate))
    gone, new = len(baseline) - shared, len(candidate) - shared
    return f"{shared} items in both lists, {gone} only in the baseline's, {new} only in the candidate's"
