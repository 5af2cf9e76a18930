"""Draws how each measure reacts to what can happen to a list.

``make generated`` draws it. The numbers are scores that the registered metrics give.
"""

from __future__ import annotations

import itertools
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
_UNDEFINED = "\N{EN DASH}"
_PALE, _DARK = (247, 250, 253), (8, 69, 148)
_STYLE = """text { font: 11px system-ui, sans-serif; fill: #1b1f24 } .title { font-size: 14px; font-weight: 600 }
.faint { fill: #6a737d } .light { fill: white } .middle { text-anchor: middle } .group { font-size: 10px }
.metric { text-anchor: end; font-family: ui-monospace, monospace }"""


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
    meaning = f"darker: more of the way from identical to the worst that the measure knows; {_UNDEFINED} undefined"
    simulated = f"mean over {USERS:,} simulated users whose candidate became the {K} items that sell most"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>How each measure reacts to changes of a list of ten</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(16, 24, f"Score of a list of {K} against what became of it", "title"),
        _text(16, 42, meaning, "faint"),
        *_heads(columns, lefts),
    ]
    for y, metric in enumerate(metrics):
        top = TOP + y * CELL_HEIGHT
        parts.append(_text(LEFT - 8, top + 15, str(metric), "metric"))
        scores = [*(_score(metric, change.pairs) for change in columns), expected_by_chance(metric, K, CATALOGUE)]
        parts += [_cell(x, top, metric, score) for x, score in zip(lefts, scores, strict=True)]
    parts.append(_text(16, height - 16, f"popular: {simulated}; chance: two unrelated lists from {CATALOGUE:,} items", "faint"))
    return "\n".join([*parts, "</svg>", ""])


def _lefts(columns: list[Change]) -> list[int]:
    """Left edge of each column, and of one more for chance; a gap between groups."""
    groups = [*(change.group for change in columns), "chance"]
    begun = [sum(one != other for one, other in itertools.pairwise(groups[: place + 1])) for place in range(len(groups))]
    return [LEFT + place * CELL_WIDTH + gaps * GAP for place, gaps in enumerate(begun)]


def _heads(columns: list[Change], lefts: list[int]) -> Iterator[str]:
    for label, x in zip([*(change.label for change in columns), "chance"], lefts, strict=True):
        yield _text(x + CELL_WIDTH // 2, TOP - 8, label, "middle")
    for name, found in itertools.groupby(zip(columns, lefts, strict=False), key=lambda each: each[0].group):
        edges = [x for _, x in found]
        yield _text((edges[0] + edges[-1] + CELL_WIDTH) // 2, TOP - 26, name, "middle group faint")


def _cell(x: int, y: int, metric: Metric, score: float | None) -> str:
    box = f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT - 2}" rx="2" fill='
    if score is None or math.isnan(score):
        return f'{box}"#eeeeee"/>' + _text(x + CELL_WIDTH // 2 - 1, y + 14, _UNDEFINED, "middle faint")
    # How much is lost: the share of the way from the score of identical lists to the farthest end of the range.
    best = _score(metric, [(BASE, BASE)])
    lost = min(1.0, abs(score - best) / max(abs(end - best) for end in metric.bounds(K)))
    shade = ",".join(str(round(pale + (dark - pale) * lost)) for pale, dark in zip(_PALE, _DARK, strict=True))
    text = (f"{score:.2f}" if abs(score) < K else f"{score:.0f}").replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
    return f'{box}"rgb({shade})"/>' + _text(x + CELL_WIDTH // 2 - 1, y + 14, text, "middle light" if lost > 0.55 else "middle")


def _text(x: int, y: int, text: str, looks: str) -> str:
    return f'<text x="{x}" y="{y}" class="{looks}">{escape(text)}</text>'
