import time

import pandas as pd
import pytest

from monitor import compare_many
from monitor.demo.recommenders import BROKEN_COUNTRY, DEPTH, TrainedLists, retrain
from monitor.demo.world import World

DAYS = (0, 1, 2, 30)


@pytest.fixture(scope="module")
def healthy() -> dict[int, TrainedLists]:
    return {day: retrain(World(), day, is_broken=False) for day in DAYS}


@pytest.fixture(scope="module")
def broken() -> TrainedLists:
    return retrain(World(), 1, is_broken=True)


def rbo(trained: TrainedLists) -> "pd.Series[float]":
    scores = compare_many(
        {user: list(items) for user, items in trained.baseline.items()},
        {user: list(items) for user, items in trained.candidate.items()},
        metrics=["rbo(p=0.9)"],
        k=10,
    )
    return scores.iloc[:, 0]


def by_country(trained: TrainedLists) -> "pd.Series[float]":
    users = trained.history.users
    return rbo(trained).groupby(pd.Series(users.countries, index=users.ids)).mean()


def test_training_twice_on_the_same_day_gives_the_same_lists(healthy: dict[int, TrainedLists]) -> None:
    again = retrain(World(), 2, is_broken=False)
    assert again.baseline == healthy[2].baseline
    assert again.candidate == healthy[2].candidate


def test_lists_are_full_distinct_and_free_of_what_the_user_owns(healthy: dict[int, TrainedLists]) -> None:
    trained = healthy[0]
    for lists in (trained.baseline, trained.candidate):
        assert list(lists) == trained.history.users.ids
        for items, bought in zip(lists.values(), trained.history.bought, strict=True):
            assert len(set(items)) == len(items) == DEPTH
            owned = {f"item-{item:03d}" for item in bought.nonzero()[0]}
            assert owned.isdisjoint(items)


def test_healthy_arms_differ_a_little_and_as_much_from_day_to_day(healthy: dict[int, TrainedLists]) -> None:
    means = pd.Series({day: rbo(trained).mean() for day, trained in healthy.items()})
    assert means.between(0.6, 0.8).all()
    assert means.std() < 0.02


def test_a_healthy_candidate_keeps_every_country_far_from_the_threshold(healthy: dict[int, TrainedLists]) -> None:
    for trained in healthy.values():
        assert (by_country(trained) > 0.6).all()
        assert (rbo(trained) < 0.3).mean() < 0.03


def test_the_fault_drops_one_country_below_the_threshold_and_no_other(broken: TrainedLists) -> None:
    means = by_country(broken)
    assert means[BROKEN_COUNTRY] < 0.3
    assert (means.drop(BROKEN_COUNTRY) > 0.6).all()
    assert rbo(broken).mean() > 0.5
    assert (rbo(broken) < 0.3).mean() > 0.14


def test_the_fault_leaves_every_activity_above_the_threshold(broken: TrainedLists) -> None:
    activity = pd.Series(broken.history.activities, index=broken.history.users.ids)
    assert (rbo(broken).groupby(activity).mean() > 0.5).all()


def test_the_fault_gives_one_country_the_popular_items_and_leaves_the_rest_alone(
    healthy: dict[int, TrainedLists], broken: TrainedLists
) -> None:
    users = broken.history.users
    is_hit = dict(zip(users.ids, users.countries == BROKEN_COUNTRY, strict=True))
    assert broken.baseline == healthy[1].baseline
    assert len({broken.candidate[user] for user in users.ids if is_hit[user]}) == 1
    assert all(broken.candidate[user] == healthy[1].candidate[user] for user in users.ids if not is_hit[user])


def test_a_day_trains_in_well_under_a_second() -> None:
    start = time.process_time()
    retrain(World(), 5, is_broken=False)
    # Both cores' work together; a loaded machine makes this no slower.
    assert time.process_time() - start < 2.0
