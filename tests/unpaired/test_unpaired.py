"""Estimators for arms with different users: worked values, and slow definitions."""

import math
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.random import default_rng

from bench import unpaired
from factories import summary
from kernels.reference_rbo import agreement
from monitor.measures.summaries import summarize_one
from monitor.pipeline.unpaired_explanation import _main_segment
from monitor.statistics.unpaired import arms_differed, far_lists
from monitor.statistics.unpaired.arms_differed import compare_before
from monitor.statistics.unpaired.between import between_excess, count_lists
from monitor.statistics.unpaired.exposure import find_moved_items
from monitor.statistics.unpaired.gaps import AffectedUsers, angle_gap, mean_gap, share_gap
from monitor.statistics.unpaired.rollout import pair_scores
from monitor.statistics.unpaired.split import SPLIT_OFF, log_evidence, log_evidence_of_prior
from tables import cells

SSRM_TEST = """
# baseline candidate planned  c      log Bayes factor by ssrm-test 0.1.5
510        490       0.5      10000  -0.02947388142
10400      9600      0.5      10000  10.1189641027
9000       1100      0.9      10000  1.84124138934
0          30        0.5      10000  0.04337211488
100        0         0.99     10000  0.00496691387
500300     499700    0.5      10000  -2.1293669976
0          0         0.3      10000  0
"""


def test_the_evidence_against_the_split_is_that_of_ssrm_test():
    for row in cells(SSRM_TEST):
        numbers: Any = [*map(float, row)]
        expected = pytest.approx(numbers.pop(), abs=1e-7)
        assert log_evidence_of_prior(*numbers) == expected


def test_the_evidence_is_1_on_average_if_users_are_split_as_planned_and_finds_gross_mismatches():
    chances = scipy.stats.binom.pmf(range(201), 200, 0.3)
    evidence = [math.exp(log_evidence(n, 200 - n, 0.3)) for n in range(201)]
    assert chances @ evidence == pytest.approx(1)
    assert log_evidence(70, 30, 0.5) < SPLIT_OFF < log_evidence(73, 27, 0.5)


def test_the_self_gap_is_that_of_welch():
    rng = default_rng(1)
    arms = [rng.random(80), rng.random(30) / 2]
    gap = mean_gap(*(summarize_one("all", "rbo", scores, (0, 1)) for scores in arms))
    expected = scipy.stats.ttest_ind(*arms, equal_var=False)
    assert gap.value == pytest.approx(arms[0].mean() - arms[1].mean())
    assert gap.value / gap.error == pytest.approx(expected.statistic)


def test_gaps_of_arms_with_too_few_users_are_undefined():
    nobody, one = summary(n=0, mean=None, standard_error=None), summary(n=1, standard_error=None)
    assert all(map(math.isnan, (mean_gap(nobody, one).value, mean_gap(one, nobody).error)))
    assert mean_gap(one, summary(mean=0.0)).value == 0.512
    assert math.isnan(mean_gap(one, summary()).error)
    arms = AffectedUsers(affected=0, users=0), AffectedUsers(affected=1, users=1)
    assert math.isnan(share_gap(*arms).value)
    assert math.isnan(angle_gap(*arms).value)


def test_the_far_gap_is_positive_if_the_candidate_has_more_far_users():
    arms = AffectedUsers(affected=10, users=1000), AffectedUsers(affected=30, users=500)
    gap = share_gap(*arms)
    assert gap.value == pytest.approx(0.05)
    variance = 11 / 1002 * 991 / 1002 / 1002 + 31 / 502 * 471 / 502 / 502
    assert gap.error == pytest.approx(math.sqrt(variance))
    angles = [math.asin(math.sqrt(10.375 / 1000.75)), math.asin(math.sqrt(30.375 / 500.75))]
    assert angle_gap(*arms).value == pytest.approx(angles[1] - angles[0])
    assert angle_gap(*arms).error == pytest.approx(math.sqrt(0.25 / 1000.5 + 0.25 / 500.5))
    nobody = AffectedUsers(affected=0, users=9)
    assert share_gap(nobody, nobody).error > 0
    assert far_lists.far_floor(-1, 1) == pytest.approx(-1 + 2 * far_lists.FAR_SHARE)
    assert far_lists.far_floor(50, 0) == pytest.approx(50 * (1 - far_lists.FAR_SHARE))


def test_the_benchmark_computes_the_same_gaps():
    rng = default_rng(14)
    scores = [rng.random(400) ** 2, rng.random(300) ** 3]
    sums = [unpaired.features(each, each < 0.01).sum(axis=0, dtype=float) for each in scores]
    values, errors = unpaired.gaps_of(*sums, 400, 300)  # type: ignore[call-arg]
    far_users = [
        AffectedUsers(affected=int(np.count_nonzero(each < far_lists.FAR_SHARE)), users=len(each))
        for each in scores
    ]
    expected = {
        "self gap": mean_gap(*(summarize_one("all", "rbo", each, (0, 1)) for each in scores)),
        f"far gap below {far_lists.FAR_SHARE:g}": angle_gap(*far_users),
        "share of far lists": share_gap(*far_users),
    }
    for name, gap in expected.items():
        look = unpaired.LOOKS.index(name)
        assert [values[look], errors[look]] == pytest.approx([gap.value, gap.error], rel=1e-4)


P = 0.8


def counted(codes):
    return count_lists(codes, 12)


def counted_text(lists):
    return counted(np.loadtxt(lists.split(","), dtype=np.int32))


def random_lists(rng, users, k, items=12, shortest=None):
    lists = np.argsort(rng.random((users, items)), axis=1)[:, :k].astype(np.int32)
    lengths = rng.integers(k if shortest is None else shortest, k + 1, users)
    lists[np.arange(k) >= lengths[:, np.newaxis]] = -1
    return lists


def mean_similarity(pairs):
    """The mean of truncated RBO. The agreement of short lists counts down to the depth of full lists."""
    by_depth = [
        (1 - P) * P ** (depth - 1) * agreement(first, second, depth)
        for first, second in pairs
        for depth in (1, 2, 3, 4)
    ]
    return 4 * np.mean(by_depth)


def test_a_segment_with_few_users_is_not_named():
    means = {"all": 0.0, "few": 0.5, "many": 0.2}
    gaps = {name: summary(mean=means[name]) for name in means}
    users: Any = SimpleNamespace(rows=lambda _, segment: range(30 - (segment == "few")))
    assert _main_segment(gaps, users) == "many"


def test_the_between_excess_is_that_of_all_pairs():
    for shortest in [None, 0]:
        rng = default_rng(3)
        codes = random_lists(rng, 9, 4, shortest=shortest), random_lists(rng, 7, 4, 8, shortest)
        found = between_excess(counted(codes[0]), counted(codes[1]), P)
        arms = [[row[row >= 0].tolist() for row in arm] for arm in codes]
        within = [mean_similarity(combinations(arm, 2)) for arm in arms]
        across = mean_similarity(product(*arms))
        values = [found.baseline, found.candidate, found.across, found.excess]
        assert values == pytest.approx([*within, across, np.mean(within) - across])


def test_the_between_excess_is_a_quarter_of_the_energy_distance():
    """By dcor 0.7: `energy_distance` of the vectors sqrt(w_d / d), exponent 2, U-statistic."""
    baseline = counted_text("0 1 2, 1 0 3, 4 2 -1, 0 2 1")
    candidate = counted_text("3 4 5, 0 1 -1, 5 4 3, 1 5 0, 2 -1 -1")
    found = between_excess(baseline, candidate, 0.9)
    assert found.excess == pytest.approx(-0.0018666666666666)


def test_an_arm_with_fewer_than_two_users_has_no_pairs():
    one, none = map(counted, (np.array([[3, 1]]), np.empty((0, 2), np.int32)))
    assert math.isnan(between_excess(one, one, P).baseline)
    assert between_excess(one, one, P).across == pytest.approx(1 - P**2)
    assert math.isnan(between_excess(one, none, P).across)
    assert not find_moved_items(one, none)


def test_items_are_ordered_by_the_larger_difference_of_shares():
    baseline = counted_text("0 1, 0 1, 1 0, 2 1")
    candidate = counted_text("1 0, 1 5")
    shifted = find_moved_items(baseline, candidate, most=3)
    assert [item.item for item in shifted] == ["1", "0", "5"]
    assert [[*item.lists.values()] for item in shifted] == [[4, 2], [3, 1], [0, 1]]
    assert [[*item.first.values()] for item in shifted] == [[1, 2], [2, 0], [0, 0]]
    assert not find_moved_items(baseline, baseline)


def hashes_of(users, seed):
    return default_rng(seed).integers(0, 2**63, users).astype(np.uint64)


def test_p_is_the_share_of_shifts_that_are_at_least_as_far():
    rng = default_rng(7)
    codes, is_candidate = random_lists(rng, 30, 4, shortest=0), rng.random(30) < 0.3
    hashes = hashes_of(30, 8)
    order = np.argsort(hashes)
    total = np.zeros(30)
    for make in (arms_differed._hash_lists, arms_differed._mark_lengths):
        vectors = make(codes[order])
        distances = []
        for shift in range(30):
            arm = np.roll(is_candidate[order], shift)
            between = vectors[arm].mean(axis=0) - vectors[~arm].mean(axis=0)
            distances.append(np.square(between).sum())
        total += np.array(distances) / np.std(distances)
    expected = np.mean(total >= total[0] - 1e-9)
    assert compare_before(codes, is_candidate, hashes) == pytest.approx(expected)


def differ(codes, is_candidate, hashes):
    p_value = compare_before(codes, is_candidate, hashes)
    assert p_value is not None
    return p_value <= arms_differed.HIGHEST_P


def test_arms_differ_by_items_and_by_missing_lists_but_not_by_chance():
    rng = default_rng(9)
    codes = random_lists(rng, 4000, 5, 50)
    is_candidate = rng.random(4000) < 0.1
    hashes = hashes_of(4000, 10)
    assert not differ(codes, is_candidate, hashes)
    others = codes.copy()
    others[np.flatnonzero(is_candidate)[::4]] += 25
    assert differ(others, is_candidate, hashes)
    missing = codes.copy()
    missing[np.flatnonzero(is_candidate)[::10]] = -1
    assert differ(missing, is_candidate, hashes)


def test_a_single_arm_is_not_compared():
    codes = np.zeros((3, 2), dtype=np.int32)
    assert compare_before(codes, np.zeros(3, dtype=bool), hashes_of(3, 1)) is None


def test_pairs_use_each_user_once_and_groups_of_the_larger_arm():
    rng = default_rng(11)
    baseline = np.array([0.1, 0.2, np.nan, 0.4, 0.8, 1.6])
    candidate = np.array([0.5, np.nan, 0.25])
    scores = pair_scores(baseline, candidate, rng)
    assert len(scores) == 2
    sums = {round(sum(each) / 2 - 0.75, 9) for each in combinations([0.1, 0.2, 0.4, 0.8, 1.6], 4)}
    assert round(scores.sum(), 9) in sums
    assert len(pair_scores(baseline, np.array([np.nan]), rng)) == 0
