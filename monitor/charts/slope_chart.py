"""Two lists side by side: items that both have are joined by a line, items of one stand alone."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from monitor.charts.svg import drawing, element, link_to

THUMB_ROW, THUMB_WIDTH = 5.0, 64.0
_LONGEST = 90
"""Letters of a name: more than the two lines that the style sheet shows of it hold."""
_FAR = 3
"""Places from which on an item counts as moved far."""


def draw_slopes(
    baseline: Sequence[str],
    candidate: Sequence[str],
    *,
    titles: Mapping[str, str] | None = None,
    urls: Mapping[str, str] | None = None,
    heads: tuple[str, str] = ("baseline", "candidate"),
) -> Markup:
    """Both lists, best first.

    An item is kept, moved, far, gone (baseline alone) or new (candidate alone). Text wraps.
    """
    ranks = {item: rank for rank, item in enumerate(candidate)}
    before = {item: rank for rank, item in enumerate(baseline)}
    lines = [
        element(
            "line",
            x1=0,
            y1=rank + 0.5,
            x2=1,
            y2=after + 0.5,
            class_=f"slope {_class_of(rank, after)}",
        )
        for rank, item in enumerate(baseline)
        if (after := ranks.get(item)) is not None
    ]

    def draw(rank: int, item: str, kind: str) -> Markup:
        return _draw_item(rank, item, (titles or {}).get(item, item), kind, (urls or {}).get(item))

    left = [
        draw(rank, item, _class_of(rank, ranks.get(item))) for rank, item in enumerate(baseline)
    ]
    right = [
        draw(rank, item, _class_of(before.get(item), rank)) for rank, item in enumerate(candidate)
    ]
    # The picture is stretched to the height of the lists.
    area = {
        "viewBox": f"0 0 1 {max(len(baseline), len(candidate), 1)}",
        "preserveAspectRatio": "none",
    }
    picture = element("svg", *lines, role="img", aria_label=_describe(baseline, candidate), **area)
    above = (element("p", head, class_="head") for head in heads)
    return element(
        "div",
        *above,
        element("ol", *left),
        element("div", picture),
        element("ol", *right),
        class_="slopes",
    )


def draw_thumbnail(baseline: Sequence[str], candidate: Sequence[str]) -> Markup:
    """The same in the room of a word: a line an item, without names."""
    ranks = {item: rank for rank, item in enumerate(candidate)}
    height = (max(len(baseline), len(candidate), 1) + 1) * THUMB_ROW
    drawn = []
    for rank, item in enumerate(baseline):
        y, after = (rank + 1) * THUMB_ROW, ranks.get(item)
        if after is None:
            drawn.append(element("circle", cx=6.0, cy=y, r=2.0, class_="slope gone"))
        else:
            end, kind = (after + 1) * THUMB_ROW, _class_of(rank, after)
            drawn.append(
                element("line", x1=8.0, y1=y, x2=THUMB_WIDTH - 8, y2=end, class_=f"slope {kind}")
            )
    known = set(baseline)
    drawn += [
        element("circle", cx=THUMB_WIDTH - 6, cy=(rank + 1) * THUMB_ROW, r=2.0, class_="slope new")
        for rank, item in enumerate(candidate)
        if item not in known
    ]
    return drawing(THUMB_WIDTH, height, _describe(baseline, candidate), *drawn, class_="thumb")


def describe_move(before: int | None, after: int | None) -> str:
    """What became of an item, of its ranks counted from 1, in words: kept, up 2, down 3, gone, new."""
    if before is None or after is None or before == after:
        return _class_of(before, after)
    return f"up {before - after}" if after < before else f"down {after - before}"


def _class_of(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "new" if before is None else "gone"
    return "kept" if before == after else "far" if abs(before - after) >= _FAR else "moved"


def _draw_item(rank: int, item: str, full: str, kind: str, url: str | None) -> Markup:
    said = full if len(full) <= _LONGEST else f"{full[: _LONGEST - 1]}…"
    name = element("span", link_to(url, said), class_=f"item {kind}")
    return element(
        "li",
        element("span", str(rank + 1), class_="rank"),
        name,
        title=f"{full} ({item})" if full != item else item,
    )


def _describe(baseline: Sequence[str], candidate: Sequence[str]) -> str:
    shared = len(set(baseline) & set(candidate))
    gone, new = len(baseline) - shared, len(candidate) - shared
    return (
        f"{shared} items in both lists, {gone} only in the baseline's, {new} only in the "
        "candidate's"
    )
