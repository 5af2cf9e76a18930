import numpy as np
import pytest

from monitor.reference import Reference, predict, refer, surprise

SEED = 5
SERIES = 100_000


def lent(values: np.ndarray, floor: np.ndarray | None) -> Reference:
    """Reference of values without sampling errors, helped by a floor without."""
    errors = None if floor is None else np.zeros_like(floor)
    return refer(values, np.zeros_like(values), floor_values=floor, floor_errors=errors)


def limit_reach(runs: int, floor: np.ndarray | None = None) -> float:
    values = np.random.default_rng(SEED).normal(size=(runs, 2000))
    prediction = predict(lent(values, floor), np.zeros(2000), 1e-4)
    return float(np.median(prediction.expected - prediction.low))


def a_floor(scale: float, runs: int = 14, series: int = 2000) -> np.ndarray:
    return scale * np.random.default_rng(SEED + 1).normal(size=(runs, series))


def test_the_floor_lends_by_hand() -> None:
    """Own variance 2 with 1 degree of freedom; floor's 1 with 2, lent as 4 with 1 / (1/3 + 1/2) = 1.2: (2 + 4.8) / 2.2."""
    reference = lent(np.array([[1.0], [3.0]]), np.array([[0.0], [1.0], [2.0]]))
    assert reference.df == pytest.approx([2.2])
    assert reference.spread**2 == pytest.approx([6.8 / 2.2])
    assert reference.center == pytest.approx([2.0])


def test_one_run_may_speak_where_the_floor_does() -> None:
    reference = lent(np.array([[1.0]]), np.array([[0.0], [1.0], [2.0]]))
    assert reference.spread**2 == pytest.approx([4.0])
    assert reference.df == pytest.approx([1.2])


def test_a_series_is_never_calmer_than_its_own_history() -> None:
    assert lent(np.array([[0.0], [2.0], [4.0]]), np.zeros((14, 1))).spread == pytest.approx([2.0])


def test_a_floor_without_runs_lends_nothing() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    helped, own = lent(values, np.full((3, 1), np.nan)), lent(values, None)
    assert helped.spread == own.spread
    assert helped.df == own.df


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_a_floor_narrows_short_histories(runs: int) -> None:
    assert limit_reach(runs, a_floor(1.0)) < limit_reach(runs)


def test_a_long_history_stands_alone() -> None:
    assert limit_reach(12, a_floor(0.3)) == limit_reach(12)


@pytest.mark.parametrize("runs", [2, 3, 5, 8])
@pytest.mark.parametrize("scale", [1.0, 0.5, 1 / 3])
def test_the_rate_holds_for_floors_down_to_a_third_of_the_scale(runs: int, scale: float) -> None:
    rng = np.random.default_rng(SEED)
    values = rng.normal(size=(runs, SERIES))
    p = surprise(lent(values, a_floor(scale, series=SERIES)), rng.normal(size=SERIES), np.zeros(SERIES))
    for share in (0.01, 0.001, 0.0001):
        assert np.mean(p < share) < 1.3 * share + 4 * np.sqrt(share / SERIES)
