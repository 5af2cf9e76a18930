"""Capital of bets on bounded means, and verdicts over a margin, with users missing, over segments."""

import math
from bisect import bisect_left
from itertools import permutations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings, strategies as st
from numpy.random import default_rng

from monitor.model.errors import InputError
from monitor.statistics.sequential import gate
from monitor.statistics.sequential.gate import (
    STAKES,
    WEIGHTS,
    Scale,
    bound_mean,
    count_scores,
    follow_capital,
    log_capital,
)
from tables import cells


def sample(values, missing=0):
    return gate.DrawnUsers(count_scores(np.asarray(values, dtype=float)), missing)


def gate_each(samples, margin, alpha):
    return gate.judge_gate(
        {str(place): one for place, one in enumerate(samples)}, Scale(0, 1), margin, alpha
    )


def gate_sample(one, margin, alpha):
    return gate_each([one], margin, alpha)[0]


VERDICTS = """
# value  users    missing  margin  verdict       reason
0.0      10       0        0.1     inconclusive  too_few
0.0      100      0        0.1     safe          decided
1.0      100      0        0.9     breach        decided
# Exactly at the margin: never.
0.25     1000000  0        0.25    inconclusive  too_few
0.0      0        0        0.5     inconclusive  no_data
0.0      0        40       0.5     inconclusive  no_data
0.0      1        0        0.5     inconclusive  too_few
# With the missing users at their worst.
0.0      990      10       0.05    safe          decided
0.0      900      100      0.05    inconclusive  no_data
# Too few users as well, but the missing alone may pass the margin.
0.0      10       5        0.1     inconclusive  no_data
# With the missing users at their best.
1.0      990      10       0.95    breach        decided
1.0      900      100      0.95    inconclusive  no_data
# With 5 users at their worst, mean 0.024, they are not safe yet.
0.0      200      0        0.05    safe          decided
0.0      200      5        0.05    inconclusive  no_data
"""


def test_equal_scores_and_missing_users_give_this_verdict_and_reason():
    for row in cells(VERDICTS):
        value, users, missing, margin = map(float, row[:4])
        found = gate_sample(sample(np.full(int(users), value), int(missing)), margin, 0.01)
        assert [found.verdict.value, found.reason.value] == row[4:]
        if users:
            best = value * users / (users + missing)
            worst = (value * users + missing) / (users + missing)
            assert (found.mean_best, found.mean_worst) == pytest.approx((best, worst))


def test_the_bounds_contain_every_value_of_the_missing_users():
    values = default_rng(1).random(300)
    with_missing = gate_sample(sample(values, missing=30), 0.5, 0.01)
    for fill in (0.0, 0.3, 1.0):
        filled = gate_sample(sample(np.append(values, np.full(30, fill))), 0.5, 0.01)
        assert with_missing.low <= filled.low + 1e-6
        assert filled.high <= with_missing.high + 1e-6


@settings(max_examples=25)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 5))
def test_missing_users_count_as_their_best_and_worst_values(values, missing):
    found = gate_sample(sample(values, missing), 0.4, 0.05)
    worst, best = (count_scores(np.array(values + [fill] * missing)) for fill in (1.0, 0.0))
    assert found.evidence_safe * math.log(10) == pytest.approx(log_capital(worst, 0.4))
    assert found.evidence_breach * math.log(10) == pytest.approx(log_capital(best.flipped(), 0.6))


def rejected(*e_values):
    return np.flatnonzero(gate.reject_nulls([math.log(each) for each in e_values], 0.1)).tolist()


def test_e_bh_by_hand():
    """K = 3 at 0.1: one alone needs 30, two need 15 each, three need 10 each."""
    assert rejected(30.0, 1.0, 1.0) == [0]
    assert rejected(1.0, 15.0, 29.0) == [1, 2]
    assert rejected(30.0, 15.0, 1.0) == [0, 1]
    assert rejected(10.0, 10.0, 10.0) == [0, 1, 2]
    assert rejected(29.0, 1.0, 1.0) == rejected(9.9, 10.0, 10.0) == rejected() == []


def test_all_segments_are_safe_exactly_where_each_is_by_itself():
    """If all of them are safe, more segments do not need more evidence."""

    def is_safe(users):
        return gate_sample(sample(np.zeros(users)), 0.1, 0.01).verdict == "safe"

    least = bisect_left(range(99), True, key=is_safe)  # noqa: FBT003 - the first safe number
    found = gate_each([sample(np.zeros(least))] * 3, 0.1, 0.01)
    assert {each.verdict for each in found} == {gate.GateVerdict.SAFE}
    decided, few = gate_each([sample(np.zeros(100)), sample(np.zeros(10))], 0.1, 0.01)
    assert decided.reason is gate.GateReason.DECIDED
    assert few.reason is gate.GateReason.TOO_FEW


def test_one_bad_segment_among_many_needs_more_evidence():
    bad = sample(np.ones(9))
    good = sample(np.full(200, 0.5))
    assert gate_sample(bad, 0.5, 0.1).verdict is gate.GateVerdict.BREACH
    assert gate_each([bad, *[good] * 30], 0.5, 0.1)[0].verdict is gate.GateVerdict.INCONCLUSIVE


MEANS = st.floats(0.01, 0.99)
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)


def slow_capital(scores, mean):
    """One stake and one score after the other, as the definition reads."""
    total = 0.0
    for stake, part in zip(STAKES, WEIGHTS, strict=True):
        capital = 1.0
        for score in scores:
            capital *= 1 + stake * (mean - score) / (1 - mean)
        total += capital * part
    return total


def test_without_scores_the_capital_is_1_and_nothing_is_ruled_out():
    nobody = count_scores(np.empty(0))
    assert log_capital(nobody, 0.5) == pytest.approx(0.0)
    assert bound_mean(nobody, nobody, 0.01) == (0.0, 1.0)


@given(SCORES, MEANS)
def test_the_tally_the_path_and_the_definition_agree(scores, mean):
    slow = math.log(slow_capital(list(scores), mean))
    assert log_capital(count_scores(scores), mean) == pytest.approx(slow, abs=1e-9)
    assert follow_capital(scores, mean)[-1] == pytest.approx(slow, abs=1e-9)


def test_drawn_without_replacement_from_an_unknown_number_expected_capital_is_at_most_1():
    """Maclaurin's inequality, by all orders of a small population with a mean of a half."""
    for drawn in range(1, 6):
        orders = permutations([0.0, 0.1, 1.0, 0.9, 0.5], drawn)
        logs = [log_capital(count_scores(np.array(order)), 0.5) for order in orders]
        assert np.mean(np.exp(logs)) <= 1 + 1e-12


def test_the_capital_at_the_bounds_is_one_over_alpha():
    scores = count_scores(default_rng(3).beta(2, 5, 500))
    low, high = bound_mean(scores, scores, 0.05)
    assert log_capital(scores, high) == pytest.approx(math.log(20), abs=1e-4)
    assert log_capital(scores.flipped(), 1 - low) == pytest.approx(math.log(20), abs=1e-4)


def test_rounding_many_scores_widens_the_bounds_by_less_than_a_step(monkeypatch):
    monkeypatch.setattr(gate, "_GRID", 2**8)
    many = count_scores(default_rng(4).beta(2, 5, 1000))
    low, high = bound_mean(many, many, 0.01)
    assert log_capital(many, high) >= math.log(100)
    assert log_capital(many, high - 2**-7) < math.log(100)
    assert log_capital(many.flipped(), 1 - low) >= math.log(100)


def test_bounds_are_at_most_two_and_a_half_times_as_wide_as_those_of_one_look():
    """Beside Student's interval, which holds for one look only."""
    for n in (100, 1000, 10_000):
        scores = default_rng(5).beta(20, 20, n)
        low, high = bound_mean(count_scores(scores), count_scores(scores), 0.005)
        once = scipy.stats.t.interval(0.99, n - 1, scores.mean(), scipy.stats.sem(scores))
        assert once[1] - once[0] < high - low < 2.6 * (once[1] - once[0])


def test_invalid_error_rates_ranges_and_scores_are_rejected():
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="no error rate: write one between 0 and 1"):
            bound_mean(count_scores(np.zeros(1)), count_scores(np.zeros(1)), alpha)
    for value in (2.001, -3.0, math.nan):
        with pytest.raises(InputError, match="is outside its range from -2 to 2"):
            Scale(-2.0, 2.0).to_unit(np.array([0.0, value]))
    for ends in ((0.0, math.inf), (1.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(InputError, match="no finite range"):
            Scale(*ends)


def test_a_scale_maps_its_range_and_accepts_rounding_at_its_ends():
    scale = Scale(-2.0, 2.0)
    assert scale.to_unit(np.array([-2 - 1e-12, 0.0, 2.0])).tolist() == [0.0, 0.5, 1.0]
    assert scale.margin(0.05) == pytest.approx(0.5125)
    assert scale.from_unit(0.5125) == pytest.approx(0.05)
