import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from monitor.reference.spread import find_outliers

ROSNER = """
-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77
1.81 1.91 1.94 1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64
2.90 2.92 2.92 2.93 3.21 3.26 3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01
"""
"""Rosner's (1983) own example; at 5 % he finds the three highest."""


def by_hand(values: list[float], rejected_wrongly: float = 0.001) -> set[int]:
    """The test as Rosner states it, value by value."""
    left, taken, found = dict(enumerate(values)), [], 0
    for number in range(1, max(len(values) // 4, 1) + 1):
        n = len(left)
        deviation = np.std(list(left.values()), ddof=1)
        if n < 5 or deviation == 0:
            break
        mean = np.mean(list(left.values()))
        farthest = max(left, key=lambda at: abs(left[at] - mean))
        t = stats.t.isf(rejected_wrongly / (2 * n), n - 2)
        taken.append(farthest)
        if abs(left.pop(farthest) - mean) / deviation > (n - 1) * t / np.sqrt((n - 2 + t * t) * n):
            found = number
    return set(taken[:found])


def found_in(values: list[float]) -> set[int]:
    return set(np.flatnonzero(find_outliers(np.array(values, dtype=np.float64)[:, np.newaxis])).tolist())


def test_of_few_runs_only_one_far_beyond_the_spread_of_the_others_is_the_odd_one_out() -> None:
    assert found_in([1, 1, 1, 50]) == set()
    assert found_in([1, 1.1, 0.9, 1, 2]) == set()
    assert found_in([1, 1.1, 0.9, 1, 50]) == {4}
    assert found_in([1, 1.1, 0.9, 1, 1.1, 1, 3]) == {6}


def test_a_constant_history_has_none_but_those_that_differ() -> None:
    assert found_in([1.0] * 10) == set()
    assert found_in([1.0] * 10 + [0.5]) == {10}


def test_missing_runs_are_no_outliers_and_columns_stand_alone() -> None:
    values = np.full((12, 3), np.nan)
    values[:, 1] = [*np.linspace(0, 1, 11), 30]
    found = find_outliers(values)
    assert found.sum() == 1
    assert found[11, 1]


def test_rosners_example_is_judged_as_he_states_the_test() -> None:
    values = [float(each) for each in ROSNER.split()]
    assert by_hand(values, 0.05) == {51, 52, 53}
    assert found_in(values) == by_hand(values)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(0, 6))
def test_the_quick_way_is_the_slow_one(seed: int, healthy: int, bad: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.permutation(np.concatenate((rng.normal(size=healthy), rng.normal(12, 1, size=bad)))).tolist()
    assert found_in(values) == by_hand(values)
