"""What all pulls from one host share: connections, limits, pauses, the learned capacity, and whether the host was given up."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from factories import HeldClock
from monitor.boundary.deadline import Deadline
from monitor.model.rankings import CoverageReason
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.hosts import ConcurrencyLimit, Host
from monitor.sources.http.request import RequestFailure
from servers import free_port
from servers.lists import as_lists, pull_of

USERS = [f"u{number}" for number in range(30)]
NOT_ASKED = "so rankwatch did not ask for the other users"
OK = {}
LIMITED = RequestFailure(
    CoverageReason.RATE_LIMITED, "answered 429", is_retried=True, retry_after_s=7200
)


async def asking(host, make, path="", within_s=60, **limits):
    """The outcome of a request to the host, which ``make`` sends."""
    options = HttpSourceOptions.model_validate({"url": "http://recs/{user}"} | limits)
    return await host.ask(make, path, options, Deadline.after(within_s))


def ask(host, outcome=OK, path="", **limits):
    async def answer():
        return outcome

    return asyncio.run(asking(host, answer, path, **limits))


def asked_at(outcomes, **limits):
    """When each of these requests was made, relative to the first, and its outcome."""
    clock, made = HeldClock(), list[float]()

    async def sleep(seconds):
        clock.pass_by(seconds)

    async def make():
        made.append(clock.seconds)
        return outcomes[len(made) - 1]

    host = Host(clock.monotonic, sleep)

    async def run():
        return await asyncio.gather(*(asking(host, make, within_s=1e6, **limits) for _ in outcomes))

    found = asyncio.run(run())
    return [at - made[0] for at in made], found


def test_no_more_requests_are_sent_in_a_second_than_the_rate_allows():
    made, _ = asked_at([OK] * 20, max_rate=4)
    assert made == pytest.approx([number / 4 for number in range(20)])


@pytest.mark.parametrize("asked_for_s, kept_s", [(30.0, 30.0), (1e9, 3600.0)])
def test_no_request_is_sent_to_a_host_before_the_end_of_a_pause_that_it_asked_for(
    asked_for_s, kept_s
):
    limited = replace(LIMITED, retry_after_s=asked_for_s)
    made, outcomes = asked_at([OK, limited, OK, OK], max_in_flight=1)
    assert outcomes == [OK, limited, OK, OK]
    assert made[1] == 0
    assert all(kept_s <= at <= 1.2 * kept_s for at in made[2:])


def test_a_pause_beyond_the_deadline_stops_all_sources_of_the_host_at_once(recommender):
    recommender.otherwise = "limited_for_hours"
    recommender.pull(*USERS, timeout_s=3000, concurrency=1)
    other = recommender.pull(*USERS, timeout_s=3000, url=f"{recommender.url}&model=b")
    assert len(recommender.asked) == 1
    assert other.failures == dict.fromkeys(USERS, "rate_limited")
    told = "asked for a pause of 3,600 s (Retry-After), which ends after the run's deadline"
    assert other.notes["rate_limited"].endswith(told)


def test_an_absurd_pause_stops_its_own_path_only():
    host = Host()
    assert ask(host, replace(LIMITED, retry_after_s=1e18), "odd").note == "answered 429"
    paused = "answered 429 and asked for a pause of 3,600 s"
    assert ask(host, path="odd").note.startswith(paused)
    assert ask(host, path="other") is OK


def pull_at_once(recommender, count, **options):
    """So many pulls at the same time."""
    with ThreadPoolExecutor(count) as threads:
        pulls = [threads.submit(recommender.pull, *USERS, k=1, **options) for _ in range(count)]
    return [pull.result() for pull in pulls]


def test_all_pulls_share_the_limit_of_requests_in_flight_and_each_gets_its_own_answers(recommender):
    recommender.otherwise = "chunked"
    recommender.lists.update({user: [user] for user in USERS})
    pulls = pull_at_once(recommender, 4, concurrency=8, max_in_flight=3)
    assert [as_lists(pull) for pull in pulls] == [{user: [user] for user in USERS}] * 4
    assert recommender.most_at_once <= 3


def test_a_pull_uses_the_connections_of_an_earlier_pull(recommender):
    tokens = ("one", "two", "three")
    for token in tokens:
        recommender.pull(*USERS, token=token, concurrency=1)
    assert recommender.collector.connections < 3
    sent = [asked.headers["authorization"] for asked in recommender.asked]
    assert sent == [f"Bearer {token}" for token in tokens for _ in USERS]


def test_all_sources_of_a_host_share_the_requests_of_a_day(recommender):
    first, second = (
        recommender.pull(*USERS, requests_a_day=40, url=f"{recommender.url}&model={name}")
        for name in "ab"
    )
    assert (len(first.rankings), len(second.rankings), len(recommender.asked)) == (30, 10, 40)
    assert set(second.failures.values()) == {"too_slow"}
    told = "was not asked, because it got 40 requests today (UTC), as many as requests_a_day allows: it is asked again from 20"
    assert told in second.notes["too_slow"]


def test_a_day_of_requests_begins_at_midnight_utc_but_not_if_the_clock_is_set_back():
    clock = HeldClock(datetime(2026, 3, 10, 23, 59, tzinfo=UTC))
    host = Host(now=clock.now)

    def asked(minutes):
        clock.pass_by(60 * minutes)
        return [ask(host, requests_a_day=2) for _ in range(3)]

    before, after, set_back = asked(0), asked(1), asked(-1)
    assert before[:2] == after[:2] == [OK, OK]
    assert "it is asked again from 2026-03-11 00:00 UTC" in before[2].note
    assert [each.note for each in set_back] == [after[2].note] * 3
    assert "it is asked again from 2026-03-12 00:00 UTC" in after[2].note


def test_a_host_that_was_given_up_gets_one_request_at_a_time(recommender):
    recommender.otherwise = "unavailable"
    first = recommender.pull(*USERS, concurrency=8)
    assert first.failures == dict.fromkeys(USERS, "server_error")
    assert len(recommender.attempts) <= 3 * 8
    asked, recommender.most_at_once = len(recommender.asked), 0

    pulls = pull_at_once(recommender, 5, concurrency=8)

    assert recommender.most_at_once == 1
    assert len(recommender.asked) - asked <= 3 * len(pulls)
    for pull in pulls:
        assert pull.failures == first.failures
        assert NOT_ASKED in pull.notes["server_error"]

    recommender.otherwise = "ok"
    pulls = pull_at_once(recommender, 5, concurrency=8)
    assert [len(pull.rankings) for pull in pulls] == [len(USERS)] * 5


def test_a_fault_of_one_address_is_no_fault_of_its_host(recommender):
    recommender.otherwise = "unavailable"
    recommender.pull(*USERS, concurrency=2, retries=0)
    recommender.otherwise, recommender.most_at_once = "chunked", 0
    assert len(recommender.pull(*USERS, url=f"{recommender.url}&b").rankings) == len(USERS)
    assert recommender.most_at_once > 1


def test_a_host_without_connections_is_given_up_early_and_for_all_its_addresses():
    url, users = f"http://127.0.0.1:{free_port()}", [f"u{number}" for number in range(300)]
    for path in "ab":
        pull = pull_of(*users, timeout_s=3000, http={"url": f"{url}/{path}/{{user}}"})
        assert pull.failures == dict.fromkeys(users, "unreachable")
        assert (NOT_ASKED in pull.notes["unreachable"]) is (path == "b")


CAPACITY = 16


def seconds_for(at_once):
    """How long a request takes among this many, on a server that collapses above its capacity."""
    return 0.05 * max(1.0, at_once / CAPACITY) ** 2


def limits_of(knee, answers, seconds, refuses_at=99):
    """The limit at each request to a host. ``seconds`` has the time of this many requests at once."""
    limits = list[int]()
    for _ in range(answers):
        limits.append(at_once := int(knee.limit))
        knee.is_reached = True
        knee.add(0.0, seconds(at_once), is_refused=at_once >= refuses_at)
        knee._since_s = 0.0
    return limits


def test_a_limit_settles_at_the_knee_of_a_server_that_collapses_above_it():
    limits = limits_of(ConcurrencyLimit(), 6000, seconds_for)
    settled = limits[1000:]
    assert 0.8 * CAPACITY <= min(settled) <= max(settled) <= 1.15 * CAPACITY
    assert sum(limit > CAPACITY for limit in settled) < len(settled) / 3
    assert max(limits) < 2 * CAPACITY, "where it refuses"


def test_a_limit_follows_a_server_that_became_slower_and_one_that_refuses():
    limits_of(knee := ConcurrencyLimit(), 2000, seconds_for)
    settled = limits_of(knee, 5000, lambda at_once: 3 * seconds_for(at_once))
    assert min(settled) >= 0.6 * CAPACITY
    assert 0.8 * CAPACITY <= min(settled[1000:]) <= max(settled) <= 1.15 * CAPACITY
    refused = limits_of(knee, 2000, lambda _: 0.01, refuses_at=5)[-500:]
    assert 2 <= min(refused) <= max(refused) <= 5
