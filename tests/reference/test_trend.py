import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.reference.season import DRIFTS, MOST_Z, correlate, count_suspects, discount, no_evidence, update_evidence

SEED = 17


def autoregressive(runs: int, series: int, correlation: float) -> np.ndarray:
    rng = np.random.default_rng(SEED)
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
    assert update_evidence(no_evidence(1), [37.0]).total < 30


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
    rng = np.random.default_rng(SEED)
    evidence, fires, series, runs = no_evidence(4000), 0, 4000, 1000
    for _ in range(runs):
        evidence = update_evidence(evidence, rng.normal(size=series))
        fired = evidence.total >= 1 / alpha
        fires += int(fired.sum())
        kept = ~fired
        evidence = type(evidence)(mass=evidence.mass * kept, rise=evidence.rise * kept, since=evidence.since * kept)
    assert series * runs / fires >= 1 / alpha


def test_no_suspects_while_nothing_happens() -> None:
    assert count_suspects(no_evidence(3), 0.01).tolist() == [0, 0, 0]
    assert count_suspects(update_evidence(no_evidence(1), [1.0]), 0.01).tolist() == [0]


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
