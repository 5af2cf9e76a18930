import numpy as np
import pytest
import scipy

from monitor.model.rules import Direction
from monitor.statistics.reference.history import WINDOW
from monitor.statistics.reference.prediction import (
    compute_p_values,
    compute_reference,
    predict,
    z_of_p_value,
)

FIVE = np.array([[1.0], [2], [3], [4], [5]])
ONES = np.ones((5, 1))


def draw(*shape):
    return np.random.default_rng(11).normal(size=shape)


def column(*values):
    return np.array(values, dtype=np.float64)[:, np.newaxis]


def test_equal_errors_give_the_plain_mean_and_standard_deviation():
    found = compute_reference(FIVE, ONES)
    assert (found.center[0], found.spread[0] ** 2, found.center_error[0] ** 2) == pytest.approx(
        (3, 2.5, 0.5)
    )
    assert (found.sampling[0], found.df[0], found.runs[0]) == pytest.approx((1, 4, 5))


def test_a_larger_error_of_this_run_widens_its_limit():
    """Variance 2.5 (1 + 1/5) + (4 - 1) = 6, degrees of freedom 4 * 6 / 3 = 8.

    More users than usual are as usual.
    """
    found, few, many = (
        predict(compute_reference(FIVE, ONES), np.array([error]), 0.01) for error in (2.0, 1.0, 0.1)
    )
    reach = -scipy.stats.t.ppf(0.01, 8) * np.sqrt(6.0)
    assert (found.scale[0] ** 2, found.df[0]) == pytest.approx((6, 8))
    assert (found.low[0], found.high[0]) == pytest.approx((3 - reach, 3 + reach))
    assert many.low == pytest.approx(few.low)


def test_a_run_of_few_users_weighs_less():
    """The last value is no outlier, so only its weight is small."""
    values = column(0.4, 0.6, 0.4, 0.6, 0.9)
    found = compute_reference(values, column(0.01, 0.01, 0.01, 0.01, 0.3))
    assert found.runs == 5
    assert found.center < 0.55 < values.mean()
    assert found.df < 4


def test_runs_left_out_change_nothing():
    values = draw(9, 3)
    gaps = np.insert(values, [0, 4, 4, 9], np.nan, axis=0)
    # Also those whose value has no sampling error.
    whole = compute_reference(values, values**0)
    gappy = compute_reference(gaps, gaps**0)
    unknown = compute_reference(np.nan_to_num(gaps), gaps * 0 + 1)
    for other in (gappy, unknown):
        assert other.center == pytest.approx(whole.center)
        assert other.spread == pytest.approx(whole.spread)


def test_only_the_newest_runs_that_count_are_looked_at():
    new = draw(WINDOW, 2)
    values = np.concatenate((100 + draw(30, 2), new))
    found = compute_reference(values, values**0)
    assert found.center == pytest.approx(compute_reference(new, new**0).center)
    assert found.runs.max() <= WINDOW
    # A gap lets older ones count.
    values = np.arange(100.0)[:, np.newaxis]
    values[50:80] = np.nan
    assert compute_reference(values, values**0).center == pytest.approx(
        [np.r_[10:50, 80:100].mean()]
    )


def test_bad_runs_nobody_flagged_do_not_move_the_reference():
    healthy = 0.5 + 0.03 * draw(20, 200)
    bad = healthy.copy()
    bad[[4, 9, 15]] = -0.2
    clean, spoilt = (compute_reference(each, np.full_like(each, 0.01)) for each in (healthy, bad))
    assert np.mean(spoilt.runs == 17) > 0.97
    assert np.mean(np.abs(spoilt.center - clean.center)) < 0.005
    assert 0.9 < np.mean(spoilt.spread) / np.mean(clean.spread) < 1.1


def test_no_run_gives_no_reference_and_one_run_gives_only_a_center():
    none = compute_reference(np.empty((0, 1)), np.empty((0, 1)))
    one = compute_reference(column(0.5), column(0.1))
    assert np.isnan(none.center).all()
    assert np.isnan(compute_p_values(none, np.array([0.0]), np.array([0.1]))).all()
    assert np.isnan(
        compute_p_values(compute_reference(FIVE, 0 * FIVE), np.array([np.nan]), np.array([0.0]))
    ).all()
    assert one.center.tolist() == [0.5]
    assert one.df.tolist() == [0]
    for found in (predict(none, np.array([0.1]), 0.01), predict(one, np.array([0.1]), 0.01)):
        assert found.low.tolist() == [-np.inf]
        assert found.high.tolist() == [np.inf]


def test_identical_arms_are_left_by_any_change_and_by_no_rounding():
    """One user of n moves the mean by d / n, with a standard error of d / n too: z is 1."""
    same = compute_reference(np.ones((6, 4)), np.zeros((6, 4)))
    means = np.array([1.0, 1 - 1e-15, 1 - 1e-3, 1 - 0.001])
    p = compute_p_values(same, means, np.array([0, 0, 0, 0.001]))
    assert p[:2] == pytest.approx([0.5, 0.5], abs=1e-5)
    assert p[2] < 1e-20
    assert p[3] == pytest.approx(scipy.stats.norm.sf(1), abs=1e-3)


def test_a_series_varies_by_half_of_its_sampling_variance_at_least():
    assert compute_reference(3 * ONES, ONES).spread ** 2 == pytest.approx([0.5])


def test_surprise_is_the_share_at_the_limit():
    reference = compute_reference(draw(12, 5), np.full((12, 5), 0.3))
    shares = np.geomspace(1e-5, 0.1, 5)
    errors = np.full(5, 0.7)
    limits = predict(reference, errors, shares)
    assert compute_p_values(
        reference, limits.low, errors, direction=Direction.BELOW
    ) == pytest.approx(shares)
    assert compute_p_values(
        reference, limits.high, errors, direction=Direction.ABOVE
    ) == pytest.approx(shares)


def test_normal_deviates_are_finite_and_large_where_p_is_small():
    z = z_of_p_value(np.array([0.0, 1e-4, 0.5, 1.0]))
    assert z[1:3] == pytest.approx(scipy.stats.norm.isf([1e-4, 0.5]))
    assert np.isfinite(z).all()
    assert np.all(np.diff(z) < 0)
    assert np.isnan(z_of_p_value(np.array([np.nan]))).all()


def test_the_rate_holds_when_few_users_answer_at_times():
    for between in [0.0, 0.5]:
        rng = np.random.default_rng(11)
        errors = 8 / np.sqrt(rng.choice([25, 60, 700], size=(11, 40_000)))
        values = between * rng.normal(size=errors.shape) + errors * rng.normal(size=errors.shape)
        p = compute_p_values(compute_reference(values[:-1], errors[:-1]), values[-1], errors[-1])
        for share in (0.01, 0.001):
            assert np.mean(p < share) < 1.3 * share + 4 * np.sqrt(share / 40_000)
