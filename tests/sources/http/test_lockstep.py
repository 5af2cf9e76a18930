"""The pulls of one run ask for each user at about the same time, in random order, and none at the cost of another."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.model.rankings import Pull
from monitor.sources.http import HttpSourceOptions, lockstep
from monitor.sources.http.lockstep import WINDOW, Companion
from servers.lists import request, source_of
from servers.recommender import running_recommender
from sources.http.test_faults import idle_machine  # noqa: F401 - a fixture
from tables import parsed

USERS = [f"u{number:03}" for number in range(100)]


def pulled(*sources: dict[str, Any], run: str = "run", timeout_s: float = 120) -> list[Pull]:
    """The pulls of a run, side by side, at most four requests at once each."""
    asked = replace(request(*USERS, k=1, timeout_s=timeout_s), together=run)
    opened = [source_of(http={"concurrency": 4} | options) for options in sources]
    with ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(lambda source: source.pull(asked), opened))


def test_users_are_asked_in_an_order_that_is_random_and_the_same_for_all_pulls_of_a_run(
    recommender,
):
    orders = list[list[str]]()
    for run in ("run", "run", "another"):
        recommender.asked.clear()
        pulled({"url": recommender.url, "concurrency": 1}, run=run)
        orders.append([asked.user for asked in recommender.asked])
    assert orders[0] == orders[1] != orders[2] != sorted(orders[2])


@pytest.mark.parametrize("limit", [{}, {"max_rate": 250}, {"max_in_flight": 1}, {"batch": 8}])
def test_no_pull_is_far_ahead_of_another(limit, recommender, monkeypatch):
    begun, may_go = set[Companion](), Companion.may_go

    def may_go_once_all_have_begun(self: Companion) -> bool:
        begun.add(self)
        return len(begun) == 3 and may_go(self)

    monkeypatch.setattr(Companion, "may_go", may_go_once_all_have_begun)
    urls = [f"{recommender.url}&arm={arm}" for arm in range(3)]
    urls[2] = urls[2].replace("{user}", "{users}" if "batch" in limit else "{user}")
    pulled({"url": urls[0]}, {"url": urls[1]}, {"url": urls[2]} | limit)
    counts = [0, 0, 0]
    for each in recommender.asked:  # one server, which so knows in which order all were
        counts[int(each.target[-1])] += len(each.user.split(","))
        assert max(counts) - min(counts) <= WINDOW + 3 * limit.get("batch", 4), counts
    assert counts == [len(USERS)] * 3


@pytest.mark.parametrize(
    ("fault", "reason", "timeout_s", "options"),
    parsed("""
        ["slow", "timeout", 120, {"timeout": "1s", "retries": 0}]
        ["limited_for_hours", "rate_limited", 120, {}]
        ["ok", "too_slow", 6, {"max_rate": 2}]
        ["trickle", "timeout", 6, {"timeout": "60s"}]
    """),
)
@pytest.mark.usefixtures("idle_machine")
def test_an_arm_that_hangs_fails_or_is_limited_costs_another_one_no_user_and_is_blamed_alone(
    fault, reason, timeout_s, options, recommender
):
    recommender.otherwise = fault
    with running_recommender() as well:
        bad, good = pulled(
            {"url": recommender.url, **options}, {"url": well.url}, timeout_s=timeout_s
        )
    assert (len(good.rankings), good.notes) == (len(USERS), {})
    assert set(bad.failures.values()) == {reason}


def companions(*asked: int, users: int = 200) -> list[Companion]:
    """Each has asked for so many."""
    of_run = replace(request(*map(str, range(users)), timeout_s=80), together="run")
    options = HttpSourceOptions.model_validate({"url": "http://a/{user}"})
    return [Companion(of_run, options, map(str, range(count, users)), count) for count in asked]


def test_who_asks_first_is_drawn_however_quick_each_is():
    done, first = Counter[Companion](), Counter[Companion]()

    async def pull(pause: int, companion: Companion) -> None:
        while users := await companion.take():
            companion.mark_requested(users)
            first[companion] += done[companion] == max(done.values(), default=0)
            done[companion] += 1
            for _ in range(pause):
                await asyncio.sleep(0)
        companion.leave()

    async def run() -> None:
        await asyncio.gather(*(pull(*each) for each in enumerate(companions(0, 0, 0, users=5000))))

    asyncio.run(run())
    assert all(1400 < count < 1900 for count in first.values()), first


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(wall=100.0)
    monkeypatch.setattr(lockstep, "time", SimpleNamespace(monotonic=lambda: clock.wall))
    return clock


def test_a_pull_waits_for_others_only_ahead_of_a_pace_that_takes_half_of_its_deadline(clock):
    quick, slow = companions(0, 0)
    reached = list[int]()

    async def ask() -> None:
        slow.mark_requested(await slow.take())
        while quick.may_go() and (users := await quick.take()):
            quick.mark_requested(users)
        reached.append(quick.requested)

    for _ in range(11):
        asyncio.run(ask())
        clock.wall += 4
    slow.leave()
    assert reached[0] <= WINDOW + 1
    assert reached[2:] == [41, 61, 81, 101, 121, 141, 161, 181, 200]


def test_nobody_waits_for_one_that_is_silent_for_longer_than_a_request_may_take_or_has_left(clock):
    quick, other = companions(40, 0)
    assert not quick.may_go()
    clock.wall = 105.0
    assert not quick.may_go()
    clock.wall = 105.1
    assert quick.may_go()
    other.moved_at = clock.wall
    assert not quick.may_go()
    other.leave()
    assert quick.may_go()
