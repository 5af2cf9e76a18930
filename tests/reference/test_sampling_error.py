import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model import Statistic, Summary
from monitor.reference import estimate_error, from_angle, to_angle
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
