"""Every fault of an HTTP source is counted with a reason, in time and in little memory."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import yaml

from memory import with_peak_mb
from monitor.sources.http.pace import PullPace
from servers.lists import as_lists, request, source_of
from servers.recommender import BEHAVIOURS, running_recommender
from tables import parsed

BY_REASON = yaml.safe_load("""
timeout: slow trickle
server_error: server_error unavailable
rate_limited: limited limited_for_hours
missing: missing no_content
http_error: forbidden redirect accepted partial
too_large: huge huge_declared bomb
unreachable: cut hang_up
malformed: html bad_gzip cut_gzip unknown_encoding null object text no_body nested deep digits null_item
  boolean_item nan_item fraction_item surrogate_item nul_item bad_utf8 no_http length_too_short named wrong_user
""")
FAULTS = {fault: reason for reason, faults in BY_REASON.items() for fault in faults.split()}
HARMLESS = yaml.safe_load("""
ok: 0 1 2
cached: 0 1 2
cached_for_all: 0 1 2
gzip: 0 1 2
json_in_text: 1 2 3
raw_deflate: 1 2 3
deflate: 1 2 3
two_gzips: 1 2 3
chunked: 0 1 2
mixed: 1 2 3
created: 1 2 3
duplicates: 5 5 6
empty: ""
short: "7"
two_answers: "1"
unavailable_twice: 0 1 2
limited_once: 0 1 2
""")


USERS = [f"u{number:03}" for number in range(100)]

pytestmark = pytest.mark.usefixtures("idle_machine")


@pytest.fixture
def idle_machine(monkeypatch):
    """The machine is never too busy, so every timeout is the fault of the source."""
    monkeypatch.setattr(PullPace, "busy", lambda *_, **__: None)


def test_every_behaviour_of_the_server_has_an_expectation_here():
    assert FAULTS.keys() | HARMLESS.keys() == BEHAVIOURS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_only_its_user(fault, recommender):
    recommender.behaviour["bad"] = fault
    options: Any = {"timeout": "20s"}
    if fault in {"slow", "trickle"}:
        options = {"timeout": "1s", "retries": 0}

    pull, peak_mb = with_peak_mb(lambda: recommender.pull("good", "bad", "fine", k=3, **options))

    assert peak_mb < 64
    assert as_lists(pull) == {"good": ["0", "1", "2"], "fine": ["0", "1", "2"]}
    assert pull.failures == {"bad": FAULTS[fault]}
    assert set(pull.notes) == {FAULTS[fault]}


@pytest.mark.parametrize("behaviour", HARMLESS)
def test_a_harmless_behaviour_gives_a_list(behaviour, recommender):
    recommender.otherwise = behaviour

    pull = recommender.pull("u", k=3)

    assert as_lists(pull) == {"u": HARMLESS[behaviour].split()}
    assert not pull.failures


def test_an_answer_without_a_request_is_never_the_answer_of_the_next_user(recommender):
    users = [f"u{number}" for number in range(20)]
    recommender.behaviour.update(dict.fromkeys(users[::2], "two_answers"))
    recommender.lists.update({user: [user] for user in users})

    pull = recommender.pull(*users, concurrency=1)

    assert as_lists(pull) == {user: ["1"] if user in users[::2] else [user] for user in users}

    # It is no answer of the next source either, which may use the same connection.
    for user in users[1:6:2]:
        recommender.pull(users[0])
        assert as_lists(recommender.pull(user)) == {user: [user]}


def test_a_source_that_answers_is_not_given_up_for_many_faults(recommender):
    recommender.behaviour.update(dict.fromkeys(USERS, "missing"))
    recommender.behaviour.update(dict.fromkeys(USERS[::3], "server_error"))

    assert as_lists(recommender.pull(*USERS, "zz", concurrency=4, retries=0)).keys() == {"zz"}
    assert recommender.attempts.keys() == {*USERS, "zz"}


@pytest.mark.parametrize("behaviour, attempts", [("hang_up", 3), ("missing", 1)])
def test_only_faults_that_may_pass_are_retried(behaviour, attempts, recommender):
    recommender.otherwise = behaviour

    recommender.pull("u")

    assert recommender.attempts == {"u": attempts}


def pulled(*sources, run="run", timeout_s=120):
    """The pulls of a run at the same time, each with at most four requests at once."""
    asked = replace(request(*USERS, k=1, timeout_s=timeout_s), together=run)
    opened = [source_of(http={"concurrency": 4} | options) for options in sources]
    with ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(lambda source: source.pull(asked), opened))


def test_all_pulls_of_a_run_request_the_users_in_the_same_random_order(recommender):
    orders = list[list[str]]()
    for run in ("run", "run", "another"):
        recommender.asked.clear()
        pulled({"url": recommender.url, "concurrency": 1}, run=run)
        orders.append([asked.user for asked in recommender.asked])
    assert orders[0] == orders[1] != orders[2] != sorted(orders[2])


@pytest.mark.parametrize(
    "fault, reason, told, timeout_s, options",
    parsed("""
        ["slow", "timeout", "", 120, {"timeout": "1s", "retries": 0}]
        ["limited_for_hours", "rate_limited", "", 120, {}]
        ["ok", "too_slow", "raise deadline or max_rate or max_in_flight", 6, {"max_rate": 2}]
        ["trickle", "timeout", "", 6, {"timeout": "60s"}]
    """),
)
def test_an_arm_that_hangs_or_fails_or_is_limited_fails_no_user_of_the_other_arm(
    fault, reason, told, timeout_s, options, recommender
):
    recommender.otherwise = fault
    with running_recommender() as well:
        bad, good = pulled(
            {"url": recommender.url, **options}, {"url": well.url}, timeout_s=timeout_s
        )
    assert (len(good.rankings), good.notes) == (len(USERS), {})
    assert set(bad.failures.values()) == {reason}
    assert told in bad.notes[reason]
