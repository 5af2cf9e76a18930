"""Slow and obvious: each measure from its definition, for one pair of lists."""

import math
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau

from kernels.reference_kendall import Items, Weights, common, ranks, step_cost
from monitor.kernels import Alignment, align
from monitor.model.rankings import PairBatch

Pair = tuple[Sequence[int], Sequence[int]]
SHORT = (1, 2, 3, 5, 8, 12, 25)
LONG = (1, 2, 3, 5, 10, 17, 40, 120)
TOPS = (0, 2**16 - 8, 2**24, 2**31 - 700)
"""Smallest codes: those that fit 16 bits, that straddle them, that need wide keys, and the largest there are."""


def draw(
    count: int, seed: int, *, even: bool, lengths: Sequence[int] = SHORT, tops: Sequence[int] = (0,)
) -> list[tuple[list[int], list[int]]]:
    """Pairs of lists from nearly the same items to nearly none, of each length in turn, or of up to it."""
    chance = random.Random(seed)  # noqa: S311 - test data
    pairs = []
    for i in range(count):
        k, top = lengths[i % len(lengths)], chance.choice(tops)
        catalogue = range(top, top + chance.choice((k, k + 1, 2 * k, 5 * k)))
        sizes = (k, k) if even else (chance.randint(0, k), chance.randint(0, k))
        pairs.append((chance.sample(catalogue, sizes[0]), chance.sample(catalogue, sizes[1])))
    return pairs


def padded(rows: Sequence[Sequence[int]], k: int = 4) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Codes, filled up with -1, and lengths."""
    codes = np.array([[*row, *[-1] * (k - len(row))] for row in rows], dtype=np.int32).reshape(-1, k)
    return codes, np.array([len(row) for row in rows], dtype=np.int32)


def alignments(
    count: int, seed: int, *, even: bool, lengths: Sequence[int] = SHORT, tops: Sequence[int] = (0,)
) -> list[tuple[Alignment, list[tuple[list[int], list[int]]]]]:
    """The drawn pairs, batches of one k, so that full lists stay full."""
    pairs = draw(count, seed, even=even, lengths=lengths, tops=tops)
    groups = [pairs[i :: len(lengths)] for i in range(len(lengths))]
    return [(align(batch(group)), group) for group in groups]


def unscaled_tau(a: Sequence[object], b: Sequence[object]) -> float:
    """Tau-b over a universe of len(a) + len(b) members, dummies filling it up, absent members tied last."""
    universe = list(dict.fromkeys([*a, *b]))
    universe += [("dummy", i) for i in range(len(a) + len(b) - len(universe))]
    ranks = [[ranking.index(member) if member in ranking else len(ranking) for member in universe] for ranking in (a, b)]
    return float(kendalltau(*ranks).statistic)


@cache
def disjoint_tau(a: int, b: int) -> float:
    return unscaled_tau([("a", i) for i in range(a)], [("b", i) for i in range(b)])


def extended_tau(a: Sequence[object], b: Sequence[object]) -> float:
    if not a or not b:
        return -1.0 if a or b else math.nan
    low = disjoint_tau(len(a), len(b))
    return 2 * (unscaled_tau(a, b) - low) / (1 - low) - 1


def discordant(a: Sequence[object], b: Sequence[object]) -> int:
    """K0: Fagin, Kumar and Sivakumar's top-k Kendall distance with p = 0, case by case."""
    universe = list(dict.fromkeys([*a, *b]))
    count = 0
    for i, x in enumerate(universe):
        for y in universe[:i]:
            ranks = [[ranking.index(m) if m in ranking else math.inf for m in (x, y)] for ranking in (a, b)]
            (ax, ay), (bx, by) = ranks
            count += (ax < ay and bx > by) or (ax > ay and bx < by)
    return count


def rbo(a: Sequence[object], b: Sequence[object], p: float) -> float:
    """Equation 32, letter by letter."""
    if not a or not b:
        return 0.0 if a or b else math.nan
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's letters
    x = [len(set(short[:d]) & set(long[:d])) for d in range(l + 1)]
    seen = sum(x[d] / d * p**d for d in range(1, l + 1))
    assumed = sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + assumed) + ((x[l] - x[s]) / l + x[s] / s) * p**l


def overlap(a: Sequence[object], b: Sequence[object]) -> float:
    return len(set(a) & set(b)) / max(len(a), len(b)) if a or b else math.nan


def pad(rows: Sequence[Sequence[float]], width: int) -> npt.NDArray[np.float64]:
    """What is known of items at their places, NaN behind them."""
    return np.array([[*row, *[math.nan] * (width - len(row))] for row in rows], dtype=np.float64).reshape(-1, width)


def batch(pairs: Sequence[Pair], k: int | None = None) -> PairBatch:
    """The pairs padded to k, or to their longest list."""
    width = k or max([1, *(len(ranking) for pair in pairs for ranking in pair)])
    arms = [[list(pair[arm]) for pair in pairs] for arm in (0, 1)]
    codes = [np.array([row + [-1] * (width - len(row)) for row in arm], dtype=np.int32).reshape(-1, width) for arm in arms]
    lengths = [np.array([len(row) for row in arm], dtype=np.int32) for arm in arms]
    return PairBatch(baseline=codes[0], candidate=codes[1], baseline_lengths=lengths[0], candidate_lengths=lengths[1])


def footrule(a: Items, b: Items) -> float:
    ours, theirs = ranks(a, b)
    return float(sum(abs(i - j) for i, j in zip(ours, theirs, strict=True))) if len(ours) > 1 else math.nan


def footrule_normalized(a: Items, b: Items) -> float:
    z = len(common(a, b))
    return footrule(a, b) / (z * z // 2) if z > 1 else math.nan


def topk_footrule(a: Items, b: Items) -> float:
    if not a or not b:
        return math.nan
    places = [{item: rank for rank, item in enumerate(ranking, start=1)} for ranking in (a, b)]
    return float(sum(abs(places[0].get(item, len(a) + 1) - places[1].get(item, len(b) + 1)) for item in {*a, *b}))


def topk_footrule_normalized(a: Items, b: Items) -> float:
    if not a or not b:
        return 1.0 if a or b else math.nan
    return topk_footrule(a, b) / topk_footrule([("a", item) for item in a], [("b", item) for item in b])


def weighted_footrule(a: Items, b: Items, weights: Weights, discount: str | None = None) -> float:
    """Each item's weight times how far it moves, ranks being the weight ahead."""
    shared = common(a, b)
    if len(shared) < 2:
        return math.nan
    cost = {item: weights[item] * (step_cost(a, b, item, discount) if discount else 1.0) for item in shared}
    starts = [_starts(ranking, cost) for ranking in (shared, common(b, a))]
    return sum(cost[item] * abs(starts[0][item] - starts[1][item]) for item in shared)


def weighted_footrule_normalized(a: Items, b: Items, weights: Weights) -> float:
    """By the mean of what reversing either list would cost."""
    shared, there = common(a, b), common(b, a)
    if len(shared) < 2:
        return math.nan
    reversals = [weighted_footrule(ranking, ranking[::-1], weights) for ranking in (shared, there)]
    return weighted_footrule(a, b, weights) / (sum(reversals) / 2)


def _starts(ranking: Items, weights: Weights) -> dict[object, float]:
    return {item: sum(weights[above] for above in ranking[:i]) for i, item in enumerate(ranking)}
