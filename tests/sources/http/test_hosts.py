"""What pulls from one host share: connections, limits, pauses, its capacity as learnt, and that it was given up."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

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
OK: dict[str, Any] = {}
LIMITED = RequestFailure(
    CoverageReason.RATE_LIMITED, "answered 429", is_retried=True, retry_after_s=7200
)


def options_of(**limits):
    return HttpSourceOptions.model_validate({"url": "http://recs/{user}"} | limits)


def asked_at(outcomes, **limits):
    """When each of these requests was made, from the first on, and what became of it."""
    clock, made = HeldClock(), list[float]()

    async def sleep(seconds):
        clock.pass_by(seconds)

    async def make():
        made.append(clock.seconds)
        return outcomes[len(made) - 1]

    host = Host(clock.monotonic, sleep)

    async def run():
        asked = (host.ask(make, "", options_of(**limits), Deadline.after(1e6)) for _ in outcomes)
        return await asyncio.gather(*asked)

    found = asyncio.run(run())
    return [at - made[0] for at in made], found


def test_no_more_are_asked_a_second_than_the_rate():
    made, _ = asked_at([OK] * 20, max_rate=4)
    assert made == pytest.approx([number / 4 for number in range(20)])


@pytest.mark.parametrize(("asked_for_s", "kept_s"), [(30.0, 30.0), (1e9, 3600.0)])
def test_nobody_asks_a_host_that_asked_for_a_pause_before_its_end(asked_for_s, kept_s):
    limited = replace(LIMITED, retry_after_s=asked_for_s)
    made, outcomes = asked_at([OK, limited, OK, OK], max_in_flight=1)
    assert outcomes == [OK, limited, OK, OK]
    assert made[1] == 0
    assert all(kept_s <= at <= 1.2 * kept_s for at in made[2:])


def test_a_pause_beyond_the_deadline_is_the_reason_of_all_sources_of_the_host_at_once(recommender):
    recommender.otherwise = "limited_for_hours"
    pull_of(*USERS, timeout_s=3000, http={"url": recommender.url, "concurrency": 1})
    other = pull_of(*USERS, timeout_s=3000, http={"url": recommender.url + "&model=b"})
    assert len(recommender.asked) == 1
    assert other.failures == dict.fromkeys(USERS, CoverageReason.RATE_LIMITED)
    told = "asked for a pause of 3,600 s (Retry-After), which ends after the run's deadline"
    assert other.notes[CoverageReason.RATE_LIMITED].endswith(told)


def test_a_pause_that_nobody_can_mean_stops_its_own_path_alone():
    host = Host()

    def ask(path, outcome):
        async def answer():
            return outcome

        return asyncio.run(host.ask(answer, path, options_of(), Deadline.after(60)))

    assert ask("odd", replace(LIMITED, retry_after_s=1e18)).note == "answered 429"
    assert ask("odd", OK).note.startswith("answered 429 and asked for a pause of 3,600 s")
    assert ask("other", OK) is OK


def pulls_at_once(*sources):
    with ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(lambda options: pull_of(*USERS, k=1, http=options), sources))


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_are_in_flight_from_all_pulls_together_and_each_gets_its_own(most, recommender):
    recommender.otherwise = "chunked"
    recommender.lists.update({user: [user] for user in USERS})
    pulls = pulls_at_once(*[{"url": recommender.url, "concurrency": 8, "max_in_flight": most}] * 4)
    assert [as_lists(pull) for pull in pulls] == [{user: [user] for user in USERS}] * 4
    assert recommender.most_at_once <= most


def test_a_pull_uses_the_connections_that_another_one_leaves(recommender):
    tokens = ("one", "two", "three")
    for token in tokens:
        pull_of(*USERS, http={"url": recommender.url, "token": token, "concurrency": 1})
    assert recommender.collector.connections < 3
    sent = [asked.headers["authorization"] for asked in recommender.asked]
    assert sent == [f"Bearer {token}" for token in tokens for _ in USERS]


def test_who_waits_for_a_turn_longer_than_the_deadline_is_told_to_raise_limits(recommender):
    pull = pull_of(*USERS, timeout_s=3, http={"url": recommender.url, "max_rate": 0.01})
    assert len(pull.rankings) == 1
    assert set(pull.failures.values()) == {CoverageReason.TOO_SLOW}
    assert "raise deadline or max_rate or max_in_flight" in pull.notes[CoverageReason.TOO_SLOW]


def test_when_the_requests_of_a_day_are_spent_nobody_is_asked_until_midnight_whatever_source_spent_them(
    recommender,
):
    urls = (f"{recommender.url}&model={name}" for name in "ab")
    first, second = (pull_of(*USERS, http={"url": url, "requests_a_day": 40}) for url in urls)
    assert (len(first.rankings), len(second.rankings), len(recommender.asked)) == (30, 10, 40)
    assert set(second.failures.values()) == {CoverageReason.TOO_SLOW}
    told = "was not asked, because it got 40 requests today (UTC), as many as requests_a_day allows: it is asked again from 20"
    assert told in second.notes[CoverageReason.TOO_SLOW]


def test_a_day_of_requests_begins_at_midnight_utc_and_a_clock_that_is_set_back_begins_none():
    clock, options = (
        HeldClock(datetime(2026, 3, 10, 23, 59, tzinfo=UTC)),
        options_of(requests_a_day=2),
    )
    host = Host(now=clock.now)

    async def answer():
        return OK

    def asked(minutes):
        clock.pass_by(60 * minutes)
        return [asyncio.run(host.ask(answer, "", options, Deadline.after(60))) for _ in range(3)]

    before, after, set_back = asked(0), asked(1), asked(-1)
    assert before[:2] == after[:2] == [OK, OK]
    assert "it is asked again from 2026-03-11 00:00 UTC" in before[2].note
    assert [each.note for each in set_back] == [after[2].note] * 3
    assert "it is asked again from 2026-03-12 00:00 UTC" in after[2].note


def test_what_was_given_up_is_tried_by_one_request_at_a_time(recommender):
    recommender.otherwise = "unavailable"
    source = {"url": recommender.url, "concurrency": 8}
    first = pull_of(*USERS, http=source)
    assert first.failures == dict.fromkeys(USERS, CoverageReason.SERVER_ERROR)
    assert len(recommender.attempts) <= 3 * 8
    asked, recommender.most_at_once = len(recommender.asked), 0

    pulls = pulls_at_once(*[source] * 5)

    assert recommender.most_at_once == 1
    assert len(recommender.asked) - asked <= 3 * len(pulls)
    for pull in pulls:
        assert pull.failures == first.failures
        assert NOT_ASKED in pull.notes[CoverageReason.SERVER_ERROR]

    recommender.otherwise = "ok"
    assert [len(pull.rankings) for pull in pulls_at_once(*[source] * 5)] == [len(USERS)] * 5


def test_what_one_address_lacks_is_no_fault_of_its_host(recommender):
    recommender.otherwise = "unavailable"
    pull_of(*USERS, http={"url": recommender.url, "concurrency": 2, "retries": 0})
    recommender.otherwise, recommender.most_at_once = "chunked", 0
    assert len(pull_of(*USERS, http={"url": recommender.url + "&b"}).rankings) == len(USERS)
    assert recommender.most_at_once > 1


def test_a_host_that_takes_no_connections_is_given_up_early_and_for_all_its_addresses():
    url, users = f"http://127.0.0.1:{free_port()}", [f"u{number}" for number in range(300)]
    for path in "ab":
        pull = pull_of(*users, timeout_s=3000, http={"url": f"{url}/{path}/{{user}}"})
        assert pull.failures == dict.fromkeys(users, CoverageReason.UNREACHABLE)
        assert (NOT_ASKED in pull.notes[CoverageReason.UNREACHABLE]) is (path == "b")


CAPACITY = 16


def seconds_for(at_once):
    """How long a request takes among as many on a server that collapses above its capacity."""
    return 0.05 * max(1.0, at_once / CAPACITY) ** 2


def limits_of(knee, answers, seconds, refuses_at=99):
    """Of the moment of each request, where a host answers as many at once in so many seconds."""
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
