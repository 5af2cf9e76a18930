"""Arm-wide metrics and the kernels below them: worked values, what is unknown, definitions from plain lists, and scipy."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from kernels.reference import padded
from monitor.arm_metrics import ARM_METRICS, ArmNeed, LastLists, measure_arms, parse_arm_metric
from monitor.errors import MetricError
from monitor.kernels.exposure import churn, compact_codes, count_items, entropy, gini, kolmogorov_smirnov
from monitor.model.rankings import Arm, ByArm, PairBatch

B, C = Arm.BASELINE, Arm.CANDIDATE
PAIRS: list[reference.Pair] = [([1, 2], [1, 9]), ([1, 3], [1, 9]), ([1, 2], [1, 4])]
EVERYBODY = {"all": np.arange(3)}


def places(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float64)


def last(lists: list[list[int]], exposed: list[int] | None = None) -> LastLists:
    codes, lengths = padded(lists)
    shown = sorted({code for row in lists for code in row}) if exposed is None else exposed
    return LastLists(codes=codes, lengths=lengths, exposed=np.array(shown, dtype=np.int32))


def values(
    name: str, batch: PairBatch, catalogue: int | None = None, lasts: dict[Arm, LastLists] | None = None
) -> list[tuple[Arm, float | None, int]]:
    found = measure_arms(batch, EVERYBODY, [parse_arm_metric(name)], catalogue_size=catalogue, last=lasts)
    return [(score.arm, score.value, score.n) for score in found]


def test_coverage_is_of_the_catalogue_or_of_what_either_arm_lists() -> None:
    batch = reference.batch(PAIRS)

    assert values("catalogue_coverage", batch, 10) == [(B, 0.3, 3), (C, 0.3, 3)]
    assert values("catalogue_coverage", batch) == [(B, 3 / 5, 3), (C, 3 / 5, 3)]


def test_a_catalogue_said_to_be_smaller_than_what_is_listed_is_as_large_as_that() -> None:
    assert values("catalogue_coverage", reference.batch(PAIRS), 2) == [(B, 3 / 5, 3), (C, 3 / 5, 3)]


def test_a_catalogue_of_one_item_has_no_normalized_entropy() -> None:
    one = reference.batch([([1], [1])] * 3)

    assert values("exposure_entropy", one) == [(B, 0.0, 3), (C, 0.0, 3)]
    assert values("exposure_entropy_normalized", one) == [(B, None, 0), (C, None, 0)]


def test_mean_popularity_is_over_places_whose_item_has_a_weight() -> None:
    weights = ByArm(baseline=places([6, 2], [6, 1], [6, 2]), candidate=places([6, math.nan], [6, math.nan], [6, 4]))

    found = values("mean_popularity", replace(reference.batch(PAIRS), weights=weights))

    assert found == [(B, 23 / 6, 3), (C, 22 / 4, 3)]


def test_novelty_is_the_share_of_places_with_items_listed_to_nobody_last_time() -> None:
    lasts = {B: last([[1], [2], [3]]), C: last([[], [], []], exposed=[-1, 1, 4, 4, 77])}

    assert values("novelty", reference.batch(PAIRS), lasts=lasts) == [(B, 0.0, 3), (C, 2 / 6, 3)]


def test_self_churn_speaks_of_users_of_both_runs() -> None:
    lasts = {B: last([[2, 1], [4, 5], []]), C: last([[], [], []])}

    assert values("self_churn", reference.batch(PAIRS), lasts=lasts) == [(B, 0.5, 2), (C, None, 0)]


def test_score_shift_is_told_of_the_candidate() -> None:
    scores = ByArm(baseline=places([4, 3], [4, 3], [4, math.nan]), candidate=places([4, 3], [9, 8], [9, 8]))

    assert values("score_shift", replace(reference.batch(PAIRS), scores=scores)) == [(C, 1 - 1 / 3, 3)]


@pytest.mark.parametrize("name", [name for name, metric in ARM_METRICS.items() if metric.need])
def test_what_is_not_known_is_none_and_no_error(name: str) -> None:
    found = values(name, reference.batch(PAIRS))

    assert found == [(arm, None, 0) for arm in ARM_METRICS[name].arms]


def test_scores_or_weights_that_are_all_unknown_are_none() -> None:
    unknown = ByArm(baseline=np.full((3, 2), np.nan), candidate=np.full((3, 2), np.nan))
    batch = replace(reference.batch(PAIRS), scores=unknown, weights=unknown)

    assert values("score_shift", batch) == [(C, None, 0)]
    assert values("mean_popularity", batch) == [(B, None, 0), (C, None, 0)]


def test_a_segment_of_nobody_and_one_of_empty_lists_say_nothing() -> None:
    batch = reference.batch([([], [1]), ([2], [2])])
    segments = {"nobody": np.array([], dtype=np.intp), "first": np.array([0])}
    known = last([[1], [1]])

    found = measure_arms(batch, segments, list(ARM_METRICS.values()), last={B: known, C: known})

    assert all((score.value, score.n) == (None, 0) for score in found if score.segment == "nobody" or score.arm == B)


def test_the_answer_goes_by_segment_metric_and_arm() -> None:
    metrics = [parse_arm_metric(name) for name in ("score_shift", "exposure_gini")]

    found = measure_arms(reference.batch(PAIRS), {"all": np.arange(3), "one": np.array([1])}, metrics)

    order = [("score_shift", C), ("exposure_gini", B), ("exposure_gini", C)]
    assert [(score.segment, score.metric, score.arm) for score in found] == [
        (segment, *each) for segment in ("all", "one") for each in order
    ]


def test_every_metric_keeps_its_name_and_tells_everything() -> None:
    for name, metric in ARM_METRICS.items():
        assert str(metric) == metric.name == name
        assert metric.meaning
        assert metric.source
        assert metric.low < metric.high
    assert {metric.need for metric in ARM_METRICS.values()} == {None, *ArmNeed}
    assert list(ARM_METRICS) == sorted(ARM_METRICS)


def test_a_name_is_read_with_room_around_it_and_an_unknown_one_is_refused_with_a_suggestion() -> None:
    assert parse_arm_metric(" novelty ") is ARM_METRICS["novelty"]
    with pytest.raises(MetricError, match="unknown arm-wide metric 'exposure_gin'; did you mean 'exposure_gini'"):
        parse_arm_metric("exposure_gin")
    with pytest.raises(MetricError, match="unknown arm-wide metric 7; known: catalogue_coverage, "):
        parse_arm_metric(7)


def literal(lists: list[list[int]], then: list[list[int]], seen: set[int], catalogue: int) -> dict[str, float | None]:
    """Every metric that needs lists alone, from plain lists."""
    counts = Counter(item for row in lists for item in row)
    total = counts.total()
    exposure = [*counts.values(), *[0] * (catalogue - len(counts))]
    bits = -sum(count / total * math.log2(count / total) for count in counts.values())
    gone = [1 - len(set(a) & set(b)) / max(len(a), len(b)) for a, b in zip(lists, then, strict=True) if a and b]
    return {
        "catalogue_coverage": len(counts) / catalogue,
        "exposure_entropy": bits,
        "exposure_entropy_normalized": bits / math.log2(catalogue),
        "exposure_gini": sum(abs(x - y) for x in exposure for y in exposure) / (2 * catalogue * total),
        "novelty": sum(count for item, count in counts.items() if item not in seen) / total,
        "self_churn": sum(gone) / len(gone) if gone else None,
    }


@pytest.mark.parametrize("scale", [1, 40_000_000])
def test_every_metric_is_its_definition_in_every_segment(scale: int) -> None:
    chance = random.Random(5)  # noqa: S311 - test data
    draws = [[[item * scale for item in chance.sample(range(50), chance.randint(0, 4))] for _ in range(200)] for _ in range(4)]
    pairs = list(zip(draws[0], draws[1], strict=True))
    segments = {f"s{i}": np.array(sorted(chance.sample(range(200), chance.randint(5, 100)))) for i in range(8)}
    lasts = {B: last(draws[2]), C: last(draws[3])}

    found = measure_arms(reference.batch(pairs), segments, list(ARM_METRICS.values()), catalogue_size=60, last=lasts)

    for segment, rows in segments.items():
        for arm, lists, then in ((B, draws[0], draws[2]), (C, draws[1], draws[3])):
            seen = {item for row in then for item in row}
            expected = literal([lists[row] for row in rows], [then[row] for row in rows], seen, 60)
            ours = {score.metric: score.value for score in found if (score.segment, score.arm) == (segment, arm)}
            assert {name: ours[name] for name in expected} == pytest.approx(expected, abs=1e-12)


COUNTS = st.lists(st.integers(1, 50), min_size=1, max_size=20)


def gini_by_definition(exposure: list[int]) -> float:
    """Mean absolute difference of all pairs, by twice the mean."""
    n = len(exposure)
    return sum(abs(x - y) for x in exposure for y in exposure) / (2 * n * n * (sum(exposure) / n))


def test_gini_of_worked_exposures() -> None:
    assert gini(np.array([5, 5, 5]), 3) == 0
    assert gini(np.array([7]), 4) == 1 - 1 / 4
    assert gini(np.array([1, 3]), 2) == 0.25
    assert gini(np.array([3, 1]), 4) == pytest.approx((6 * 1 + 8 * 3 - 5 * 4) / (4 * 4), abs=1e-15)


@given(counts=COUNTS, unlisted=st.integers(0, 30))
def test_gini_is_its_definition_with_items_never_listed_as_zeros(counts: list[int], unlisted: int) -> None:
    found = gini(np.array(counts), len(counts) + unlisted)

    assert found == pytest.approx(gini_by_definition(counts + [0] * unlisted), abs=1e-12)
    assert -1e-15 <= found <= 1 - 1 / (len(counts) + unlisted) + 1e-15


def test_gini_of_a_huge_catalogue_costs_no_memory() -> None:
    assert gini(np.array([1, 1]), 10**12) == pytest.approx(1 - 2e-12, abs=1e-15)


@given(counts=COUNTS)
def test_entropy_is_scipys(counts: list[int]) -> None:
    assert entropy(np.array(counts)) == pytest.approx(scipy.stats.entropy(counts, base=2), abs=1e-12)


def test_samples_that_are_equal_are_at_zero_and_separate_ones_at_one() -> None:
    low, high = np.array([1.0, 2.0, 2.0]), np.array([3.0, math.inf])

    assert kolmogorov_smirnov(low, low[::-1]) == 0
    assert kolmogorov_smirnov(low, high) == kolmogorov_smirnov(high, low) == 1
    assert kolmogorov_smirnov(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 6.0])) == 0.5


@given(*[st.lists(st.integers(-5, 5).map(float), min_size=3, max_size=30)] * 2)
def test_the_distance_is_scipys(baseline: list[float], candidate: list[float]) -> None:
    expected = scipy.stats.ks_2samp(baseline, candidate, method="asymp").statistic

    assert kolmogorov_smirnov(np.array(baseline), np.array(candidate)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", [1, 100_000_000])
def test_codes_are_numbered_over_both_arms_whether_dense_or_not(scale: int) -> None:
    baseline = np.array([[7, 3, -1], [20, -1, -1]], dtype=np.int32)
    candidate = np.array([[3, 5, 7], [-1, -1, -1]], dtype=np.int32)
    wide = [np.where(codes < 0, codes, codes * scale) for codes in (baseline, candidate)]

    ours, theirs, items = compact_codes(wide[0], wide[1])

    assert items.tolist() == [3 * scale, 5 * scale, 7 * scale, 20 * scale]
    assert ours.tolist() == [[2, 0, -1], [3, -1, -1]]
    assert theirs.tolist() == [[0, 1, 2], [-1, -1, -1]]


@pytest.mark.parametrize("items", [4, 1_000_000])
def test_items_are_counted_whether_there_are_few_or_many(items: int) -> None:
    found, counts = count_items(np.array([[3, 0], [2, 2], [3, -1]], dtype=np.int32), np.array([0, 2]), items)

    assert (found.tolist(), counts.tolist()) == ([0, 3], [1, 2])


def test_no_lists_list_nothing() -> None:
    nothing = np.empty((0, 3), dtype=np.int32)

    assert [len(part) for part in compact_codes(nothing, nothing)] == [0, 0, 0]
    assert [len(part) for part in count_items(nothing, np.arange(0), 5)] == [0, 0]
    assert [len(part) for part in count_items(np.full((1, 3), -1, dtype=np.int32), np.arange(1), 1)] == [0, 0]


RANKING = st.lists(st.integers(0, 9), unique=True, max_size=5)
UNKNOWN = -7


def test_churn_of_worked_lists() -> None:
    now = padded([[1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1, 2, 3], []], 3)
    last = padded([[3, 1, 2], [1, 2, 9], [7, 8, 9], [1, 2], [], [1]], 3)

    np.testing.assert_array_equal(churn(*now, *last), [0, 1 / 3, 1, 1 / 2, math.nan, math.nan])


def test_an_item_that_this_run_does_not_hold_counts_in_the_length_of_the_last_list() -> None:
    now = padded([[1, 2, 3]], 3)
    last = padded([[UNKNOWN, 1, -1]], 3)

    assert churn(*now, *last).tolist() == [2 / 3]


@given(st.lists(st.tuples(RANKING, RANKING), max_size=6), st.integers(1, 6), st.integers(5, 7))
def test_churn_is_its_definition(pairs: list[tuple[list[int], list[int]]], k: int, width: int) -> None:
    now, last = [a[:k] for a, _ in pairs], [b for _, b in pairs]
    # Items 8 and 9 are of the last run alone.
    now = [[item for item in row if item < 8] for row in now]
    coded = [[item if item < 8 else UNKNOWN for item in row] for row in last]

    found = churn(*padded(now, k), *padded(coded, width))

    expected = [
        1 - len(set(a) & set(b[:k])) / max(len(a), len(b[:k])) if a and b else math.nan for a, b in zip(now, last, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
