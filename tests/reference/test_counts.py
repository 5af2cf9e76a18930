"""Rare shares of users are judged as counts, exactly; other statistics by their sampling error."""

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st
from numpy.random import default_rng

from factories import summary
from monitor.measures.summaries import summarize_one
from monitor.model.rules import Direction
from monitor.model.statistics import Statistic
from monitor.statistics.reference.prediction import compute_p_values, compute_reference, predict
from monitor.statistics.reference.sampling_error import (
    CountReference,
    estimate_error,
    estimate_interval,
    judge_rare,
    share_interval,
    to_angle,
    to_count,
)

USERS = 1500
SHARE = 4e-5


def learn(counts):
    return CountReference.of(counts, np.full(counts.shape, float(USERS)))


def test_counts_of_users_hit_one_by_one_are_judged_by_the_exact_conditional_test():
    past = np.array([[1.0], [0], [2], [1], [1]])
    total = 5 * USERS
    found = learn(past)
    alone = CountReference(
        rate=found.rate,
        total=found.total,
        weights=np.eye(len(found.weights))[:, :1],
        is_calm=found.is_calm,
    )
    for now in (1, 3, 8):
        # Given that 5 + 1 + now users were found among all, as many or more of them in this run.
        exact = scipy.stats.binom.sf(now - 1, 5 + now, USERS / (total + USERS))
        assert alone.p_values(np.array([now]), np.array([USERS])) == pytest.approx(exact, rel=1e-9)


def test_the_limit_is_where_the_chance_falls_to_the_share():
    found = learn(default_rng(1).poisson([0.1, 1, 4], (20, 3)).astype(float))
    users = np.full(3, float(USERS))

    assert found.p_values(found.limit(users, np.full(3, SHARE)), users) == pytest.approx(
        SHARE, rel=0.05
    )


def chance_beyond(limits, mean, dispersion):
    if dispersion == 1:
        return float(scipy.stats.poisson.sf(np.floor(limits), mean).mean())
    return float(
        scipy.stats.nbinom.sf(np.floor(limits), mean / (dispersion - 1), 1 / dispersion).mean()
    )


def test_healthy_counts_pass_their_limit_as_seldom_as_stated():
    for runs, mean, dispersion in [(5, 0.1, 1), (40, 8, 1), (40, 1, 1.5), (5, 1, 2)]:
        rng = default_rng(2)
        shape = (runs, 400)
        clusters = max(dispersion - 1, 1e-9)
        counts = (
            rng.poisson(mean, shape)
            if dispersion == 1
            else rng.negative_binomial(mean / clusters, 1 / dispersion, shape)
        )
        limits = learn(counts.astype(float)).limit(np.full(400, float(USERS)), np.full(400, SHARE))

        # The budget's SAFETY pays for what the history cannot know of clusters.
        assert chance_beyond(limits, mean, dispersion) <= (1 if dispersion == 1 else 5) * SHARE


def judge(counts, now, always=0.0, *, users=USERS, chance=SHARE):
    """Limit and p-value, of users, of a run after these, of which so many are in every run."""
    past = to_angle(counts[:, np.newaxis] / users, users)
    today = to_angle(np.array([now]) / users, np.array([users]))
    past = past[0], np.full_like(past[0], float(past[1]))
    known = compute_reference(*past)
    share = np.array([chance])
    uncounted = (
        predict(known, today[1], share).high,
        compute_p_values(known, *today, direction=Direction.ABOVE),
    )
    limit, p, _ = judge_rare(
        np.array([True]), past, today, share, uncounted=uncounted, always=np.array([always])
    )
    return float(to_count(limit, today[1])[0][0]), float(p[0])


def test_more_than_half_of_the_users_are_never_normal_if_past_runs_hit_hardly_any():
    for seen, users, most in [(0.0, 88, 44), (0.0, 12, 10), (8.0, 20, 16)]:
        past = np.append(np.zeros(26), seen)

        assert judge(past, most + 1, users=users, chance=1e-10) == (most, 1e-10)
        assert judge(past, most, users=users, chance=1e-10)[1] > 1e-10


def test_users_that_every_run_hits_change_no_limit_and_hide_no_others():
    past = np.array([1.0, 1, 1, 1, 1, 2, 1, 1, 1])

    assert judge(past, 7, always=1) == pytest.approx((judge(past, 7)[0], judge(past - 1, 6)[1]))
    assert judge(past, 7, always=1)[1] < judge(past, 7)[1] / 2


def test_counts_that_never_vary_are_judged_by_that_too():
    assert (
        judge(np.full(40, 4.0), 12)[1]
        < judge(default_rng(3).poisson(4, 40).astype(float), 12)[1] / 10
    )


P05, P95, MEAN, BELOW_0 = map(Statistic.parse, ("p05", "p95", "mean", "share_below(0)"))


def summary_of(values):
    return summarize_one("all", "tau", values, (-1.0, 1.0), [BELOW_0])


def test_too_few_users_have_no_sampling_error():
    assert estimate_error(summary_of(np.array([0.5])), MEAN) is None
    for statistic in (MEAN, P05, BELOW_0):
        assert estimate_error(summary_of(np.empty(0)), statistic) is None
    for statistic in (P05, P95):
        assert estimate_error(summary_of(np.linspace(0, 1, 99)), statistic) is None
        assert estimate_error(summary_of(np.linspace(0, 1, 101)), statistic) is not None


def test_a_percentile_of_even_scores_by_hand():
    """Scores even over [0, 1]: density 1, so sqrt(0.05 * 0.95 / 10,001)."""
    assert estimate_error(summary_of(np.linspace(0, 1, 10_001)), P05) == pytest.approx(
        0.0021793, abs=1e-6
    )


def test_angles_by_hand():
    """None of 24.25 + 3/4 = 25 users: arcsin sqrt(0.375 / 25)."""
    assert to_angle(0.0, 24.25) == pytest.approx((0.1227829, 0.5 / np.sqrt(24.75)), abs=1e-6)
    counts = np.array([0.0, 1, 7, 999_999])
    users = np.array([1.0, 1500, 33, 1_000_000])
    np.testing.assert_array_equal(to_count(*to_angle(counts / users, users)), (counts, users))


def test_the_interval_of_a_mean_is_student_s_and_that_of_a_percentile_the_normal_one_within_the_scores():
    """Of 10 users with mean 0.5 and standard error 0.1: 0.5 -+ 2.262157 * 0.1."""
    found = estimate_interval(summary(n=10, mean=0.5, standard_error=0.1), "mean", (-1.0, 1.0))
    assert found == pytest.approx((0.2737843, 0.7262157), abs=1e-6)
    low, high = estimate_interval(
        summary(n=200, statistics={"p05": -0.99, "p25": -0.2}), "p05", (-1.0, 1.0)
    ) or (0.0, 0.0)
    assert low == -1.0
    assert -0.99 < high < -0.2


def test_a_statistic_that_the_summary_lacks_has_no_interval():
    for statistic, found in (
        ("mean", summary(mean=None, n=0)),
        ("mean", summary(n=1, standard_error=None)),
        ("p05", summary(n=40)),
        ("p10", summary()),
    ):
        assert estimate_interval(found, statistic, (-1.0, 1.0)) is None


@given(affected=st.integers(0, 1000), n=st.integers(1, 1000))
def test_the_interval_of_a_share_contains_it_and_is_between_0_and_1(affected, n):
    share = min(affected, n) / n
    low, high = share_interval(share, n)
    assert 0.0 <= low <= share <= high <= 1.0
    assert low < high
