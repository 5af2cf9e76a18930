import json
from collections.abc import Iterator

import pytest
import requests

from monitor.demo.servers import BROKEN_COUNTRY, OnCall, Recommenders, Shop, serve_routes
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


def body(status: str, *keys: str) -> bytes:
    labels = {"alertname": "SimilarityLow", "segment": "country=DE"}
    alerts = [{"status": status, "labels": labels, "annotations": {"dedup_key": key}} for key in keys]
    return json.dumps({"alerts": alerts}).encode()


def test_what_on_call_knows_already_is_no_news(on_call: OnCall, url: str) -> None:
    for message in (body("firing", "a"), body("firing", "a"), body("firing", "a", "b"), body("resolved", "a")):
        assert requests.post(f"{url}/on-call/page", data=message, timeout=60).status_code == 204
    assert [alert.status for alert in on_call.received] == ["firing", "firing", "resolved"]
    assert {(alert.alert, alert.segment) for alert in on_call.received} == {("SimilarityLow", "country=DE")}


def test_the_fault_gives_one_country_the_popular_items_and_leaves_the_rest_alone() -> None:
    shop = Shop(users=60, items=60)
    healthy, broken = (shop.lists(1, is_broken=is_broken) for is_broken in (False, True))
    is_hit = dict(zip(shop.ids, shop.countries == BROKEN_COUNTRY, strict=True))
    assert broken[Arm.BASELINE] == healthy[Arm.BASELINE]
    assert len({tuple(items) for user, items in broken[Arm.CANDIDATE].items() if is_hit[user]}) == 1
    assert all(items == healthy[Arm.CANDIDATE][user] for user, items in broken[Arm.CANDIDATE].items() if not is_hit[user])
