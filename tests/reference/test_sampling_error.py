import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import summary
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.reference.counts import estimate_error, estimate_interval, from_angle, share_interval, to_angle
from monitor.summaries import summarize_one

P05, MEAN, BELOW_0 = (Statistic.parse(name) for name in ("p05", "mean", "share_below(0)"))


def summary_of(values: np.ndarray) -> Summary:
    return summarize_one("all", "tau", values, (-1.0, 1.0), [BELOW_0])


def test_a_mean_has_the_summarys_standard_error() -> None:
    assert estimate_error(summary_of(np.array([0.0, 1.0])), MEAN) == pytest.approx(0.5)


def test_one_user_has_no_error_and_none_has_none_either() -> None:
    assert estimate_error(summary_of(np.array([0.5])), MEAN) is None
    for statistic in (MEAN, P05, BELOW_0):
        assert estimate_error(summary_of(np.empty(0)), statistic) is None


def test_a_percentile_of_even_scores_by_hand() -> None:
    """Scores even over [0, 1]: density 1, so sqrt(0.05 * 0.95 / 10,001)."""
    assert estimate_error(summary_of(np.linspace(0, 1, 10_001)), P05) == pytest.approx(0.0021793, abs=1e-6)


def test_an_extreme_user_is_no_percentile() -> None:
    assert estimate_error(summary_of(np.linspace(0, 1, 99)), P05) is None
    assert estimate_error(summary_of(np.linspace(0, 1, 101)), P05) is not None


@pytest.mark.parametrize("users", [200, 2000])
def test_a_percentile_errs_no_more_than_estimated(users: int) -> None:
    rng = np.random.default_rng(1)
    samples = 2 * rng.beta(5, 1.8, size=(300, users)) - 1
    errors = [estimate_error(summary_of(sample), P05) for sample in samples]
    true = np.quantile(samples, 0.05, axis=1).std()
    estimated = np.median([error for error in errors if error is not None])
    assert 0.9 * true < estimated < 2 * true


def test_angles_by_hand() -> None:
    """None of 24.25 + 3/4 = 25 users: arcsin sqrt(0.375 / 25)."""
    angle, error = to_angle(0.0, 24.25)
    assert angle == pytest.approx(0.1227829, abs=1e-6)
    assert error == pytest.approx(0.5 / np.sqrt(24.75))


@given(st.integers(1, 10**7), st.floats(0, 1))
def test_angles_come_back(users: int, share: float) -> None:
    angle, error = to_angle(share, users)
    assert from_angle(angle, users) == pytest.approx(share, abs=1e-9)
    assert 0 < angle < np.pi / 2
    assert error > 0


def test_limits_beyond_the_ends_are_shares_all_the_same() -> None:
    assert from_angle([-3.0, 9.0], 100).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_error_of_an_angle_is_that_of_many_samples(share: float) -> None:
    angles, error = to_angle(np.random.default_rng(1).binomial(400, share, size=20_000) / 400, 400)
    assert angles.std() == pytest.approx(float(error), rel=0.05)


def test_the_interval_of_a_mean_is_student_s() -> None:
    """Of 10 users with mean 0.5 and standard error 0.1: 0.5 -+ 2.262157 * 0.1."""
    found = estimate_interval(summary(n=10, mean=0.5, standard_error=0.1), "mean", (-1.0, 1.0))
    assert found == pytest.approx((0.2737843, 0.7262157), abs=1e-6)


def test_the_interval_of_a_share_is_the_angular_one() -> None:
    """Of 20 in 100: arcsin sqrt(20.375 / 100.75) = 0.466423, -+ 1.959964 / (2 sqrt(100.5)) = 0.097755."""
    assert share_interval(0.2, 100) == pytest.approx((0.12710, 0.28433), abs=5e-5)


def test_the_interval_of_a_percentile_is_the_normal_one_within_the_scores() -> None:
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
def test_what_the_summary_cannot_tell_has_no_interval(statistic: str, changes: dict[str, object]) -> None:
    assert estimate_interval(summary(**changes), statistic, (-1.0, 1.0)) is None


@given(affected=st.integers(0, 1000), n=st.integers(1, 1000))
def test_the_interval_of_a_share_holds_it_and_lies_between_0_and_1(affected: int, n: int) -> None:
    share = min(affected, n) / n
    low, high = share_interval(share, n)
    assert 0.0 <= low <= share <= high <= 1.0
    assert low < high
