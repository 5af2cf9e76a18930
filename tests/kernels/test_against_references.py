"""Agreement to 1e-12 with definitions, scipy and the rbo package, on random pairs: plain, of weighted items, of tied lists."""

import math
import random
from functools import partial
from typing import Any

import numpy as np
import pytest
from rbo import RankingSimilarity

from kernels import reference, reference_kendall as slow, reference_rbo, reference_relevance
from kernels.conftest import in_each_way
from kernels.reference import LONG, SHORT, TOPS
from monitor.measures.kernels import align
from monitor.measures.kernels.kendall.element_weighted import DISCOUNTS
from monitor.measures.metrics import parse

chance = random.Random(7)  # noqa: S311 - test data
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}
ONES = dict.fromkeys(PRICES, 1.0)


def jaccard_by_sets(a, b):
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a or b else math.nan


def mean_of_overlaps(a, b):
    overlaps = [reference.overlap(a[:d], b[:d]) for d in range(1, max(len(a), len(b)) + 1)]
    return np.mean(overlaps) if overlaps else math.nan


def unscaled_tau(a, b):
    return reference.unscaled_tau(a, b) if a and b else math.nan


def distance_of_tau(a, b):
    return (1 - slow.kendall_tau(a, b)) / 2


def mean_tau_ap(a, b):
    return (slow.tau_ap(a, b) + slow.tau_ap(b, a)) / 2


def position_weighted(a, b, _, discount):
    return slow.generalized_kendall_distance(a, b, ONES, discount)


def rbo_of_package(a, b, p):
    if a and b:
        return RankingSimilarity(a, b).rbo_ext(p)
    return 0.0 if a or b else math.nan


def width_of_rbo(a, b):
    return reference_rbo.most(a, b, p=0.6, depth=70) - reference_rbo.least(a, b, p=0.6, depth=70)


def of_slow(names):
    """Those that the references define under the same name."""
    return {name: getattr(slow, name) for name in names.split()}


OF_LONG_LISTS: Any = {
    "extended_tau": reference.extended_tau,
    "overlap": reference.overlap,
    "jaccard": jaccard_by_sets,
    "average_overlap": mean_of_overlaps,
    "rbo_truncated(p=0.9)": partial(reference_rbo.truncated, p=0.9),
    # What lies below depth 70 weighs less than 1e-15.
    "rbo_min(p=0.6)": partial(reference_rbo.least, p=0.6, depth=70),
    "rbo_max(p=0.6)": partial(reference_rbo.most, p=0.6, depth=70),
    "rbo_res(p=0.6)": width_of_rbo,
    **{f"rbo(p={p})": partial(rbo_of_package, p=p) for p in (0.3, 0.9, 0.99)},
}
OF_SHORT_LISTS: Any = {
    **of_slow("appended_tau kendall_tau kendall_distance weighted_tau tau_ap"),
    **of_slow("footrule footrule_normalized topk_footrule topk_footrule_normalized"),
    "extended_tau_unscaled": unscaled_tau,
    "kendall_distance_normalized": distance_of_tau,
    "tau_ap_symmetric": mean_tau_ap,
}
for penalty in (0.0, 0.5):
    OF_SHORT_LISTS |= {
        f"topk_kendall(penalty={penalty})": partial(slow.topk_kendall, penalty=penalty),
        f"topk_kendall_normalized(penalty={penalty})": partial(
            slow.topk_kendall_normalized, penalty=penalty
        ),
    }
for gain in ("linear", "exponential"):
    defined = partial(reference_relevance.ndcg_vs_baseline, gain=gain)
    OF_SHORT_LISTS[f"ndcg_vs_baseline(gain={gain})"] = defined
OF_WEIGHTED_LISTS: Any = {
    **of_slow("element_weighted_tau element_weighted_kendall_distance_normalized"),
    "element_weighted_kendall_distance": slow.generalized_kendall_distance,
    "element_weighted_footrule": slow.weighted_footrule,
    "element_weighted_footrule_normalized": slow.weighted_footrule_normalized,
}
for name in DISCOUNTS:
    OF_WEIGHTED_LISTS |= {
        f"generalized_kendall_distance(discount={name})": partial(
            slow.generalized_kendall_distance, discount=name
        ),
        f"position_weighted_kendall_distance(discount={name})": partial(
            position_weighted, discount=name
        ),
        f"generalized_footrule(discount={name})": partial(slow.weighted_footrule, discount=name),
    }
OF_TIED_LISTS: Any = {
    "kendall_tau": slow.tied_tau,
    "weighted_tau": slow.tied_weighted_tau,
    **{f"rbo_{kind}": partial(reference_rbo.tied_rbo, p=0.9, kind=kind) for kind in "wab"},
}


CASES: Any = {
    "long lists": (OF_LONG_LISTS, LONG, partial(reference.draw, tops=TOPS), reference.batch),
    "short lists": (OF_SHORT_LISTS, SHORT, reference.draw, reference.batch),
    "weighted lists": (
        OF_WEIGHTED_LISTS,
        SHORT[:-1],
        reference.draw,
        partial(reference.with_weights, weights=PRICES),
    ),
    "tied lists": (OF_TIED_LISTS, (*SHORT, 30), reference_rbo.draw, reference_rbo.batch),
}


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_measures_are_their_definitions(case, even, monkeypatch):
    measures, lengths, draw, batch = CASES[case]
    known = [PRICES] if case == "weighted lists" else []
    for pairs in reference.groups(20, 1, draw, lengths, even=even):
        expected = [[define(*pair, *known) for pair in pairs] for define in measures.values()]
        for way in in_each_way(monkeypatch):
            alignment = align(batch(pairs))
            for name, values in zip(measures, expected, strict=True):
                found = parse(name).measure(alignment)
                np.testing.assert_allclose(
                    found, values, rtol=1e-12 if known else 0, atol=1e-12, err_msg=f"{name}, {way}"
                )
