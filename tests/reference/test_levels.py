"""New levels and outliers by hand: healthy runs of 1.0 and 1.2 in turn, then a fault, level after level."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings, strategies as st

from monitor.statistics.reference.prediction import compute_reference
from monitor.statistics.reference.spread import SETTLED_RUNS, PastAlerts, find_outliers

HEALTHY = [1.0, 1.2] * 10
FAULT = [0.0, 0.2] * 10


def alarms_of(values, first, last):
    """One series whose alert fired after the runs from ``first`` to before ``last``.

    Nothing else kept runs from teaching.
    """
    fired = np.zeros((len(values), 1), dtype=bool)
    fired[first:last] = True
    return PastAlerts(healthy=~fired, alerting=fired, firing=fired)


def learn(values, first=0, last=0):
    found = np.array(values)[:, np.newaxis]
    return compute_reference(found, 0 * found, alerts=alarms_of(values, first, last))


def test_a_level_is_the_new_normal_with_its_fourteenth_run_and_from_its_own_runs_alone():
    runs = SETTLED_RUNS - 1
    before = learn(HEALTHY + FAULT[: runs - 1], 20, 40)
    after = learn(HEALTHY + FAULT[:runs], 20, 40)
    assert before.center[0] == pytest.approx(1.1)
    assert before.since[0] == -1
    assert before.runs[0] == 20
    assert after.center[0] == pytest.approx(np.mean(FAULT[:runs]))
    assert after.since[0] == 20
    assert after.runs[0] == runs


def test_two_runs_nearer_to_normal_than_to_the_fault_are_a_level_with_the_spread_of_before():
    """The fault is healed, but the healthy level has moved from 1.1 to 0.8 meanwhile."""
    found = learn(HEALTHY + FAULT[:10] + [0.8, 0.8], 20, 32)
    plain = learn(HEALTHY)
    assert found.center[0] == pytest.approx(0.8)
    assert found.since[0] == 30
    assert found.runs[0] == 22
    # One half for the mean of two runs; those two lie at it and make the spread a little smaller.
    assert found.center_error[0] == pytest.approx(found.spread[0] * np.sqrt(1 / 22 + 1 / 2))
    assert 0.9 * plain.spread[0] < found.spread[0] < plain.spread[0]


def test_a_fault_that_goes_on_is_no_return():
    assert learn(HEALTHY + FAULT[:10] + [0.4, 0.5], 20, 32).since[0] == -1


def test_back_at_the_old_level_five_runs_undo_a_level_that_nobody_accepted():
    values = HEALTHY + FAULT[:14] + HEALTHY[:5]
    four = learn(values[:-1], 20, 33)
    five = learn(values, 20, 33)
    assert four.since[0] == 20
    assert five.since[0] == -1
    assert five.runs[0] == 25
    assert five.center[0] == pytest.approx(np.mean(HEALTHY + HEALTHY[:5]))


def test_a_healthy_series_of_the_segment_keeps_its_level():
    values = np.array([HEALTHY + FAULT[:13], HEALTHY + HEALTHY[:13]]).T
    fired = np.zeros(values.shape, dtype=bool)
    fired[20:, 0] = True
    alarms = np.repeat(fired[:, :1], 2, axis=1)
    found = compute_reference(
        values,
        np.zeros_like(values),
        alerts=PastAlerts(healthy=~alarms, alerting=alarms, firing=fired),
    )
    assert found.center == pytest.approx([np.mean(FAULT[:13]), np.mean(HEALTHY[:13])])


ROSNER = """
-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77
1.81 1.91 1.94 1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64
2.90 2.92 2.92 2.93 3.21 3.26 3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01
"""
"""Rosner's (1983) own example; at 5 % he finds the three highest."""


def by_hand(values, rejected_wrongly=0.001):
    """The test as Rosner states it, value by value."""
    left = dict(enumerate(values))
    taken = []
    found = 0
    for number in range(1, max(len(values) // 4, 1) + 1):
        n = len(left)
        deviation = np.std(list(left.values()), ddof=1)
        if n < 5 or deviation == 0:
            break
        mean = np.mean(list(left.values()))
        farthest = max(left, key=lambda at: abs(left[at] - mean))
        t = scipy.stats.t.isf(rejected_wrongly / (2 * n), n - 2)
        taken.append(farthest)
        if abs(left.pop(farthest) - mean) / deviation > (n - 1) * t / np.sqrt((n - 2 + t * t) * n):
            found = number
    return set(taken[:found])


def found_in(values):
    return set(
        np.flatnonzero(find_outliers(np.array(values, dtype=np.float64)[:, np.newaxis])).tolist()
    )


def test_constant_and_missing_runs_have_no_outliers_and_columns_are_independent():
    assert not found_in([1.0] * 10)
    assert found_in([1.0] * 4 + [0.5]) == {4}
    values = np.full((12, 3), np.nan)
    values[:, 1] = [*np.linspace(0, 1, 11), 30]
    assert np.argwhere(find_outliers(values)).tolist() == [[11, 1]]


def test_rosners_example_is_judged_as_he_states_the_test():
    values = [float(each) for each in ROSNER.split()]
    assert by_hand(values, 0.05) == {51, 52, 53}
    assert found_in(values) == by_hand(values)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(0, 6))
def test_the_quick_way_is_the_slow_one(seed, healthy, bad):
    rng = np.random.default_rng(seed)
    values = rng.permutation(
        np.concatenate((rng.normal(size=healthy), rng.normal(6, 2, size=bad)))
    ).tolist()
    assert found_in(values) == by_hand(values)
