"""Where the users are that something happened to: a segment, or the common users of two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from monitor.model import ALL
from monitor.model.arrays import Flags, Rows

AND = " and "
"""Stands between the names of two segments whose common users are meant."""

# Share of those hit that a segment must hold before it is named, and how much better it must tell them than all users do.
_HELD = 0.8
_BETTER = 1.25
_NARROWER = 1.1

# Standard deviations by which it must hold more of them than as many users drawn at random.
_SURE = 4.0


def find_place(hit: Flags, usual: float, segments: Mapping[str, Rows]) -> str:
    """The segment that tells best who was hit, ``all`` where none does.

    ``hit`` (n,), of whom a share ``usual`` of all users would be hit anyhow. The best one has the greatest F1 of the share of
    those hit that it holds and the share of its users that were hit, if it holds `_HELD` of them and more than users drawn at
    random would beyond doubt. Two segments of different dimensions are named when their common users tell them better still.
    """
    n, total = len(segments[ALL]), _beyond(hit, usual, segments[ALL])
    if total <= 0:
        return ALL

    def score(rows: Rows) -> float:
        found, by_chance = _beyond(hit, usual, rows), total * len(rows) / n
        is_sure = len(rows) == n or found - by_chance >= _SURE * math.sqrt(by_chance)
        return 2 * found / (total + len(rows)) if is_sure and found >= _HELD * total else 0.0

    scores = {name: score(rows) for name, rows in sorted(segments.items())}
    holding = [name for name in sorted(scores, key=lambda name: -scores[name]) if name != ALL and scores[name] > 0]
    best = holding[0] if holding and scores[holding[0]] >= _BETTER * scores[ALL] else ALL
    for first, second in combinations(holding, 2):
        if first.partition("=")[0] != second.partition("=")[0]:
            both = AND.join(sorted((first, second)))
            scores[both] = score(rows_of_place(both, segments))
            best = both if scores[both] > _NARROWER * scores[best] else best
    return best


def _beyond(hit: Flags, usual: float, rows: Rows) -> float:
    """How many of these users were hit that would not have been anyhow."""
    return max(0.0, float(hit[rows].sum()) - usual * len(rows)) / max(1e-9, 1 - usual)


def rows_of_place(name: str, segments: Mapping[str, Rows]) -> Rows:
    """Rows of the users of a segment, or of the common ones of two joined by `AND`; none where it is not known."""
    if name in segments:
        return segments[name]
    # A name from outside may hold the word itself.
    words = name.split(AND)
    for cut in range(1, len(words)):
        first, second = AND.join(words[:cut]), AND.join(words[cut:])
        if first in segments and second in segments:
            return np.intersect1d(segments[first], segments[second], assume_unique=True)
    return np.empty(0, dtype=np.intp)
