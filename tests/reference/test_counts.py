"""Rare shares of users are judged as counts, exactly."""

import numpy as np
import pytest
import scipy

from monitor.model.rules import Direction
from monitor.reference.counts import RARE, CountReference, judge_rare, to_angle, to_count
from monitor.reference.prediction import predict, refer, surprise

USERS, SHARE = 1500, 4e-5


def learn(counts: np.ndarray, users: int = USERS) -> CountReference:
    return CountReference.of(counts, np.full(counts.shape, float(users)))


def test_a_count_comes_back_from_its_angle() -> None:
    counts, users = np.array([0.0, 1, 7, 999_999]), np.array([1.0, 1500, 33, 1_000_000])

    np.testing.assert_array_equal(to_count(*to_angle(counts / users, users)), (counts, users))


def test_counts_of_users_hit_one_by_one_are_judged_by_the_exact_conditional_test() -> None:
    past, total = np.array([[1.0], [0], [2], [1], [1]]), 5 * USERS
    found = learn(past)
    alone = CountReference(rate=found.rate, total=found.total, weights=np.eye(len(found.weights))[:, :1], is_calm=found.is_calm)
    for now in (1, 3, 8):
        # Given that 5 + 1 + now users were found among all, as many or more of them in this run.
        exact = scipy.stats.binom.sf(now - 1, 5 + now, USERS / (total + USERS))
        assert alone.surprise(np.array([now]), np.array([USERS])) == pytest.approx(exact, rel=1e-9)


def test_the_limit_is_where_the_chance_falls_to_the_share() -> None:
    found, users = learn(np.random.default_rng(1).poisson([0.1, 1, 4], (20, 3)).astype(float)), np.full(3, float(USERS))

    assert found.surprise(found.limit(users, np.full(3, SHARE)), users) == pytest.approx(SHARE, rel=0.05)


def chance_beyond(limits: np.ndarray, mean: float, dispersion: float) -> float:
    if dispersion == 1:
        return float(scipy.stats.poisson.sf(np.floor(limits), mean).mean())
    return float(scipy.stats.nbinom.sf(np.floor(limits), mean / (dispersion - 1), 1 / dispersion).mean())


@pytest.mark.parametrize(
    ("mean", "dispersion", "of_stated"), [(0.1, 1, 1), (1, 1, 1), (4, 1, 1), (8, 1, 1), (1, 1.5, 5), (1, 2, 5), (4, 2, 5)]
)
@pytest.mark.parametrize("runs", [5, 40])
def test_healthy_counts_pass_their_limit_as_seldom_as_stated(
    runs: int, mean: float, dispersion: float, of_stated: float
) -> None:
    rng = np.random.default_rng(2)
    shape = (runs, 400)
    counts = (
        rng.poisson(mean, shape) if dispersion == 1 else rng.negative_binomial(mean / (dispersion - 1), 1 / dispersion, shape)
    )
    limits = learn(counts.astype(float)).limit(np.full(400, float(USERS)), np.full(400, SHARE))

    # The budget's SAFETY pays for what the history cannot know of clusters.
    assert chance_beyond(limits, mean, dispersion) <= of_stated * SHARE


def judge(counts: np.ndarray, now: float) -> tuple[float, float]:
    """Limit and p-value, of users, of a run after these."""
    values, errors = to_angle(counts[:, np.newaxis] / USERS, np.full((len(counts), 1), USERS))
    today = [each[np.newaxis] for each in to_angle(now / USERS, USERS)]
    known, share = refer(values, errors), np.array([SHARE])
    by_angle = predict(known, today[1], share).high, surprise(known, *today, direction=Direction.ABOVE)
    limit, p = judge_rare(np.array([True]), (values, errors), (today[0], today[1]), share, by_angle=by_angle)
    return float(to_count(limit, today[1])[0][0]), float(p[0])


def test_one_list_for_a_hundredth_of_the_users_is_seen_after_ten_runs_in_which_hardly_two_had_the_same() -> None:
    limit, p = judge(np.array([1.0, 2, 1, 1, 1, 2, 1, 1, 2, 1]), 15)

    assert limit < 15
    assert p <= SHARE


def test_counts_that_never_vary_are_judged_by_that_too() -> None:
    assert judge(np.full(40, 4.0), 12)[1] < judge(np.random.default_rng(3).poisson(4, 40).astype(float), 12)[1] / 10


def test_shares_that_are_not_rare_and_other_series_stay_as_they_were() -> None:
    often, share = np.full((10, 2), RARE * 3), np.array([SHARE, SHARE])
    past = to_angle(often / USERS, np.full(often.shape, USERS))
    now = past[0][0], past[1][0]
    as_found = np.array([0.5, 0.7]), np.array([0.1, 0.2])

    limits, p = judge_rare(np.array([True, False]), past, now, share, by_angle=as_found)
    assert (limits.tolist(), p.tolist()) == ([0.5, 0.7], [0.1, 0.2])
