import json
from collections.abc import Iterator

import pytest
import requests

from monitor.demo.servers import OnCall, Recommenders, Shop, serve_routes
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
