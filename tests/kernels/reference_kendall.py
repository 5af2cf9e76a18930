"""Slow and obvious: Kendall's family from the definitions, for one pair of lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

from scipy.stats import kendalltau, weightedtau

from kernels import reference
from kernels.reference_rbo import Tied
from monitor.model.rankings import ByArm, PairBatch

Items = Sequence[Any]
Weights = Mapping[Any, float]


def with_weights(pairs: Sequence[reference.Pair], weights: Weights) -> PairBatch:
    plain = reference.batch(pairs)
    rows = [[[weights[item] for item in pair[arm]] for pair in pairs] for arm in (0, 1)]
    told = [reference.pad(arm, plain.baseline.shape[1]) for arm in rows]
    return replace(plain, weights=ByArm(baseline=told[0], candidate=told[1]))


def common(a: Items, b: Items) -> list[Any]:
    return [item for item in a if item in b]


def ranks(a: Items, b: Items) -> tuple[list[int], list[int]]:
    """Ranks from 0 of the items in common among themselves, by either list."""
    shared, there = common(a, b), common(b, a)
    return list(range(len(shared))), [there.index(item) for item in shared]


def appended_tau(a: Items, b: Items) -> float:
    if not a or not b:
        return math.nan
    universe = [*a, *(item for item in b if item not in a)]
    places = [[ranking.index(item) if item in ranking else len(ranking) for item in universe] for ranking in (a, b)]
    return float(kendalltau(*places).statistic) if len(universe) > 1 else math.nan


def kendall_tau(a: Items, b: Items) -> float:
    ours, theirs = ranks(a, b)
    return float(kendalltau(ours, theirs).statistic) if len(ours) > 1 else math.nan


def tied_tau(a: Tied, b: Tied) -> float:
    places = _tied_places(a, b)
    return float(kendalltau(*places).statistic) if places else math.nan


def tied_weighted_tau(a: Tied, b: Tied) -> float:
    places = _tied_places(a, b)
    return float(weightedtau(*([-place for place in arm] for arm in places)).statistic) if places else math.nan


def _tied_places(a: Tied, b: Tied) -> list[list[float]]:
    """Places, from the scores, of the items in common by either list; empty where tau is undefined."""
    places = [{item: -score for item, score in zip(*ranking, strict=True)} for ranking in (a, b)]
    shared = [item for item in places[0] if item in places[1]]
    found = [[place[item] for item in shared] for place in places]
    return found if all(len(set(arm)) > 1 for arm in found) else []


def kendall_distance(a: Items, b: Items) -> float:
    return element_weighted_kendall_distance(a, b, dict.fromkeys([*a, *b], 1.0))


def topk_kendall(a: Items, b: Items, penalty: float) -> float:
    """The four cases, one pair of items at a time."""
    if not a or not b:
        return math.nan
    total = 0.0
    for x, y in combinations(dict.fromkeys([*a, *b]), 2):
        inside = [[item for item in (x, y) if item in ranking] for ranking in (a, b)]
        if sorted(map(len, inside)) == [2, 2]:  # case 1
            total += (a.index(x) < a.index(y)) != (b.index(x) < b.index(y))
        elif sorted(map(len, inside)) == [1, 2]:  # case 2
            both, one = (a, inside[1][0]) if len(inside[0]) == 2 else (b, inside[0][0])
            other = y if one == x else x
            total += both.index(other) < both.index(one)
        elif sorted(map(len, inside)) == [1, 1]:  # case 3
            total += 1
        else:  # case 4
            total += penalty
    return total


def topk_kendall_normalized(a: Items, b: Items, penalty: float) -> float:
    if not a or not b:
        return 1.0 if a or b else math.nan
    return topk_kendall(a, b, penalty) / _topk_apart(len(a), len(b), penalty)


@cache
def _topk_apart(a: int, b: int, penalty: float) -> float:
    """Of disjoint lists."""
    return topk_kendall([("a", i) for i in range(a)], [("b", i) for i in range(b)], penalty)


def weighted_tau(a: Items, b: Items) -> float:
    ours, theirs = ranks(a, b)
    if len(ours) < 2:
        return math.nan
    return float(weightedtau([-float(rank) for rank in ours], [-float(rank) for rank in theirs]).statistic)


def tau_ap(truth: Items, estimate: Items) -> float:
    down = common(estimate, truth)
    if len(down) < 2:
        return math.nan
    correct = [sum(truth.index(above) < truth.index(down[i]) for above in down[:i]) for i in range(1, len(down))]
    return 2 / (len(down) - 1) * sum(c / i for i, c in enumerate(correct, start=1)) - 1


def element_weighted_tau(a: Items, b: Items, weights: Weights) -> float:
    """Tau-b over the members of the universe, a member of weight w speaking w times of each other."""
    if not a or not b:
        return -1.0 if a or b else math.nan
    low = _weighted_universe(
        [("a", item) for item in a],
        [("b", item) for item in b],
        {(arm, item): weights[item] for arm in "ab" for item in [*a, *b]},
    )
    return 2 * (_weighted_universe(a, b, weights) - low) / (1 - low) - 1


def _weighted_universe(a: Items, b: Items, weights: Weights) -> float:
    universe = [*a, *(item for item in b if item not in a), "dummy"]
    dummy = sum(weights[item] for item in common(a, b))
    weigh = [*(weights[item] for item in universe[:-1]), dummy]
    places = [[ranking.index(item) if item in ranking else len(ranking) for item in universe] for ranking in (a, b)]
    pairs = list(combinations(range(len(universe)), 2))

    def product(left: int, right: int) -> float:
        signs = [[(p[i] > p[j]) - (p[i] < p[j]) for i, j in pairs] for p in (places[left], places[right])]
        return float(sum(weigh[i] * weigh[j] * s * t for (i, j), s, t in zip(pairs, *signs, strict=True)))

    return product(0, 1) / math.sqrt(product(0, 0) * product(1, 1))


def duplicated_tau(a: Items, b: Items, weights: Mapping[Any, int]) -> float:
    """Extended tau by scipy, each item replaced by w copies that are tied among themselves."""
    if not a or not b:
        return -1.0 if a or b else math.nan
    low = _duplicated([("a", item) for item in a], [("b", item) for item in b], lambda member: weights[member[1]])
    return 2 * (_duplicated(a, b, lambda item: weights[item]) - low) / (1 - low) - 1


def _duplicated(a: Items, b: Items, copies: Callable[[Any], int]) -> float:
    universe = [item for item in dict.fromkeys([*a, *b]) for _ in range(copies(item))]
    places = [[ranking.index(item) if item in ranking else len(ranking) for item in universe] for ranking in (a, b)]
    whole = sum(copies(item) for ranking in (a, b) for item in ranking)
    dummies = whole - len(universe)
    return float(kendalltau(*([*p, *[len(r)] * dummies] for p, r in zip(places, (a, b), strict=True))).statistic)


def element_weighted_kendall_distance(a: Items, b: Items, weights: Weights) -> float:
    return generalized_kendall_distance(a, b, weights, None)


def element_weighted_kendall_distance_normalized(a: Items, b: Items, weights: Weights) -> float:
    most = sum(weights[x] * weights[y] for x, y in combinations(common(a, b), 2))
    return element_weighted_kendall_distance(a, b, weights) / most if most else math.nan


def generalized_kendall_distance(a: Items, b: Items, weights: Weights, discount: str | None) -> float:
    """Sum over inverted pairs, item by item; ``discount`` None for steps that cost 1."""
    shared = common(a, b)
    if len(shared) < 2:
        return math.nan
    cost = {item: weights[item] * (step_cost(a, b, item, discount) if discount else 1.0) for item in shared}
    return (
        sum(cost[x] * cost[y] for x, y in combinations(shared, 2) if (a.index(x) < a.index(y)) != (b.index(x) < b.index(y)))
        + 0.0
    )


def step_cost(a: Items, b: Items, item: object, discount: str) -> float:
    """Mean cost of the steps from the item's rank in one list to its rank in the other, 1 where it stays."""
    here, there = sorted((common(a, b).index(item) + 1, common(b, a).index(item) + 1))
    worth: Callable[[int], float] = (lambda r: 1 / math.log2(r + 1)) if discount == "dcg" else (lambda r: 1 / r)
    deltas = [(worth(r - 1) - worth(r)) / (worth(1) - worth(2)) for r in range(here + 1, there + 1)]
    return sum(deltas) / len(deltas) if deltas else 1.0
