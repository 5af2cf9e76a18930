"""Interval of a statistic over users, hand-worked, and within what the statistic can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import summary
from monitor.reference import estimate_interval, share_interval


def test_of_a_mean_it_is_student_s() -> None:
    """Of 10 users with mean 0.5 and standard error 0.1: 0.5 -+ 2.262157 * 0.1."""
    found = estimate_interval(summary(n=10, mean=0.5, standard_error=0.1), "mean", (-1.0, 1.0))
    assert found == pytest.approx((0.2737843, 0.7262157), abs=1e-6)


def test_of_a_share_it_is_the_angular_one() -> None:
    """Of 20 in 100: arcsin sqrt(20.375 / 100.75) = 0.466423, -+ 1.959964 / (2 sqrt(100.5)) = 0.097755."""
    assert share_interval(0.2, 100) == pytest.approx((0.12710, 0.28433), abs=5e-5)


def test_of_a_percentile_it_is_the_normal_one_within_the_scores() -> None:
    low, high = estimate_interval(summary(n=200, statistics={"p05": -0.99, "p25": -0.2}), "p05", (-1.0, 1.0)) or (0.0, 0.0)
    assert low == -1.0
    assert -0.99 < high < -0.2


@pytest.mark.parametrize(
    ("statistic", "changes"),
    [
        ("mean", {"mean": None, "n": 0}),
        ("mean", {"n": 1, "standard_error": None}),
        ("p05", {"n": 40}),
        ("p10", {}),
    ],
)
def test_what_the_summary_cannot_tell_has_none(statistic: str, changes: dict[str, object]) -> None:
    assert estimate_interval(summary(**changes), statistic, (-1.0, 1.0)) is None


@given(affected=st.integers(0, 1000), n=st.integers(1, 1000))
def test_the_interval_of_a_share_holds_it_and_lies_between_0_and_1(affected: int, n: int) -> None:
    share = min(affected, n) / n
    low, high = share_interval(share, n)
    assert 0.0 <= low <= share <= high <= 1.0
    assert low < high
