"""Slow and obvious: the footrule's family from the definitions, for one pair of lists."""

from __future__ import annotations

import math

from kernels.reference_kendall import Items, Weights, common, ranks, step_cost


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
