import numpy as np
import pytest

from monitor.reference.prediction import refer, surprise
from monitor.reference.season import Phases, remove_seasons
from monitor.reference.spread import PastAlarms

SEED = 3


def weekly(runs: int, series: int, size: float, noise: float = 1.0) -> tuple[np.ndarray, Phases]:
    rng = np.random.default_rng(SEED)
    day = np.arange(runs) % 7
    effects = np.array([1.0, 0.5, 0.0, 0.0, -0.5, -1.0, 0.0])
    return size * effects[day][:, np.newaxis] + noise * rng.normal(size=(runs, series)), Phases(past=day, now=runs % 7)


def test_two_phases_by_hand() -> None:
    """Means 1 and 3 without noise are kept whole: all runs move to the phase of the next one, for 2 (1 - 1/2) degrees of 6."""
    values = np.array([[1.0], [3.0]] * 3)
    moved = remove_seasons(values, [Phases(past=np.array([0, 1] * 3), now=1)])
    assert moved.values.ravel() == pytest.approx([3.0] * 6)
    assert moved.paid == pytest.approx([1 / 6])
    assert moved.doubt == pytest.approx([1 / 3])


def test_a_strong_week_is_taken_out() -> None:
    values, phases = weekly(56, 200, 3.0)
    spread = refer(values, np.zeros_like(values), phases=[phases]).spread
    assert np.median(spread) == pytest.approx(1.0, abs=0.1)
    assert np.median(refer(values, np.zeros_like(values)).spread) > 2


def test_the_center_is_that_of_the_next_runs_day() -> None:
    values, phases = weekly(56, 200, 3.0)
    monday = refer(values, np.zeros_like(values), phases=[Phases(past=phases.past, now=0)]).center
    saturday = refer(values, np.zeros_like(values), phases=[Phases(past=phases.past, now=5)]).center
    assert np.median(monday - saturday) == pytest.approx(6.0, abs=0.3)


def test_a_week_that_does_not_show_is_left_in() -> None:
    values, phases = weekly(56, 500, 0.0)
    assert np.mean(remove_seasons(values, [phases]).paid > 0) < 0.1


def test_two_weeks_are_not_enough() -> None:
    values, phases = weekly(14, 50, 5.0)
    assert np.array_equal(remove_seasons(values, [phases]).values, values)


def test_a_day_never_seen_before_has_no_season() -> None:
    values, phases = weekly(42, 50, 5.0)
    assert np.array_equal(remove_seasons(values, [Phases(past=phases.past, now=9)]).values, values)


def test_no_run_has_no_season() -> None:
    nothing = Phases(past=np.empty(0, dtype=np.intp), now=1)
    assert refer(np.empty((0, 2)), np.empty((0, 2)), phases=[nothing]).runs.tolist() == [0, 0]


def test_series_with_gaps_stand_alone() -> None:
    values, phases = weekly(56, 2, 5.0)
    values[::7, 1] = np.nan
    found = remove_seasons(values, [Phases(past=phases.past, now=0)])
    assert found.paid[0] > 0
    assert found.paid[1] == 0


def test_hours_and_days_are_removed_one_after_the_other() -> None:
    run = np.arange(24 * 28)
    hour, day = run % 24, run // 24 % 7
    values = (
        np.sin(hour / 4)[:, np.newaxis]
        + (day < 5)[:, np.newaxis]
        + 0.1 * np.random.default_rng(SEED).normal(size=(len(run), 20))
    )
    cycles = [Phases(past=hour, now=0), Phases(past=day, now=0)]
    assert np.median(refer(values, np.zeros_like(values), phases=cycles).spread) == pytest.approx(0.1, abs=0.02)


def alarmed_weekends(runs: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise of 1, and 8 less on the last two days of each week from ``first`` on, each time in alarm; all of 50 series."""
    day = np.arange(runs) % 7
    ill = (day >= 5) & (np.arange(runs) >= first)
    values = np.random.default_rng(SEED).normal(size=(runs, 50)) - 8.0 * ill[:, np.newaxis]
    return values, np.repeat(ill[:, np.newaxis], 50, axis=1)


def expected_on(day: int, values: np.ndarray, alarms: np.ndarray) -> float:
    phases = Phases(past=np.arange(len(values)) % 7, now=day)
    past = PastAlarms(healthy=~alarms, alarms=alarms, firing=alarms)
    return float(np.median(refer(values, np.zeros_like(values), phases=[phases], alarms=past).center))


@pytest.mark.parametrize("first", [0, 42])
def test_a_weekend_that_is_in_alarm_each_time_is_known_after_two_whenever_it_began(first: int) -> None:
    values, alarms = alarmed_weekends(first + 14, first)
    values, alarms = np.vstack((values, values[:5] * 0)), np.vstack((alarms, alarms[:5] & False))
    assert expected_on(5, values, alarms) == pytest.approx(-8, abs=0.8)
    assert expected_on(4, values, alarms) == pytest.approx(0, abs=0.4)
    assert expected_on(5, values[: first + 12], alarms[: first + 12]) == pytest.approx(0, abs=0.5)


def test_a_lasting_fault_is_no_season_and_neither_is_one_of_every_other_day() -> None:
    run = np.arange(70)
    for ill in ((run >= 40) & (run < 69), (run >= 40) & (run % 2 == 0)):
        values = np.random.default_rng(SEED).normal(size=(70, 50)) - 8.0 * ill[:, np.newaxis]
        alarms = np.repeat(ill[:, np.newaxis], 50, axis=1)
        phases = Phases(past=run % 7, now=0)
        # Of the lasting fault's runs the first 13 make a new level, which is not asked here.
        moved = remove_seasons(values, [phases], alarms)
        assert np.mean(moved.paid > 0) < 0.1


def test_days_of_many_runs_recur_once_a_week() -> None:
    """120 hours see five weekdays once each: whatever Monday was is no season."""
    hour = np.arange(120)
    values = np.where(hour < 24, 0.0, 1.0)[:, np.newaxis] + 0.01 * np.random.default_rng(SEED).normal(size=(120, 5))
    assert np.array_equal(remove_seasons(values, [Phases(past=hour // 24, now=0)]).values, values)


def test_a_phase_that_varies_more_is_granted_more() -> None:
    values, phases = weekly(56, 200, 3.0, noise=0.1)
    values[6::7] += np.random.default_rng(SEED).normal(size=(8, 200))
    sunday, monday = (remove_seasons(values, [Phases(past=phases.past, now=day)]).unrest for day in (6, 0))
    assert np.median(sunday) > 15
    assert np.median(monday) < 1.5


@pytest.mark.parametrize("size", [0.0, 0.5, 2.0])
def test_the_rate_holds_with_a_season(size: float) -> None:
    values, phases = weekly(35, 40_000, size)
    past, now = values[:-1], values[-1]
    p = surprise(
        refer(past, np.zeros_like(past), phases=[Phases(past=phases.past[:-1], now=int(phases.past[-1]))]), now, now * 0
    )
    for share in (0.01, 0.001):
        assert np.mean(p < share) < 1.4 * share + 4 * np.sqrt(share / 40_000)
