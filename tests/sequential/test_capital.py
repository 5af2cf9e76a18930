"""Capital of bets on bounded means: by hand, by law, and beside a slow obvious reference."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from monitor.errors import InputError
from monitor.sequential import gate
from monitor.sequential.gate import (
    STAKES,
    WEIGHTS,
    Scale,
    bounds,
    follow_capital,
    log_capital,
    tally,
)

MEANS = st.floats(0.01, 0.99)
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)


def slow_capital(scores: list[float], mean: float) -> float:
    """One stake and one score after the other, as the definition reads."""
    total = 0.0
    for stake, part in zip(STAKES, WEIGHTS, strict=True):
        capital = 1.0
        for score in scores:
            capital *= 1 + stake * (mean - score) / (1 - mean)
        total += capital * part
    return total


def test_one_score_of_0_against_a_half_multiplies_by_1_plus_the_stake_and_one_of_1_by_1_less_it_at_any_mean():
    stake = np.average(STAKES, weights=WEIGHTS)
    assert math.exp(log_capital(tally(np.array([0.0])), 0.5)) == pytest.approx(1 + stake)
    for mean in (0.1, 0.5, 0.9):
        assert math.exp(log_capital(tally(np.array([1.0])), mean)) == pytest.approx(1 - stake)


def test_without_scores_the_capital_is_1_and_nothing_is_ruled_out():
    nobody = tally(np.empty(0))
    assert log_capital(nobody, 0.5) == pytest.approx(0.0)
    assert bounds(nobody, nobody, 0.01) == (0.0, 1.0)


@given(SCORES, MEANS)
def test_the_tally_the_path_and_the_definition_agree(scores, mean):
    slow = math.log(slow_capital(list(scores), mean))
    assert log_capital(tally(scores), mean) == pytest.approx(slow, abs=1e-9)
    assert follow_capital(scores, mean)[-1] == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize(
    "population", [[0.0, 0.0, 1.0, 1.0, 0.5], [0.1, 0.2, 0.9, 0.9, 0.9], [0.5] * 5]
)
def test_drawn_without_replacement_from_an_unknown_number_expected_capital_is_at_most_1(population):
    """Maclaurin's inequality, by all orders of a small population."""
    mean = float(np.mean(population))
    for drawn in range(1, 6):
        orders = permutations(population, drawn)
        assert (
            np.mean([math.exp(log_capital(tally(np.array(order)), mean)) for order in orders])
            <= 1 + 1e-12
        )


def test_means_that_move_around_the_margin_earn_nothing_on_average():
    """The promise is about the average over what was looked at: 0.2 and 0.8 in turn average to a half."""
    assert (
        np.mean([log_capital(tally(np.array([a, b])), 0.5) for a in (0.1, 0.3) for b in (0.7, 0.9)])
        <= 0
    )


def test_bounds_say_what_the_capital_at_them_says():
    scores = tally(np.random.default_rng(3).beta(2, 5, 500))
    low, high = bounds(scores, scores, 0.05)
    assert log_capital(scores, high) == pytest.approx(math.log(20), abs=1e-4)
    assert log_capital(scores.flipped(), 1 - low) == pytest.approx(math.log(20), abs=1e-4)


def test_scores_too_many_to_hold_apart_widen_the_bounds_by_less_than_a_step(monkeypatch):
    monkeypatch.setattr(gate, "_GRID", 2**8)
    many = tally(np.random.default_rng(4).beta(2, 5, 1000))
    low, high = bounds(many, many, 0.01)
    assert log_capital(many, high) >= math.log(100)
    assert log_capital(many, high - 2**-7) < math.log(100)
    assert log_capital(many.flipped(), 1 - low) >= math.log(100)


def test_bounds_are_at_most_two_and_a_half_times_as_wide_as_those_of_one_look():
    """Beside Student's interval, which holds for one look only."""
    for n in (100, 1000, 10_000):
        scores = np.random.default_rng(5).beta(20, 20, n)
        low, high = bounds(tally(scores), tally(scores), 0.005)
        once = stats.t.interval(0.99, n - 1, scores.mean(), stats.sem(scores))
        assert once[1] - once[0] < high - low < 2.6 * (once[1] - once[0])


def test_what_is_no_error_rate_no_range_or_no_score_in_it_is_refused():
    for alpha in (0.0, 1.0, -0.1, 2.0, math.nan):
        with pytest.raises(InputError, match="no error rate: write one between 0 and 1"):
            bounds(tally(np.zeros(1)), tally(np.zeros(1)), alpha)
    for value in (2.001, -3.0, math.nan):
        with pytest.raises(InputError, match="lies outside its range from -2 to 2"):
            Scale(-2.0, 2.0).to_unit(np.array([0.0, value]))
    for ends in ((0.0, math.inf), (1.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(InputError, match="no finite range"):
            Scale(*ends)


def test_a_scale_maps_its_range_and_takes_rounding_for_its_ends():
    scale = Scale(-2.0, 2.0)
    assert scale.to_unit(np.array([-2 - 1e-12, 0.0, 2.0])).tolist() == [0.0, 0.5, 1.0]
    assert scale.margin(0.05) == pytest.approx(0.5125)
    assert scale.from_unit(0.5125) == pytest.approx(0.05)
