"""Draws how each measure reacts to what can happen to a list.

``make generated`` draws it. The numbers are scores that the registered metrics give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from kernels import reference
from monitor.metrics import METRICS, Metric, expected_by_chance, score_all

K = 10
CATALOGUE = 1000
USERS = 2000
BASE = list(range(K))

CELL_WIDTH, CELL_HEIGHT, LEFT, TOP, GAP = 46, 22, 330, 92, 10
_LOOKS = 'font-family="system-ui, sans-serif" font-size="11" role="img"'
_UNDEFINED = "\N{EN DASH}"
INK, FAINT, PALE, DARK = "#1b1f24", "#6a737d", (247, 250, 253), (8, 69, 148)


@dataclass(frozen=True, slots=True)
class Change:
    """A column: what happened to the candidate's list, and the pairs whose mean score is shown."""

    group: str
    label: str
    pairs: list[tuple[list[int], list[int]]]


def changes() -> Iterator[Change]:
    """Everything that is shown to happen, in the order of the columns."""
    for rank in (1, 5, 9):
        swapped = list(BASE)
        swapped[rank - 1], swapped[rank] = swapped[rank], swapped[rank - 1]
        yield Change("neighbours swapped", f"{rank}, {rank + 1}", [(BASE, swapped)])
    for rank in range(1, K + 1):
        replaced = list(BASE)
        replaced[rank - 1] = 99
        yield Change("one item replaced, at rank", str(rank), [(BASE, replaced)])
    yield Change("order", "reversed", [(BASE, BASE[::-1])])
    yield Change("cut to", "5 items", [(BASE, BASE[:5])])
    yield Change("candidate is", "popular", _popularity())


def _popularity() -> list[tuple[list[int], list[int]]]:
    """Lists of users with tastes of their own in a shop where few items sell much, against the ten that sell most."""
    rng = np.random.default_rng(11)
    appeal = -np.log(np.arange(1, CATALOGUE + 1)) * 0.9
    taste = rng.gumbel(size=(USERS, CATALOGUE))
    own = np.argsort(-(appeal + taste), axis=1)[:, :K]
    return [(row, BASE) for row in own.tolist()]


def _score(metric: Metric, pairs: list[tuple[list[int], list[int]]]) -> float:
    (scores,) = score_all(reference.batch(pairs, K), [metric]).values()
    return float(np.nanmean(scores)) if (~np.isnan(scores)).any() else math.nan


def svg() -> str:
    """The picture: a row a measure, a column a change, a score in each cell, darker the more of the range is lost."""
    columns = list(changes())
    metrics = [kind() for kind in METRICS.values() if kind.need is None]
    lefts = _lefts(columns)
    width, height = lefts[-1] + CELL_WIDTH + 16, TOP + len(metrics) * CELL_HEIGHT + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {_LOOKS}>',
        "<title>How each measure reacts to changes of a list of ten</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(16, 24, f"Score of a list of {K} against what became of it", size=14, weight=600),
        _text(
            16,
            42,
            f"darker: more of the way from identical to the worst that the measure knows; {_UNDEFINED} undefined",
            fill=FAINT,
        ),
        *_heads(columns, lefts),
    ]
    for row, metric in enumerate(metrics):
        y = TOP + row * CELL_HEIGHT
        parts.append(_text(LEFT - 8, y + 15, str(metric), anchor="end", family="ui-monospace, monospace"))
        scores = [_score(metric, change.pairs) for change in columns]
        chance = expected_by_chance(metric, K, CATALOGUE)
        for x, score in zip(lefts, [*scores, math.nan if chance is None else chance], strict=True):
            parts.append(_cell(x, y, score, _lost(metric, score)))
    parts.append(
        _text(
            16,
            height - 16,
            f"popular: mean over {USERS:,} simulated users whose candidate became the {K} items that sell most; "
            f"chance: two unrelated lists from {CATALOGUE:,} items",
            fill=FAINT,
        )
    )
    return "\n".join([*parts, "</svg>", ""])


def _lefts(columns: list[Change]) -> list[int]:
    """Left edge of each column, and of one more for chance; a gap between groups."""
    lefts, x = [], LEFT
    for number, change in enumerate(columns):
        if number and change.group != columns[number - 1].group:
            x += GAP
        lefts.append(x)
        x += CELL_WIDTH
    return [*lefts, x + GAP]


def _heads(columns: list[Change], lefts: list[int]) -> Iterator[str]:
    groups: dict[str, list[int]] = {}
    for change, x in zip(columns, lefts, strict=False):
        groups.setdefault(change.group, []).append(x)
        yield _text(x + CELL_WIDTH // 2, TOP - 8, change.label, anchor="middle")
    for name, edges in groups.items():
        yield _text((edges[0] + edges[-1] + CELL_WIDTH) // 2, TOP - 26, name, anchor="middle", fill=FAINT, size=10)
    yield _text(lefts[-1] + CELL_WIDTH // 2, TOP - 8, "chance", anchor="middle")


def _lost(metric: Metric, score: float) -> float:
    """Share of the way from the score of identical lists to the farthest end of the range, from 0 to 1."""
    best = _score(metric, [(BASE, BASE)])
    worst = max(metric.bounds(K), key=lambda end: abs(end - best))
    return min(1.0, abs(score - best) / abs(worst - best))


def _cell(x: int, y: int, score: float, lost: float) -> str:
    box = f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT - 2}" rx="2" fill="'
    middle = x + CELL_WIDTH // 2 - 1
    if math.isnan(score):
        return f'{box}#eeeeee"/>' + _text(middle, y + 14, _UNDEFINED, anchor="middle", fill=FAINT)
    shade = [round(pale + (dark - pale) * lost) for pale, dark in zip(PALE, DARK, strict=True)]
    ink = "white" if lost > 0.55 else INK
    return f'{box}rgb({shade[0]},{shade[1]},{shade[2]})"/>' + _text(middle, y + 14, _number(score), anchor="middle", fill=ink)


def _number(score: float) -> str:
    text = f"{score:.2f}" if abs(score) < K else f"{score:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")


def _text(  # noqa: PLR0913 - attributes of a text
    x: int, y: int, text: str, *, anchor: str = "start", fill: str = INK, size: int = 11, weight: int = 400, family: str = ""
) -> str:
    font = f' font-family="{family}"' if family else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" font-weight="{weight}"{font}>'
        f"{escape(text)}</text>"
    )
