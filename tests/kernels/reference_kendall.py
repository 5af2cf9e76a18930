"""Slow and obvious: Kendall's and the footrule's families from the definitions, for one pair of lists."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from math import nan

import scipy

from kernels.reference import places


def common(a, b):
    return [item for item in a if item in b]


def ranks(a, b):
    """Ranks from 0 of the items in common among themselves, by either list."""
    shared, there = common(a, b), common(b, a)
    return list(range(len(shared))), [there.index(item) for item in shared]


def appended_tau(a, b):
    if not a or not b:
        return nan
    universe = [*a, *(item for item in b if item not in a)]
    return (
        float(scipy.stats.kendalltau(*places(universe, a, b)).statistic)
        if len(universe) > 1
        else nan
    )


def apart(a, b):
    """Disjoint lists of the same lengths and items."""
    return [("a", item) for item in a], [("b", item) for item in b]


def untied(ranking):
    return ranking, [-float(place) for place in range(len(ranking))]


def kendall_tau(a, b):
    return tied_tau(untied(a), untied(b))


def tied_tau(a, b):
    places = _tied_places(a, b)
    return float(scipy.stats.kendalltau(*places).statistic) if places else nan


def tied_weighted_tau(a, b):
    places = _tied_places(a, b)
    return (
        float(scipy.stats.weightedtau(*([-place for place in arm] for arm in places)).statistic)
        if places
        else nan
    )


def _tied_places(a, b):
    """Places, from the scores, of the items in common by either list.

    Empty where tau is undefined.
    """
    places = [{item: -score for item, score in zip(*ranking, strict=True)} for ranking in (a, b)]
    shared = [item for item in places[0] if item in places[1]]
    found = [[place[item] for item in shared] for place in places]
    return found if all(len(set(arm)) > 1 for arm in found) else []


def kendall_distance(a, b):
    return generalized_kendall_distance(a, b, dict.fromkeys([*a, *b], 1.0))


def topk_kendall(a, b, penalty):
    """A pair of items costs 1 in opposite order, an absent item being last, and the penalty where a list has neither."""
    if not a or not b:
        return nan
    ranked = zip(*places(list(dict.fromkeys([*a, *b])), a, b), strict=True)
    total = 0.0
    for (ours_x, theirs_x), (ours_y, theirs_y) in combinations(ranked, 2):
        if ours_x == ours_y or theirs_x == theirs_y:
            total += penalty
        else:
            total += (ours_x < ours_y) != (theirs_x < theirs_y)
    return total


def topk_kendall_normalized(a, b, penalty):
    if not a or not b:
        return 1.0 if a or b else nan
    return topk_kendall(a, b, penalty) / _topk_apart(len(a), len(b), penalty)


@cache
def _topk_apart(a, b, penalty):
    """Of disjoint lists."""
    ours, theirs = apart(range(a), range(b))
    return topk_kendall(ours, theirs, penalty)


def weighted_tau(a, b):
    return tied_weighted_tau(untied(a), untied(b))


def tau_ap(truth, estimate):
    down = common(estimate, truth)
    if len(down) < 2:
        return nan
    correct = [
        sum(truth.index(above) < truth.index(down[i]) for above in down[:i])
        for i in range(1, len(down))
    ]
    return 2 / (len(down) - 1) * sum(c / i for i, c in enumerate(correct, start=1)) - 1


def element_weighted_tau(a, b, weights):
    """Tau-b over the members of the universe, a member of weight w speaking w times of each other."""
    if not a or not b:
        return -1.0 if a or b else nan
    ours, theirs = apart(a, b)
    low = _weighted_universe(ours, theirs, {each: weights[each[1]] for each in [*ours, *theirs]})
    return 2 * (_weighted_universe(a, b, weights) - low) / (1 - low) - 1


def _weighted_universe(a, b, weights):
    universe = [*a, *(item for item in b if item not in a), "dummy"]
    dummy = sum(weights[item] for item in common(a, b))
    weigh = [*(weights[item] for item in universe[:-1]), dummy]
    ours, theirs = places(universe, a, b)

    def product(p, q):
        pairs = combinations(zip(weigh, p, q, strict=True), 2)
        return sum(
            v * w * ((i > j) - (i < j)) * ((k > m) - (k < m)) for (v, i, k), (w, j, m) in pairs
        )

    return product(ours, theirs) / math.sqrt(product(ours, ours) * product(theirs, theirs))


def element_weighted_kendall_distance_normalized(a, b, weights):
    most = sum(weights[x] * weights[y] for x, y in combinations(common(a, b), 2))
    return generalized_kendall_distance(a, b, weights) / most if most else nan


def generalized_kendall_distance(a, b, weights, discount=None):
    """Sum over inverted pairs, item by item; ``discount`` None for steps that cost 1."""
    shared = common(a, b)
    if len(shared) < 2:
        return nan
    cost = {item: weights[item] * step_cost(a, b, item, discount) for item in shared}
    inverted = [(x, y) for x, y in combinations(shared, 2) if b.index(x) > b.index(y)]
    return float(sum(cost[x] * cost[y] for x, y in inverted))


def step_cost(a, b, item, discount):
    """Mean cost of the steps from the item's rank in one list to its rank in the other, 1 where it stays."""
    if discount is None:
        return 1.0
    here, there = sorted((common(a, b).index(item) + 1, common(b, a).index(item) + 1))
    worth = (lambda r: 1 / math.log2(r + 1)) if discount == "dcg" else (lambda r: 1 / r)
    deltas = [(worth(r - 1) - worth(r)) / (worth(1) - worth(2)) for r in range(here + 1, there + 1)]
    return sum(deltas) / len(deltas) if deltas else 1.0


def footrule(a, b):
    ours, theirs = ranks(a, b)
    return (
        float(sum(abs(i - j) for i, j in zip(ours, theirs, strict=True))) if len(ours) > 1 else nan
    )


def footrule_normalized(a, b):
    z = len(common(a, b))
    return footrule(a, b) / (z * z // 2) if z > 1 else nan


def topk_footrule(a, b):
    if not a or not b:
        return nan
    places = [{item: rank for rank, item in enumerate(ranking, start=1)} for ranking in (a, b)]
    return float(
        sum(
            abs(places[0].get(item, len(a) + 1) - places[1].get(item, len(b) + 1))
            for item in {*a, *b}
        )
    )


def topk_footrule_normalized(a, b):
    if not a or not b:
        return 1.0 if a or b else nan
    return topk_footrule(a, b) / topk_footrule(*apart(a, b))


def weighted_footrule(a, b, weights, discount=None):
    """Each item's weight times how far it moves, ranks being the weight ahead."""
    shared = common(a, b)
    if len(shared) < 2:
        return nan
    cost = {item: weights[item] * step_cost(a, b, item, discount) for item in shared}
    starts = [_starts(ranking, cost) for ranking in (shared, common(b, a))]
    return sum(cost[item] * abs(starts[0][item] - starts[1][item]) for item in shared)


def weighted_footrule_normalized(a, b, weights):
    """By the mean of what reversing either list would cost."""
    shared, there = common(a, b), common(b, a)
    if len(shared) < 2:
        return nan
    reversals = [weighted_footrule(ranking, ranking[::-1], weights) for ranking in (shared, there)]
    return weighted_footrule(a, b, weights) / (sum(reversals) / 2)


def _starts(ranking, weights):
    return {item: sum(weights[above] for above in ranking[:i]) for i, item in enumerate(ranking)}
