"""Every fault an HTTP source may show ends as a counted reason, in time and in little memory."""

import pytest
import yaml

from memory import with_peak_mb
from monitor.sources.http.pace import PullPace
from servers.lists import as_lists, pull_of
from servers.recommender import BEHAVIOURS

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


pytestmark = pytest.mark.usefixtures("idle_machine")


@pytest.fixture
def idle_machine(monkeypatch):
    """However busy this one is, it takes no blame from a source."""
    monkeypatch.setattr(PullPace, "busy", lambda *_, **__: None)


def test_every_behaviour_of_the_server_is_judged_here():
    assert FAULTS.keys() | HARMLESS.keys() == BEHAVIOURS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_only_its_user(fault, recommender):
    recommender.behaviour["bad"] = fault
    http = {"url": recommender.url, "timeout": "20s"}
    if fault in {"slow", "trickle"}:
        http |= {"timeout": "1s", "retries": 0}

    pull, peak_mb = with_peak_mb(lambda: pull_of("good", "bad", "fine", k=3, http=http))

    assert peak_mb < 64
    assert as_lists(pull) == {"good": ["0", "1", "2"], "fine": ["0", "1", "2"]}
    assert pull.failures == {"bad": FAULTS[fault]}
    assert set(pull.notes) == {FAULTS[fault]}


@pytest.mark.parametrize("behaviour", HARMLESS)
def test_what_is_no_fault_is_a_list(behaviour, recommender):
    recommender.otherwise = behaviour

    pull = pull_of("u", k=3, http={"url": recommender.url})

    assert as_lists(pull) == {"u": HARMLESS[behaviour].split()}
    assert not pull.failures


def test_an_answer_nobody_asked_for_is_never_the_next_users(recommender):
    users = [f"u{number}" for number in range(20)]
    recommender.behaviour.update(dict.fromkeys(users[::2], "two_answers"))
    recommender.lists.update({user: [user] for user in users})

    pull = pull_of(*users, http={"url": recommender.url, "concurrency": 1})

    assert as_lists(pull) == {user: ["1"] if user in users[::2] else [user] for user in users}

    # Nor those of the next source, which may use the connection that this one leaves.
    for user in users[1:6:2]:
        pull_of(users[0], http={"url": recommender.url})
        assert as_lists(pull_of(user, http={"url": recommender.url})) == {user: [user]}


def test_a_source_that_lives_is_never_given_up_for_many_faults(recommender):
    users = [f"u{number:03}" for number in range(100)]
    recommender.behaviour.update(
        {user: "missing" if number % 3 else "server_error" for number, user in enumerate(users)}
    )

    pull = pull_of(*users, "zz", http={"url": recommender.url, "concurrency": 4, "retries": 0})

    assert as_lists(pull).keys() == {"zz"}
    assert recommender.attempts.keys() == {*users, "zz"}


@pytest.mark.parametrize(("behaviour", "attempts"), [("cut", 3), ("missing", 1)])
def test_only_what_may_pass_is_asked_again(behaviour, attempts, recommender):
    recommender.otherwise = behaviour

    pull_of("u", http={"url": recommender.url})

    assert recommender.attempts == {"u": attempts}
