"""What chance alone gives: closed forms and every possible pair of lists agree."""

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.measures.metrics import METRICS, expected_by_chance, parse, score_all
from monitor.model.errors import MetricError

FREE = [kind() for kind in METRICS.values() if kind.need is None]
VARIANTS = """
rbo(p=0.5) rbo_min(p=0.5) rbo_max(p=0.5) rbo_res(p=0.5) rbo_truncated(p=0.5)
position_weighted_kendall_distance(discount=hyperbolic) ndcg_vs_baseline(gain=exponential)
topk_kendall(penalty=0.5) topk_kendall_normalized(penalty=0.5)
"""
EXACT = [*FREE, *map(parse, VARIANTS.split())]
TINY = [(k, k + others) for k in range(1, 5) for others in (0, 1, 3)]


@cache
def every_pair(k, catalogue):
    """The means over all lists of k items against one of them: items' names play no part."""
    top = list(range(k))
    pairs = [(top, list(other)) for other in itertools.permutations(range(catalogue), k)]
    found = score_all(reference.batch(pairs), EXACT)
    return {
        name: math.nan if np.isnan(scores).all() else float(np.nanmean(scores))
        for name, scores in found.items()
    }


def test_a_closed_form_is_the_mean_over_every_possible_pair():
    for metric, (k, catalogue) in itertools.product(EXACT, TINY):
        found, mean = (
            expected_by_chance(metric, k, catalogue),
            every_pair(k, catalogue)[str(metric)],
        )

        assert (math.nan if found is None else found) == pytest.approx(
            mean, abs=1e-12, nan_ok=True
        ), (metric, k, catalogue)


def test_a_huge_catalogue_leaves_what_disjoint_lists_score_and_overflows_nothing():
    narrow: Any = np.int16(300), np.int16(30_000)
    for metric in FREE:
        disjoint = known_pairs.scores(metric, [(range(10), range(10, 20))])[0]
        if not math.isnan(disjoint):
            assert expected_by_chance(metric, 10, 10**15) == pytest.approx(disjoint, abs=1e-5), (
                metric
            )
        assert expected_by_chance(metric, 10, 10**400) == expected_by_chance(metric, 10, 2**53), (
            metric
        )
        assert expected_by_chance(metric, *narrow) == expected_by_chance(metric, 300, 30_000), (
            metric
        )


def test_a_depth_sees_lists_of_that_many_items():
    for metric in FREE:
        for depth, k in ((4, 4), (50, 10)):
            assert expected_by_chance(type(metric)(depth=depth), 10, 30) == expected_by_chance(
                metric, k, 30
            ), metric


def test_lists_longer_than_the_catalogue_are_refused():
    for k, catalogue in [(0, 10), (11, 10)]:
        with pytest.raises(
            MetricError, match=f"k is {k}: give a number from 1 to the catalogue size {catalogue}"
        ):
            expected_by_chance("rbo", k, catalogue)


def test_a_length_or_catalogue_that_is_no_whole_number_is_refused():
    wrong: Any = (2.5, "3", True, np.float64(3), math.inf)
    for value in wrong:
        with pytest.raises(MetricError, match=r"expected_by_chance: k is .*: give a whole number"):
            expected_by_chance("rbo", value, 10)
        with pytest.raises(
            MetricError, match=r"expected_by_chance: catalogue is .*: give a whole number"
        ):
            expected_by_chance("rbo", 3, value)


def test_lists_that_rarely_share_two_items_have_the_value_of_two_shared_items():
    # Two items in common are in the same order or in the other, at a cost of 1.
    assert expected_by_chance("position_weighted_kendall_distance", 10, 10**9) == pytest.approx(
        0.5, abs=1e-6
    )


def test_a_metric_that_needs_more_than_the_lists_has_no_chance_value():
    assert expected_by_chance("rbo_w", 10, 100) is None
