import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.reference.prediction import refer, surprise
from monitor.reference.season import (
    DRIFTS,
    MOST_Z,
    Phases,
    correlate,
    count_suspects,
    discount,
    no_evidence,
    remove_seasons,
    update_evidence,
)
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


def test_the_center_is_that_of_the_next_runs_day() -> None:
    values, phases = weekly(56, 200, 3.0)
    monday = refer(values, np.zeros_like(values), phases=[Phases(past=phases.past, now=0)]).center
    saturday = refer(values, np.zeros_like(values), phases=[Phases(past=phases.past, now=5)]).center
    assert np.median(monday - saturday) == pytest.approx(6.0, abs=0.3)


def test_a_week_that_does_not_show_is_left_in() -> None:
    values, phases = weekly(56, 500, 0.0)
    assert np.mean(remove_seasons(values, [phases]).paid > 0) < 0.1


@pytest.mark.parametrize(("runs", "now"), [(14, 0), (42, 9)], ids=["two weeks", "a day never seen before"])
def test_what_is_not_known_well_enough_is_no_season(runs: int, now: int) -> None:
    values, phases = weekly(runs, 50, 5.0)
    assert np.array_equal(remove_seasons(values, [Phases(past=phases.past, now=now)]).values, values)


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
def test_a_weekend_that_was_in_alarm_is_known_from_the_next_on_whenever_it_began(first: int) -> None:
    values, alarms = alarmed_weekends(first + 26, first)
    alarms[first + 7 :] = False  # what is expected does not page
    for day, level in ((4, 0), (5, -8), (6, -8)):
        for weeks in (1, 2, 3):
            runs = first + 7 * weeks + day
            assert expected_on(day, values[:runs], alarms[:runs]) == pytest.approx(level, abs=0.9)


def test_a_weekend_that_is_well_again_is_expected_to_be_well() -> None:
    values, alarms = alarmed_weekends(21)
    values[7:] = np.random.default_rng(SEED).normal(size=(14, 50))
    assert expected_on(5, values[:19], alarms[:19] & (np.arange(19) < 7)[:, np.newaxis]) == pytest.approx(0, abs=0.5)


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


TREND_SEED = 17


def autoregressive(runs: int, series: int, correlation: float) -> np.ndarray:
    rng = np.random.default_rng(TREND_SEED)
    values = rng.normal(size=(runs, series))
    for run in range(1, runs):
        values[run] = correlation * values[run - 1] + math.sqrt(1 - correlation**2) * values[run]
    return values


def test_two_runs_by_hand() -> None:
    """M1 = exp(d - d^2 / 2) and M2 = (1 + M1) exp(-d^2 / 2) after z of 1 and 0."""
    evidence = update_evidence(update_evidence(no_evidence(1), [1.0]), [0.0])
    by_hand = [(1 + math.exp(d - d * d / 2)) * math.exp(-d * d / 2) for d in DRIFTS]
    assert evidence.mass[:, 0] == pytest.approx(by_hand)
    assert evidence.total == pytest.approx([sum(by_hand) / len(DRIFTS)])


def test_a_run_without_surprise_changes_nothing() -> None:
    before = update_evidence(no_evidence(2), [2.0, 2.0])
    after = update_evidence(before, [np.nan, 1.0])
    assert after.mass[:, 0] == pytest.approx(before.mass[:, 0])
    assert after.total[1] > before.total[1]


def test_one_bad_run_is_no_trend() -> None:
    assert update_evidence(no_evidence(1), [37.0]).total == pytest.approx(update_evidence(no_evidence(1), [MOST_Z]).total)
    assert update_evidence(no_evidence(1), [37.0]).total < 100


def test_evidence_is_finite_however_long_the_fault() -> None:
    evidence = no_evidence(1)
    for _ in range(2000):
        evidence = update_evidence(evidence, [37.0])
    assert np.isfinite(evidence.total).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=25))
def test_the_fold_is_the_sum_over_all_starts(surprises: list[float]) -> None:
    """Shiryaev-Roberts: the likelihood ratios of a drift that began at run 1, at run 2, ..., added up."""
    evidence = no_evidence(1)
    for z in surprises:
        evidence = update_evidence(evidence, [z])
    capped = np.minimum(surprises, MOST_Z)
    slow = np.mean([sum(np.exp(np.sum(d * capped[run:] - d * d / 2)) for run in range(len(capped))) for d in DRIFTS])
    assert evidence.total == pytest.approx([slow])


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_run_length_is_at_least_one_over_alpha(alpha: float) -> None:
    """Fired series start anew, so runs over fires estimates the average run length from below up to the last, open one."""
    rng = np.random.default_rng(TREND_SEED)
    evidence, fires, series, runs = no_evidence(4000), 0, 4000, 1000
    for _ in range(runs):
        evidence = update_evidence(evidence, rng.normal(size=series))
        fired = evidence.total >= 1 / alpha
        fires += int(fired.sum())
        kept = ~fired
        evidence = type(evidence)(mass=evidence.mass * kept, rise=evidence.rise * kept, since=evidence.since * kept)
    assert series * runs / fires >= 1 / alpha


def test_suspects_are_the_runs_since_the_drift_began_and_return_when_it_ends() -> None:
    evidence = no_evidence(1)
    for z in [-3.0, -3.0, 2.0, 2.0, 2.0]:
        evidence = update_evidence(evidence, [z])
    assert count_suspects(evidence, 0.01).tolist() == [3]
    for _ in range(5):
        evidence = update_evidence(evidence, [-3.0])
    assert count_suspects(evidence, 0.01).tolist() == [0]


def test_suspects_count_runs_without_a_value() -> None:
    evidence = no_evidence(1)
    for z in [2.0, np.nan, 2.0, 2.0]:
        evidence = update_evidence(evidence, [z])
    assert count_suspects(evidence, 0.01).tolist() == [4]


@pytest.mark.parametrize(("correlation", "least", "most"), [(0.0, 0.05, 0.25), (0.3, 0.3, 0.5), (0.6, 0.58, 0.75)])
def test_correlation_is_found_with_caution(correlation: float, least: float, most: float) -> None:
    assert least < np.median(correlate(autoregressive(60, 500, correlation))) < most


def test_without_history_correlation_is_assumed() -> None:
    assert correlate(np.empty((0, 1))) == pytest.approx([0.2 + math.sqrt(0.96 / 10)])
    assert correlate(np.full((5, 1), np.nan)) == pytest.approx([0.2 + math.sqrt(0.96 / 10)])


def test_runs_that_take_turns_count_as_uncorrelated_and_constant_ones_do_no_harm() -> None:
    assert correlate(np.tile([[1.0], [-1.0]], (30, 1))) == pytest.approx([0.0])
    assert np.isfinite(correlate(np.ones((30, 1)))).all()


def test_discount_by_hand() -> None:
    assert discount([3.0, 3.0], [0.0, 0.8]) == pytest.approx([3.0, 1.0])


def test_sums_of_discounted_runs_vary_like_independent_ones() -> None:
    sums = discount(autoregressive(400, 4000, 0.6), np.full(4000, 0.6)).sum(axis=0)
    assert np.var(sums) / 400 == pytest.approx(1.0, abs=0.1)
