import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from monitor.model.rules import Direction
from monitor.reference.prediction import WINDOW, predict, refer, surprise, to_normal

SEED = 11


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, np.newaxis]


def test_equal_errors_give_the_plain_mean_and_standard_deviation() -> None:
    reference = refer(column(1, 2, 3, 4, 5), column(1, 1, 1, 1, 1))
    assert reference.center == pytest.approx([3])
    assert reference.spread**2 == pytest.approx([2.5])
    assert reference.center_error**2 == pytest.approx([0.5])
    assert reference.sampling == pytest.approx([1])
    assert reference.df == pytest.approx([4])
    assert reference.runs.tolist() == [5]


def test_what_this_run_errs_more_than_past_ones_widens_its_limit() -> None:
    """Variance 2.5 (1 + 1/5) + (4 - 1) = 6, degrees of freedom 4 * 6 / 3 = 8."""
    prediction = predict(refer(column(1, 2, 3, 4, 5), column(1, 1, 1, 1, 1)), [2.0], 0.01)
    assert prediction.scale**2 == pytest.approx([6])
    assert prediction.df == pytest.approx([8])
    assert prediction.low == pytest.approx(3 + stats.t.ppf(0.01, 8) * np.sqrt([6.0]))
    assert prediction.high == pytest.approx(3 - stats.t.ppf(0.01, 8) * np.sqrt([6.0]))


def test_a_run_of_more_users_than_usual_is_judged_by_what_was_seen() -> None:
    reference = refer(column(1, 2, 3, 4, 5), column(1, 1, 1, 1, 1))
    assert predict(reference, [0.1], 0.01).low == pytest.approx(predict(reference, [1.0], 0.01).low)


def test_a_run_of_few_users_weighs_less() -> None:
    reference = refer(column(0.5, 0.52, 0.48, 0.51, 0.49, 0.2), column(0.01, 0.01, 0.01, 0.01, 0.01, 0.3))
    assert reference.center == pytest.approx([0.5], abs=0.005)
    assert reference.df < 5


def test_runs_left_out_change_nothing() -> None:
    rng = np.random.default_rng(SEED)
    values = rng.normal(size=(9, 3))
    gaps = np.insert(values, [0, 4, 4, 9], np.nan, axis=0)
    whole, gappy = refer(values, np.ones_like(values)), refer(gaps, np.ones_like(gaps))
    assert gappy.center == pytest.approx(whole.center)
    assert gappy.spread == pytest.approx(whole.spread)


def test_a_value_without_a_sampling_error_does_not_count() -> None:
    assert refer(column(1, 2, 3, 9), column(1, 1, 1, np.nan)).runs.tolist() == [3]


def test_only_the_newest_runs_that_count_are_looked_at() -> None:
    rng = np.random.default_rng(SEED)
    old, new = rng.normal(100, 1, size=(30, 2)), rng.normal(size=(WINDOW, 2))
    reference = refer(np.concatenate((old, new)), np.ones((WINDOW + 30, 2)))
    assert reference.center == pytest.approx(refer(new, np.ones_like(new)).center)
    assert reference.runs.max() <= WINDOW


def test_a_gap_lets_older_runs_count() -> None:
    values = np.arange(100.0)[:, np.newaxis]
    values[50:80] = np.nan
    assert refer(values, np.ones_like(values)).center == pytest.approx([np.r_[10:50, 80:100].mean()])


def test_bad_runs_nobody_flagged_do_not_move_the_reference() -> None:
    healthy = np.random.default_rng(SEED).normal(0.5, 0.03, size=(20, 200))
    bad = healthy.copy()
    bad[[4, 9, 15]] = -0.2
    clean, spoilt = refer(healthy, np.full_like(healthy, 0.01)), refer(bad, np.full_like(bad, 0.01))
    assert np.mean(spoilt.runs == 17) > 0.97
    assert np.mean(np.abs(spoilt.center - clean.center)) < 0.005
    assert 0.9 < np.mean(spoilt.spread) / np.mean(clean.spread) < 1.1


def test_no_run_yet_says_nothing() -> None:
    reference = refer(np.empty((0, 2)), np.empty((0, 2)))
    prediction = predict(reference, [0.1, 0.1], 0.01)
    assert np.isnan(reference.center).all()
    assert prediction.low.tolist() == [-np.inf, -np.inf]
    assert np.isnan(surprise(reference, [0.0, 0.0], [0.1, 0.1])).all()


def test_one_run_says_where_but_not_how_far() -> None:
    reference = refer(column(0.5), column(0.1))
    assert reference.center.tolist() == [0.5]
    assert reference.df.tolist() == [0]
    assert predict(reference, [0.1], 0.01).high.tolist() == [np.inf]


def test_a_run_without_a_value_surprises_nobody() -> None:
    assert np.isnan(surprise(refer(column(1, 2, 3), column(0, 0, 0)), [np.nan], [0.0])).all()


def test_identical_arms_are_left_by_any_change_and_by_no_rounding() -> None:
    reference = refer(np.ones((6, 3)), np.zeros((6, 3)))
    p = surprise(reference, [1.0, 1 - 1e-15, 1 - 1e-3], np.zeros(3))
    assert p[:2] == pytest.approx([0.5, 0.5], abs=1e-5)
    assert p[2] < 1e-20


def test_one_user_of_a_constant_series_errs_as_much_as_it_changes() -> None:
    """One user of n moves the mean by d / n, with a standard error of d / n too: z is 1."""
    p = surprise(refer(np.ones((6, 1)), np.zeros((6, 1))), [1 - 0.001], [0.001])
    assert p == pytest.approx([stats.norm.sf(1)], abs=1e-3)


def test_a_series_varies_by_half_of_its_sampling_variance_at_least() -> None:
    assert refer(column(3, 3, 3, 3), column(1, 1, 1, 1)).spread ** 2 == pytest.approx([0.5])


@pytest.mark.parametrize("direction", list(Direction))
def test_surprise_is_the_share_at_the_limit(direction: Direction) -> None:
    reference = refer(np.random.default_rng(SEED).normal(size=(12, 5)), np.full((12, 5), 0.3))
    shares = np.geomspace(1e-5, 0.1, 5)
    prediction = predict(reference, np.full(5, 0.7), shares)
    limit = prediction.low if direction is Direction.BELOW else prediction.high
    assert surprise(reference, limit, np.full(5, 0.7), direction=direction) == pytest.approx(shares)


def test_normal_deviates_are_finite_and_large_where_p_is_small() -> None:
    z = to_normal([0.0, 1e-4, 0.5, 1.0])
    assert z[1:3] == pytest.approx(stats.norm.isf([1e-4, 0.5]))
    assert np.isfinite(z).all()
    assert np.all(np.diff(z) < 0)
    assert np.isnan(to_normal([np.nan])).all()


@pytest.mark.parametrize("runs", [5, 10, 20, 60])
def test_normal_runs_are_called_surprising_at_the_stated_rate(runs: int) -> None:
    rng = np.random.default_rng(SEED)
    series = 60_000
    errors = np.full((runs, series), 0.3)
    p = surprise(refer(rng.normal(size=(runs, series)), errors), rng.normal(size=series), errors[0])
    for share in (0.1, 0.01, 0.001):
        assert np.mean(p < share) < share + 4 * np.sqrt(share / series)
    assert np.mean(p < 0.1) > 0.095


@pytest.mark.parametrize("between", [0.0, 0.5, 2.0])
def test_the_rate_holds_when_few_users_answer_at_times(between: float) -> None:
    rng = np.random.default_rng(SEED)
    shape = (10, 60_000)
    errors, now = (8 / np.sqrt(rng.choice([25, 60, 700], size=size)) for size in (shape, shape[1:]))
    values = between * rng.normal(size=shape) + errors * rng.normal(size=shape)
    p = surprise(refer(values, errors), between * rng.normal(size=shape[1]) + now * rng.normal(size=shape[1]), now)
    for share in (0.01, 0.001):
        assert np.mean(p < share) < 1.3 * share + 4 * np.sqrt(share / shape[1])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1, 1).map(lambda value: round(value, 9)), min_size=2, max_size=15),
    st.floats(0.01, 0.5),
    st.floats(-5, 5),
    st.floats(0.1, 10),
)
def test_units_do_not_matter(values: list[float], error: float, shift: float, factor: float) -> None:
    past, errors = column(*values), np.full((len(values), 1), error)
    plain = surprise(refer(past, errors), [0.3], [error])
    moved = surprise(refer(past * factor + shift, errors * factor), [0.3 * factor + shift], [error * factor])
    assert moved == pytest.approx(plain, rel=1e-6, abs=1e-12)
