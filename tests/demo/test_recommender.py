import threading
from collections.abc import Iterator

import pytest
import requests
from aiohttp import web

from monitor.demo.http_servers import serve
from monitor.demo.recommenders import RecommenderServer

LISTS = {
    "ann": tuple(f"item-{number:03d}" for number in range(20)),
    "bob": tuple(f"item-{number:03d}" for number in range(40, 60)),
}


@pytest.fixture
def arm() -> RecommenderServer:
    return RecommenderServer(LISTS)


@pytest.fixture
def url(arm: RecommenderServer) -> Iterator[str]:
    with serve(arm.app(), name="test") as url:
        yield url


def ask(url: str, user: str, n: str | None = None) -> requests.Response:
    return requests.get(f"{url}/api/recommend/{user}", params=None if n is None else {"n": n}, timeout=5)


def test_a_user_gets_the_first_n_items_as_a_json_list(url: str) -> None:
    answer = ask(url, "ann", "3")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json() == ["item-000", "item-001", "item-002"]


def test_without_n_ten_items_are_given(url: str) -> None:
    assert ask(url, "bob").json() == list(LISTS["bob"][:10])


def test_an_unknown_user_is_not_found(url: str) -> None:
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
    before = threading.active_count()
    with serve(arm.app(), name="one") as one, serve(RecommenderServer({}).app(), name="two") as two:
        assert one != two
        assert ask(one, "ann").status_code == 200
        assert ask(two, "ann").status_code == 404
    assert threading.active_count() == before
    with pytest.raises(requests.ConnectionError):
        ask(one, "ann")


def test_a_connection_kept_open_does_not_hold_up_the_end(arm: RecommenderServer) -> None:
    session = requests.Session()
    with session, serve(arm.app(), name="kept") as url:
        session.get(f"{url}/api/recommend/ann", timeout=5)
        before = threading.active_count()
    assert threading.active_count() == before - 1


def test_an_application_that_cannot_start_says_so_instead_of_hanging() -> None:
    async def fail(_: web.Application) -> None:
        raise OSError(24, "Too many open files")

    app = web.Application()
    app.on_startup.append(fail)
    with pytest.raises(OSError, match="Too many open files"), serve(app, name="broken"):
        pass
