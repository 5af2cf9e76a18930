"""Pulls share connections, and hold up no process that ends."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

from servers.lists import as_lists, request, source_of
from servers.recommender import Recommender

USERS = [f"u{number}" for number in range(20)]


def test_a_pull_uses_the_connections_that_another_one_leaves(recommender: Recommender) -> None:
    for token in ("one", "two", "three"):
        source = source_of(http={"url": recommender.url, "token": token, "concurrency": 1})
        assert len(as_lists(source.pull(request(*USERS)))) == len(USERS)
    assert recommender.connections < 3
    assert [asked.headers["authorization"] for asked in recommender.asked[:: len(USERS)]] == [
        "Bearer one", "Bearer two", "Bearer three",
    ]  # fmt: skip


def test_pulls_side_by_side_get_each_their_own(recommender: Recommender) -> None:
    recommender.lists.update({user: [user] for user in USERS})
    with ThreadPoolExecutor(8) as threads:
        pulls = list(threads.map(lambda user: source_of(http={"url": recommender.url}).pull(request(user)), USERS))
    assert [as_lists(pull) for pull in pulls] == [{user: [user]} for user in USERS]


def _pull(url: str) -> list[str]:
    return as_lists(source_of(http={"url": url}).pull(request("u", k=1)))["u"]


def test_a_process_of_its_own_ends_by_itself_after_a_pull(recommender: Recommender) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_pull, (recommender.url,)) == ["0"]
        pool.close()
        pool.join()
