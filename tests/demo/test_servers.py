import json
from collections.abc import Iterator

import pandas as pd
import pytest
import requests

from monitor import compare_many
from monitor.demo.servers import BROKEN_COUNTRY, DEPTH, ItemLists, OnCall, Recommenders, Shop, serve_routes
from monitor.model.rankings import Arm


@pytest.fixture
def recommenders() -> Recommenders:
    return Recommenders(Shop(users=60, items=60))


@pytest.fixture
def on_call() -> OnCall:
    return OnCall()


@pytest.fixture
def url(recommenders: Recommenders, on_call: OnCall) -> Iterator[str]:
    with serve_routes(recommenders.route, on_call.route) as url:
        yield url


def ask(url: str, arm: str, user: str) -> requests.Response:
    return requests.get(f"{url}/{arm}/api/recommend/{user}", timeout=60)


def test_a_user_gets_the_items_of_an_arm_and_who_is_unknown_is_not_found(recommenders: Recommenders, url: str) -> None:
    answer = ask(url, "candidate", "user-00003")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json() == recommenders.lists[Arm.CANDIDATE]["user-00003"]
    assert ask(url, "baseline", "user-00003").json() == recommenders.lists[Arm.BASELINE]["user-00003"]
    assert [ask(url, arm, user).status_code for arm, user in (("baseline", "x"), ("other", "user-00003"))] == [404, 404]


def test_new_lists_are_served_from_the_moment_they_are_trained(recommenders: Recommenders, url: str) -> None:
    before = recommenders.lists
    recommenders.retrain(1, is_broken=True)
    assert recommenders.lists == recommenders.shop.lists(1, is_broken=True)
    answer = ask(url, "candidate", "user-00003").json()
    assert answer == recommenders.lists[Arm.CANDIDATE]["user-00003"] != before[Arm.CANDIDATE]["user-00003"]


def body(status: str, *keys: str) -> bytes:
    labels = {"alertname": "SimilarityLow", "segment": "country=DE"}
    alerts = [{"status": status, "labels": labels, "annotations": {"dedup_key": key}} for key in keys]
    return json.dumps({"alerts": alerts}).encode()


def test_what_on_call_knows_already_is_no_news(on_call: OnCall, url: str) -> None:
    for message in (body("firing", "a"), body("firing", "a"), body("firing", "a", "b"), body("resolved", "a")):
        assert requests.post(f"{url}/on-call/page", data=message, timeout=60).status_code == 204
    assert [alert.status for alert in on_call.received] == ["firing", "firing", "resolved"]
    assert {(alert.alert, alert.segment) for alert in on_call.received} == {("SimilarityLow", "country=DE")}


@pytest.fixture(scope="module")
def shop() -> Shop:
    """As the demo's, but for the number of its users."""
    return Shop(users=600)


def rbo(one: ItemLists, other: ItemLists) -> "pd.Series[float]":
    return compare_many(one, other, metrics=["rbo(p=0.9)"], k=10).iloc[:, 0]


def means(shop: Shop, scores: "pd.Series[float]") -> "pd.Series[float]":
    by = [pd.Series(each, index=shop.ids) for each in (shop.countries, shop.activities)]
    return pd.concat([scores.groupby(each).mean() for each in by])


def test_a_seed_and_a_day_give_their_lists_whatever_was_asked_before() -> None:
    first, again, other = Shop(users=60, items=60), Shop(users=60, items=60), Shop(users=60, items=60, seed=8)
    again.lists(3, is_broken=True)
    lists = first.lists(12, is_broken=False)
    assert again.lists(12, is_broken=False) == lists
    assert lists not in (first.lists(13, is_broken=False), other.lists(12, is_broken=False))


def test_healthy_arms_differ_as_two_good_models_do_in_every_segment_and_more_than_a_model_from_its_next_day(shop: Shop) -> None:
    lists = shop.lists(0, is_broken=False)
    for each in lists.values():
        assert list(each) == shop.ids
        assert all(len(set(items)) == len(items) == DEPTH for items in each.values())
        assert len({item for items in each.values() for item in items}) > 250  # the tail is recommended too
    scores = rbo(lists[Arm.BASELINE], lists[Arm.CANDIDATE])
    assert 0.65 < scores.mean() < 0.71
    assert (means(shop, scores) > 0.6).all()
    assert (scores < 0.3).mean() < 0.03
    tomorrow = shop.lists(1, is_broken=False)
    assert all(0.8 < rbo(lists[arm], tomorrow[arm]).mean() < 0.95 for arm in Arm)


def test_the_fault_gives_one_country_the_popular_items_and_leaves_the_rest_alone(shop: Shop) -> None:
    healthy, broken = (shop.lists(1, is_broken=is_broken) for is_broken in (False, True))
    is_hit = dict(zip(shop.ids, shop.countries == BROKEN_COUNTRY, strict=True))
    assert broken[Arm.BASELINE] == healthy[Arm.BASELINE]
    assert len({tuple(items) for user, items in broken[Arm.CANDIDATE].items() if is_hit[user]}) == 1
    assert all(items == healthy[Arm.CANDIDATE][user] for user, items in broken[Arm.CANDIDATE].items() if not is_hit[user])

    scores = rbo(broken[Arm.BASELINE], broken[Arm.CANDIDATE])
    by_segment = means(shop, scores)
    assert by_segment.pop(BROKEN_COUNTRY) < 0.3
    assert (by_segment > 0.45).all()
    assert (by_segment[["FR", "UK", "US"]] > 0.6).all()
    assert scores.mean() > 0.5
    assert (scores < 0.3).mean() > 0.14
