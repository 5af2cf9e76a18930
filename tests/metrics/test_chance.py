"""What chance alone gives: closed forms and every possible pair of lists agree."""

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.errors import MetricError
from monitor.metrics import METRICS, expected_by_chance, score_all
from monitor.metrics.kendall import (
    PositionWeightedKendallDistance,
    TopkKendall,
    TopkKendallNormalized,
)
from monitor.metrics.rbo import Rbo, RboMax, RboMin, RboRes, RboTruncated, RboW
from monitor.metrics.relevance import NdcgVsBaseline
from monitor.metrics.sets import AverageOverlap, Jaccard, Overlap

FREE = [kind() for kind in METRICS.values() if kind.need is None]
OURS = [
    *(kind(p=p) for kind in (Rbo, RboMin, RboMax, RboRes, RboTruncated) for p in (0.5, 0.9)),
    *(kind() for kind in (Overlap, Jaccard, AverageOverlap)),
]
EXACT = [
    *FREE,
    PositionWeightedKendallDistance(discount="hyperbolic"),
    NdcgVsBaseline(gain="exponential"),
    TopkKendall(penalty=0.5),
    TopkKendallNormalized(penalty=0.5),
]


TINY = [(1, 1), (1, 4), (2, 2), (2, 3), (2, 5), (3, 3), (3, 4), (3, 6), (4, 5), (4, 7)]


@cache
def every_pair(k: int, catalogue: int) -> dict[str, float]:
    """The means over all lists of k items against one of them: items' names play no part."""
    top = list(range(k))
    pairs = [(top, list(other)) for other in itertools.permutations(range(catalogue), k)]
    found = score_all(reference.batch(pairs), [*OURS, *EXACT])
    return {
        name: math.nan if np.isnan(scores).all() else float(np.nanmean(scores))
        for name, scores in found.items()
    }


@pytest.mark.parametrize("metric", [*OURS, *EXACT], ids=str)
def test_a_closed_form_is_the_mean_over_every_possible_pair(metric):
    for k, catalogue in TINY:
        found, mean = (
            expected_by_chance(metric, k, catalogue),
            every_pair(k, catalogue)[str(metric)],
        )

        assert (math.nan if found is None else found) == pytest.approx(
            mean, abs=1e-12, nan_ok=True
        ), (k, catalogue)


def test_rbo_by_chance_is_worked_by_hand():
    # Two of two items: the same order or the other, 1 and p.
    assert expected_by_chance(Rbo(p=0.5), 2, 2) == pytest.approx(0.75, abs=1e-15)
    assert expected_by_chance(Overlap(), 10, 50) == 0.2
    assert expected_by_chance(AverageOverlap(), 3, 6) == pytest.approx(
        (1 / 6 + 2 / 6 + 3 / 6) / 3, abs=1e-15
    )
    assert expected_by_chance(Jaccard(), 1, 4) == 0.25


@pytest.mark.parametrize("metric", FREE, ids=str)
def test_a_huge_catalogue_leaves_what_disjoint_lists_score_and_overflows_nothing(metric):
    disjoint = known_pairs.scores(metric, [(range(10), range(10, 20))])[0]
    for catalogue in (10**9, 10**15):
        if not math.isnan(disjoint):
            assert expected_by_chance(metric, 10, catalogue) == pytest.approx(disjoint, abs=1e-5)

    assert expected_by_chance(metric, 10, 10**400) == expected_by_chance(metric, 10, 2**53)
    narrow: Any = np.int16(300), np.int16(30_000)
    assert expected_by_chance(metric, *narrow) == expected_by_chance(metric, 300, 30_000)


@pytest.mark.parametrize("metric", FREE, ids=str)
def test_a_depth_sees_lists_of_that_many_items(metric):
    cut = type(metric)(depth=4)

    assert expected_by_chance(cut, 10, 30) == expected_by_chance(metric, 4, 30)
    assert expected_by_chance(type(metric)(depth=50), 10, 30) == expected_by_chance(metric, 10, 30)


@pytest.mark.parametrize(("k", "catalogue"), [(0, 10), (-1, 10), (11, 10), (1, 0)])
def test_lists_longer_than_the_catalogue_are_refused(k, catalogue):
    with pytest.raises(
        MetricError, match=f"between 1 and the size of the catalogue, {catalogue}, not {k}"
    ):
        expected_by_chance(Rbo(), k, catalogue)


@pytest.mark.parametrize(
    ("k", "catalogue"),
    [
        (2.5, 10),
        (3, 10.0),
        ("3", 10),
        (3, None),
        (True, 10),
        (np.float64(3), 10),
        (3, math.inf),
        (3, math.nan),
    ],
)
def test_a_length_or_catalogue_that_is_no_whole_number_is_refused(k, catalogue):
    with pytest.raises(MetricError, match=r"^chance: (k|catalogue) must be a whole number, not "):
        expected_by_chance("rbo", k, catalogue)


def test_lists_that_rarely_share_two_items_are_told_from_those_that_do():
    # Two items in common are in the same order or in the other, at a cost of 1.
    assert expected_by_chance("position_weighted_kendall_distance", 10, 10**9) == pytest.approx(
        0.5, abs=1e-6
    )


def test_a_metric_that_needs_more_than_the_lists_has_no_chance_value():
    assert expected_by_chance(RboW(), 10, 100) is None
