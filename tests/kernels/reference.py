"""Slow and obvious: each measure from its definition, for one pair of lists."""

import math
import random
from dataclasses import replace
from functools import cache

import numpy as np
import scipy

from monitor.model.rankings import ByArm, PairBatch

SHORT = (1, 2, 3, 5, 8, 12, 25)
LONG = (1, 2, 3, 5, 10, 17, 40, 120)
TOPS = (0, 2**16 - 8, 2**24, 2**31 - 700)
"""Smallest codes: those that fit 16 bits, that straddle them, that need wide keys, and the largest there are."""


def draw(count, seed, *, even, lengths=SHORT, tops=(0,)):
    """Pairs of lists from nearly the same items to nearly none, of each length in turn, or of up to it."""
    chance = random.Random(seed)  # noqa: S311 - test data
    pairs = []
    for i in range(count):
        k, top = lengths[i % len(lengths)], chance.choice(tops)
        catalogue = range(top, top + chance.choice((k, k + 1, 2 * k, 5 * k)))
        sizes = (k, k) if even else (chance.randint(0, k), chance.randint(0, k))
        pairs.append((chance.sample(catalogue, sizes[0]), chance.sample(catalogue, sizes[1])))
    return pairs


def padded(rows, k=4):
    """Codes, filled up with -1, and lengths."""
    codes = np.array([[*row, *[-1] * (k - len(row))] for row in rows], dtype=np.int32).reshape(
        -1, k
    )
    return codes, np.array([len(row) for row in rows], dtype=np.int32)


def groups(count, seed, draw, lengths, *, even):
    """So many drawn pairs of each length, group by group, so that full lists stay full."""
    pairs = draw(count * len(lengths), seed, even=even, lengths=lengths)
    return [pairs[i :: len(lengths)] for i in range(len(lengths))]


def unscaled_tau(a, b):
    """Tau-b over a universe of len(a) + len(b) members, dummies filling it up, absent members tied last."""
    universe = list(dict.fromkeys([*a, *b]))
    universe += [("dummy", i) for i in range(len(a) + len(b) - len(universe))]
    return float(scipy.stats.kendalltau(*places(universe, a, b)).statistic)


def places(universe, a, b):
    """The place of each member in both lists. An absent member is behind the list."""
    return [
        [ranking.index(member) if member in ranking else len(ranking) for member in universe]
        for ranking in (a, b)
    ]


@cache
def disjoint_tau(a, b):
    return unscaled_tau([("a", i) for i in range(a)], [("b", i) for i in range(b)])


def extended_tau(a, b):
    if not a or not b:
        return -1.0 if a or b else math.nan
    low = disjoint_tau(len(a), len(b))
    return 2 * (unscaled_tau(a, b) - low) / (1 - low) - 1


def overlap(a, b):
    return len(set(a) & set(b)) / max(len(a), len(b)) if a or b else math.nan


def pairs(text):
    """The two lists of each user, an item a digit: "12:21 12:13"."""
    sides = [pair.split(":") for pair in text.split()]
    return [([*map(int, a)], [*map(int, b)]) for a, b in sides]


def batch(pairs, k=None):
    """The pairs padded to k, or to their longest list."""
    width = k or max([1, *(len(ranking) for pair in pairs for ranking in pair)])
    (baseline, a), (candidate, b) = (padded([pair[arm] for pair in pairs], width) for arm in (0, 1))
    return PairBatch(
        baseline=baseline, candidate=candidate, baseline_lengths=a, candidate_lengths=b
    )


def with_weights(pairs, weights):
    plain = batch(pairs)
    return replace(
        plain,
        weights=by_place(
            plain, [([weights[i] for i in a], [weights[i] for i in b]) for a, b in pairs]
        ),
    )


def by_place(plain, known):
    """What is known of the items of each pair at their places, NaN behind them."""
    arms = [np.full(plain.baseline.shape, math.nan) for _ in (0, 1)]
    for row, pair in enumerate(known):
        for arm, values in zip(arms, pair, strict=True):
            arm[row, : len(values)] = values
    return ByArm(baseline=arms[0], candidate=arms[1])
