"""Metrics of one arm, and their kernels: values worked by hand, unknown values, definitions from plain lists, and scipy."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st

from kernels import reference
from kernels.reference import padded
from monitor.measures.arm_metrics import (
    ARM_METRICS,
    ArmNeed,
    LastLists,
    measure_arms,
    parse_arm_metric,
)
from monitor.measures.kernels.exposure import churn, count_items, gini, kolmogorov_smirnov
from monitor.measures.kernels.item_codes import compact_codes
from monitor.model.errors import MetricError
from monitor.model.rankings import Arm, ByArm
from tables import cells

B, C = Arm.BASELINE, Arm.CANDIDATE


def worked(text):
    return reference.batch(reference.pairs(text))


BATCH = worked("12:19 13:19 12:14")
ONE_ITEM = worked("1:1 1:1 1:1")


def places(*rows):
    return np.array(rows, dtype=np.float64)


def last(lists, exposed=None, k=2):
    codes, lengths = padded(lists, k)
    shown = sorted({code for row in lists for code in row}) if exposed is None else exposed
    return LastLists(codes=codes, lengths=lengths, exposed=np.array(shown, dtype=np.int32))


WEIGHTS = ByArm(
    baseline=places([6, 2], [6, 1], [6, 2]), candidate=places([6, math.nan], [6, math.nan], [6, 4])
)
SCORES = ByArm(
    baseline=places([4, 3], [4, 3], [4, math.nan]), candidate=places([4, 3], [9, 8], [9, 8])
)
NAN = ByArm(baseline=np.full((3, 2), np.nan), candidate=np.full((3, 2), np.nan))


SEEN = {B: last([[1], [2], [3]]), C: last([[], [], []], exposed=[-1, 1, 4, 4, 77])}
KNOWN = {
    "nothing": {},
    "10 items": {"catalogue_size": 10},
    "2 items": {"catalogue_size": 2},
    "one item": {"batch": ONE_ITEM},
    "weights": {"batch": replace(BATCH, weights=WEIGHTS)},
    "no weights": {"batch": replace(BATCH, weights=NAN)},
    "scores": {"batch": replace(BATCH, scores=SCORES)},
    "no scores": {"batch": replace(BATCH, scores=NAN)},
    "lists": {"last": SEEN},
    "before": {"former": {B: last([[3, 1], [2, 3], []]), C: last([[1, 9], [1, 9], [1, 4]])}},
    "rise": {
        "batch": worked("2:2 " * 80 + "21:21 " * 20),
        "former": dict.fromkeys(Arm, last([[2]] * 100)),
    },
    "new items": {
        "batch": worked("2:1 3:1 4:1 5:1 " * 10 + "1:1 " * 60),
        "former": dict.fromkeys(Arm, last([[1]] * 100, k=1)),
    },
    "turned": {
        "batch": worked("321:123 " * 7 + "231:123 312:123 456:123"),
        "former": dict.fromkeys(Arm, last([[1, 2, 3]] * 10, k=3)),
    },
    "some lists": {"last": {B: last([[2, 1], [4, 5], []]), C: last([[], [], []])}},
}
WORKED = """
# metric                     known       baseline  candidate
catalogue_coverage           10 items    3/10 3    3/10 3
# Of what either arm lists, also where the catalogue is said to be smaller than that.
catalogue_coverage           nothing     3/5 3     3/5 3
catalogue_coverage           2 items     3/5 3     3/5 3
# Three items of five are listed, of six places by 3, 2 and 1.
exposure_entropy             nothing     1.4591479170272448 3  1.4591479170272448 3
exposure_entropy_normalized  nothing     0.6284208026252547 3  0.6284208026252547 3
exposure_gini                nothing     8/15 3    8/15 3
# A catalogue of one item has no normalized entropy.
exposure_entropy             one item    0 3       0 3
exposure_entropy_normalized  one item    None 0    None 0
# Over places whose item has a weight.
mean_popularity              weights     23/6 3    22/4 3
mean_popularity              no weights  None 0    None 0
# The share of places with items listed to nobody last time.
novelty                      lists       0 3       2/6 3
# Of users of both runs.
self_churn                   some lists  1/2 2     None 0
# Of two users with both lists, item 1 came to two first places.
exposure_jump                before      2/2 2     0 3
# Of 100 lists one item came to 20, and each other item has as many as before. So 20 users count.
exposure_jump                rise        20/100 100  20/100 100
# Of two users with both lists, both have a new first item, and one lacks the former first item.
shifted_list                 before      2/2 2     0 3
# 40 users get items that nobody got. 16 of them may be chance. Each item has 10 users.
exposure_jump                new items   24/100 100  0 100
# Of ten users, seven have the opposite order, and two nearly so. 1 + 8 ** 0.5 may be chance. One has other items.
top_turned                   turned      3/10 10   0 10
replaced_list                turned      1/10 10   0 10
# Lists of two items with a common one differ in one item.
alike_list                   nothing     -         1 3
interleaved_list             nothing     -         1 3
# Of the candidate.
score_shift                  scores      -         2/3 3
score_shift                  no scores   -         None 0
# What is not known is None and no error.
mean_popularity              nothing     None 0    None 0
novelty                      nothing     None 0    None 0
self_churn                   nothing     None 0    None 0
exposure_jump                nothing     None 0    None 0
shifted_list                 nothing     None 0    None 0
score_shift                  nothing     -         None 0
"""
"""The value of each arm, and of how many users."""


def test_values_are_those_worked_by_hand():
    for name, known, baseline, candidate in cells(WORKED):
        options = {"batch": BATCH, **KNOWN[known]}
        batch = options.pop("batch")
        found = measure_arms(
            batch, {"all": np.arange(len(batch))}, [parse_arm_metric(name)], **options
        )

        scores = {score.arm: (score.value, score.n) for score in found}
        expected = {}
        for arm, (value, _, users) in ((B, baseline.partition(" ")), (C, candidate.partition(" "))):
            if users:
                expected[arm] = (
                    None if value == "None" else pytest.approx(float(Fraction(value)), abs=1e-15),
                    int(users),
                )
        assert scores == expected


def test_a_segment_without_users_or_with_empty_lists_has_no_value():
    batch = worked(":1 2:2")
    segments = {"nobody": np.array([], dtype=np.intp), "first": np.array([0])}
    known = dict.fromkeys(Arm, last([[1], [1]], k=1))

    found = measure_arms(batch, segments, list(ARM_METRICS.values()), last=known)

    assert all(
        (score.value, score.n) == (None, 0)
        for score in found
        if score.segment == "nobody" or score.arm == B
    )


def test_scores_are_in_the_order_of_segment_metric_and_arm():
    metrics = [parse_arm_metric(name) for name in ("score_shift", "exposure_gini")]

    found = measure_arms(BATCH, {"all": np.arange(3), "one": np.array([1])}, metrics)

    order = [("score_shift", C), ("exposure_gini", B), ("exposure_gini", C)]
    assert [(score.segment, score.metric, score.arm) for score in found] == [
        (segment, *each) for segment in ("all", "one") for each in order
    ]


def test_every_metric_has_its_name_and_all_that_describes_it():
    for name, metric in ARM_METRICS.items():
        assert str(metric) == metric.name == name
        assert all((metric.meaning, metric.source, metric.low < metric.high))
    assert {metric.need for metric in ARM_METRICS.values()} == {None, *ArmNeed}
    assert list(ARM_METRICS) == sorted(ARM_METRICS)


def test_a_name_may_have_blanks_around_it_and_an_unknown_name_is_refused_with_a_suggestion():
    assert parse_arm_metric(" novelty ") is ARM_METRICS["novelty"]
    with pytest.raises(
        MetricError, match="unknown arm-wide metric 'exposure_gin'; did you mean 'exposure_gini'"
    ):
        parse_arm_metric("exposure_gin")
    with pytest.raises(MetricError, match="unknown arm-wide metric 7; use one of: alike_list, "):
        parse_arm_metric(7)


def churn_by_definition(now, then):
    return 1 - len(set(now) & set(then)) / max(len(now), len(then)) if now and then else math.nan


def test_gini_of_worked_exposures():
    assert gini(np.array([5, 5, 5]), 3) == 0
    assert gini(np.array([7]), 4) == 1 - 1 / 4
    assert gini(np.array([1, 3]), 2) == 0.25
    assert gini(np.array([3, 1]), 4) == pytest.approx((6 * 1 + 8 * 3 - 5 * 4) / (4 * 4), abs=1e-15)
    # A huge catalogue costs no memory.
    assert gini(np.array([1, 1]), 10**12) == pytest.approx(1 - 2e-12, abs=1e-15)


@given(*[st.lists(st.integers(-5, 5).map(float), min_size=3, max_size=30)] * 2)
def test_the_distance_is_scipys(baseline, candidate):
    expected = scipy.stats.ks_2samp(baseline, candidate, method="asymp").statistic

    assert kolmogorov_smirnov(np.array(baseline), np.array(candidate)) == pytest.approx(
        expected, abs=1e-12
    )


def test_codes_are_numbered_over_both_arms_whether_dense_or_not():
    for rows in [[[7, 3], [20]], [[700_000_000, 3], [20]], []]:
        arms = padded(rows, 3)[0], padded([[5], [3]], 3)[0]

        *indexes, items = compact_codes(*arms)

        assert items.tolist() == sorted({3, 5, *(code for row in rows for code in row)})
        for index, codes in zip(indexes, arms, strict=True):
            np.testing.assert_array_equal(np.append(items, -1)[index], codes)


def test_items_are_counted_whether_there_are_few_or_many():
    for items in [4, 1_000_000]:
        found, counts = count_items(
            np.array([[3, 0], [2, 2], [3, -1]], dtype=np.int32), np.array([0, 2]), items
        )

        assert (found.tolist(), counts.tolist()) == ([0, 3], [1, 2])


RANKING = st.lists(st.integers(0, 9), unique=True, max_size=5)


@given(st.lists(st.tuples(RANKING, RANKING), max_size=6), st.integers(1, 6))
def test_churn_is_its_definition(pairs, k):
    now = [a[:k] for a, _ in pairs]
    then = [b[:k] for _, b in pairs]

    found = churn(*padded(now, k), *padded(then, k))

    expected = [churn_by_definition(a, b) for a, b in zip(now, then, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
