"""Slow and obvious: the RBO family from its definitions, for one pair of lists."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace

from kernels import reference

Tied = tuple[Sequence[int], Sequence[float]]
"""Items best first, and their scores."""


def agreement(a, b, depth):
    return len(set(a[:depth]) & set(b[:depth])) / depth


def truncated(a, b, p):
    if not a and not b:
        return math.nan
    return (1 - p) * sum(
        p ** (d - 1) * agreement(a, b, d) for d in range(1, min(len(a), len(b)) + 1)
    )


def without_end(a, b, p, depth):
    """RBO of two lists down to ``depth``, below which items have no weight: equation 4."""
    shared, ours, theirs, total = 0, set[int](), set[int](), 0.0
    for d, (x, y) in enumerate(zip(a[:depth], b[:depth], strict=True), start=1):
        shared += (x == y) + (x in theirs) + (y in ours)
        ours.add(x)
        theirs.add(y)
        total += (1 - p) * p ** (d - 1) * shared / d
    return total


def least(a, b, p, depth):
    """RBO of the lists, if each continues with items that the other list does not have."""
    if not a and not b:
        return math.nan
    return without_end(
        [*a, *range(-depth, 0)][:depth], [*b, *range(-2 * depth, -depth)][:depth], p, depth
    )


def most(a, b, p, depth):
    """RBO of the lists, going on rank by rank with the other's items as soon as there are any, then with the same new ones."""
    if not a and not b:
        return math.nan
    ours, theirs = list(a), list(b)
    for d in range(1, depth + 1):
        for here, there in ((ours, theirs), (theirs, ours)):
            if len(here) < d:
                held = set(here)
                here.append(next((item for item in there[:d] if item not in held), -d))
    return without_end(ours, theirs, p, depth)


def tied(*groups):
    """Items best first, those of one group tied."""
    return [item for group in groups for item in group], [
        -float(i) for i, group in enumerate(groups) for _ in group
    ]


def parse(text):
    """An item a digit, those in brackets tied: "1(23)"."""
    return tied(*([*map(int, group.strip("()"))] for group in re.findall(r"\(\d+\)|\d", text)))


def cut_into_groups(items, widths):
    """The first items tied in groups of these widths, the others alone."""
    groups = []
    rest = items
    for width in widths:
        groups, rest = [*groups, rest[:width]], rest[width:]
    return tied(*groups, *([item] for item in rest))


def draw(count, seed, *, even, lengths=reference.SHORT):
    """Pairs as `reference.draw` has them, groups of one to five tied."""
    chance = random.Random(seed)  # noqa: S311 - test data

    def tie(items):
        return cut_into_groups(items, chance.choices((1, 1, 2, 3, 5), k=len(items)))

    return [(tie(a), tie(b)) for a, b in reference.draw(count, seed, even=even, lengths=lengths)]


def groups(tied):
    items, scores = tied
    score_of = dict(zip(items, scores, strict=True))
    return [list(group) for _, group in itertools.groupby(items, score_of.get)]


def shares(tied, depth, *, whole):
    """How much of each item belongs to the top ``depth``.

    As a whole from its group's first rank on, or by chance.
    """
    found = {}
    top = 1
    for group in groups(tied):
        if top <= depth:
            part = 1.0 if whole else min(1.0, (depth - top + 1) / len(group))
            found |= dict.fromkeys(group, part)
        top += len(group)
    return found


def tied_rbo(a, b, p, kind):
    """RBO_ext of Corsi and Urbano's variant ``kind``: depths down to the shorter list, down to the longer, and below."""
    short, long = sorted((a, b), key=lambda tied: len(tied[0]))
    s, l = len(short[0]), len(long[0])  # noqa: E741 - the papers' letters
    if not s:
        return 0.0 if l else math.nan
    found = [0.0]
    for d in range(1, l + 1):
        mine, other = (shares(tied, d, whole=kind == "w") for tied in (short, long))
        overlap = sum(part * other.get(item, 0.0) for item, part in mine.items())
        if d > s:
            strangers = [part for item, part in other.items() if item not in mine]
            overlap += (d - s) * found[s] * sum(strangers) / len(strangers)
        found.append(overlap / norm(kind, mine, other, d, has_ended=d > s))
    return (1 - p) * sum(p ** (d - 1) * found[d] for d in range(1, l + 1)) + p**l * found[l]


def norm(kind, mine, other, d, *, has_ended):
    if kind == "a":
        return d
    squares = [sum(part**2 for part in side.values()) for side in (mine, other)]
    if has_ended:
        squares[0] = d
    return sum(squares) / 2 if kind == "w" else math.sqrt(squares[0] * squares[1])


def batch(pairs, k=None):
    """The pairs with their scores, padded to k or to their longest list."""
    plain = reference.batch([(a[0], b[0]) for a, b in pairs], k)
    return replace(plain, scores=reference.by_place(plain, [(a[1], b[1]) for a, b in pairs]))
