"""The pulls of one run ask for the users in one random order, and none at the cost of another."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from servers.lists import request, source_of
from servers.recommender import running_recommender
from sources.http.test_faults import idle_machine  # noqa: F401 - a fixture
from tables import parsed

USERS = [f"u{number:03}" for number in range(100)]


def pulled(*sources, run="run", timeout_s=120):
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
