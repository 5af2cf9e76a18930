import threading
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import requests

from monitor import compare_many
from monitor.demo.http_servers import serve_app
from monitor.demo.recommenders import (
    BROKEN_COUNTRY,
    DEPTH,
    RecommenderServer,
    TrainedLists,
    cosine_weights,
    ease_weights,
    popular,
    retrain,
    top_items,
)
from monitor.demo.world import World

DAYS = (0, 1, 30)


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


def test_training_twice_on_the_same_day_gives_the_same_lists_in_well_under_a_second(healthy: dict[int, TrainedLists]) -> None:
    start = time.process_time()
    again = retrain(World(), 30, is_broken=False)
    # Both cores' work together; a loaded machine makes this no slower.
    assert time.process_time() - start < 2.0
    assert again.baseline == healthy[30].baseline
    assert again.candidate == healthy[30].candidate


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


def test_the_fault_drops_one_country_below_the_threshold_and_no_other_nor_an_activity(broken: TrainedLists) -> None:
    means = by_country(broken)
    assert means[BROKEN_COUNTRY] < 0.3
    assert (means.drop(BROKEN_COUNTRY) > 0.6).all()
    assert rbo(broken).mean() > 0.5
    assert (rbo(broken) < 0.3).mean() > 0.14
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


Matrix = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def bought() -> Matrix:
    return (np.random.default_rng(5).random((60, 17)) < 0.25).astype(np.float32)


def test_ease_is_a_ridge_regression_of_each_item_on_all_others(bought: Matrix) -> None:
    weights = ease_weights(bought, ridge=3.0)
    for item in range(bought.shape[1]):
        others = np.delete(np.arange(bought.shape[1]), item)
        features = bought[:, others].astype(float)
        # Ridge as ordinary least squares with one more row a feature.
        stacked = np.vstack([features, np.sqrt(3.0) * np.eye(len(others))])
        target = np.concatenate([bought[:, item], np.zeros(len(others))])
        expected = np.linalg.lstsq(stacked, target, rcond=None)[0]
        assert np.allclose(weights[others, item], expected, atol=1e-5)
        assert weights[item, item] == 0.0


def test_cosine_weights_are_the_shrunk_cosine_worked_by_hand() -> None:
    bought = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=np.float32)
    weights = cosine_weights(bought, shrinkage=1.0, neighbours=3)
    first_second = 2 / (np.sqrt(4 * 2) + 1)
    first_third = 1 / (np.sqrt(4 * 1) + 1)
    expected = [[0, first_second, first_third], [first_second, 0, 0], [first_third, 0, 0]]
    assert np.allclose(weights, expected)
    nearest = [[0, first_second, first_third], [first_second, 0, 0], [0, 0, 0]]
    assert np.allclose(cosine_weights(bought, shrinkage=1.0, neighbours=1), nearest)


def test_popular_counts_buyers_and_breaks_ties_by_item() -> None:
    bought = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 0]], dtype=np.float32)
    assert popular(bought, depth=3).tolist() == [2, 3, 0]


def test_top_items_leaves_out_what_the_user_owns_and_falls_back_for_the_new_user() -> None:
    bought = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    weights = np.array([[9, 1, 3, 2], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    fallback = np.array([1, 0], dtype=np.intp)
    assert top_items(bought, weights, fallback=fallback).tolist() == [[2, 3], [1, 0]]


LISTS = {
    "ann": tuple(f"item-{number:03d}" for number in range(20)),
    "bob": tuple(f"item-{number:03d}" for number in range(40, 60)),
}


@pytest.fixture
def arm() -> RecommenderServer:
    return RecommenderServer(LISTS)


@pytest.fixture
def url(arm: RecommenderServer) -> Iterator[str]:
    with serve_app(arm.app()) as url:
        yield url


def ask(url: str, user: str, n: str | None = None) -> requests.Response:
    return requests.get(f"{url}/api/recommend/{user}", params=None if n is None else {"n": n}, timeout=60)


def test_a_user_gets_the_first_n_items_or_ten_as_a_json_list_and_an_unknown_one_is_not_found(url: str) -> None:
    answer = ask(url, "ann", "3")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json() == ["item-000", "item-001", "item-002"]
    assert ask(url, "bob").json() == list(LISTS["bob"][:10])
    assert ask(url, "nobody", "3").status_code == 404


@pytest.mark.parametrize("n", ["0", "-1", "21", "ten", "", "9" * 5000, "²"])
def test_an_n_out_of_range_is_refused(url: str, n: str) -> None:
    answer = ask(url, "ann", n)
    assert answer.status_code == 400
    assert answer.json() == {"error": "n must be a whole number from 1 to 20"}


def test_new_lists_are_served_from_the_moment_they_are_put_in(arm: RecommenderServer, url: str) -> None:
    assert ask(url, "ann", "1").json() == ["item-000"]
    arm.lists = {"ann": ("item-799",)}
    assert ask(url, "ann", "1").json() == ["item-799"]


def test_two_servers_listen_side_by_side_and_stop_with_their_block(arm: RecommenderServer) -> None:
    before = set(threading.enumerate())
    with serve_app(arm.app()) as one, serve_app(RecommenderServer({}).app()) as two:
        assert one != two
        assert ask(one, "ann").status_code == 200
        assert ask(two, "ann").status_code == 404
    assert set(threading.enumerate()) <= before
    with pytest.raises(requests.ConnectionError):
        ask(one, "ann")


def test_a_connection_kept_open_does_not_hold_up_the_end(arm: RecommenderServer) -> None:
    session, before = requests.Session(), set(threading.enumerate())
    with session, serve_app(arm.app()) as url:
        session.get(f"{url}/api/recommend/ann", timeout=5)
    assert set(threading.enumerate()) <= before
