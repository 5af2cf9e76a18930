"""Every fault an HTTP source may show ends as a counted reason, in time and in little memory."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monitor.model.rankings import CoverageReason
from monitor.sources.http.source import PullPace
from servers.lists import as_lists, request, source_of
from servers.recommender import BEHAVIOURS, Recommender

FAULTS = {
    "slow": CoverageReason.TIMEOUT,
    "trickle": CoverageReason.TIMEOUT,
    "server_error": CoverageReason.SERVER_ERROR,
    "unavailable": CoverageReason.SERVER_ERROR,
    "limited": CoverageReason.RATE_LIMITED,
    "limited_for_hours": CoverageReason.RATE_LIMITED,
    "missing": CoverageReason.MISSING,
    "no_content": CoverageReason.MISSING,
    "forbidden": CoverageReason.HTTP_ERROR,
    "redirect": CoverageReason.HTTP_ERROR,
    "html": CoverageReason.MALFORMED,
    "huge": CoverageReason.TOO_LARGE,
    "huge_declared": CoverageReason.TOO_LARGE,
    "bomb": CoverageReason.TOO_LARGE,
    "bad_gzip": CoverageReason.MALFORMED,
    "cut_gzip": CoverageReason.MALFORMED,
    "unknown_encoding": CoverageReason.MALFORMED,
    "null": CoverageReason.MALFORMED,
    "object": CoverageReason.MALFORMED,
    "text": CoverageReason.MALFORMED,
    "no_body": CoverageReason.MALFORMED,
    "nested": CoverageReason.MALFORMED,
    "deep": CoverageReason.MALFORMED,
    "digits": CoverageReason.MALFORMED,
    "null_item": CoverageReason.MALFORMED,
    "boolean_item": CoverageReason.MALFORMED,
    "nan_item": CoverageReason.MALFORMED,
    "fraction_item": CoverageReason.MALFORMED,
    "surrogate_item": CoverageReason.MALFORMED,
    "nul_item": CoverageReason.MALFORMED,
    "bad_utf8": CoverageReason.MALFORMED,
    "cut": CoverageReason.UNREACHABLE,
    "hang_up": CoverageReason.UNREACHABLE,
    "no_http": CoverageReason.MALFORMED,
    "length_too_long": CoverageReason.UNREACHABLE,
    "length_too_short": CoverageReason.MALFORMED,
    "named": CoverageReason.MALFORMED,
    "wrong_user": CoverageReason.MALFORMED,
}
HARMLESS = {
    "ok": ["0", "1", "2"],
    "gzip": ["0", "1", "2"],
    "chunked": ["0", "1", "2"],
    "mixed": ["1", "2", "3"],
    "duplicates": ["5", "5", "6"],
    "empty": [],
    "short": ["7"],
    "two_answers": ["1"],
    "unavailable_twice": ["0", "1", "2"],
    "limited_once": ["0", "1", "2"],
}


@pytest.fixture(autouse=True)
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this one is, it takes no blame from a source."""
    monkeypatch.setattr(PullPace, "busy", lambda *_, **__: None)


def test_every_behaviour_of_the_server_is_judged_here() -> None:
    assert FAULTS.keys() | HARMLESS.keys() == BEHAVIOURS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_only_its_user(fault: str, recommender: Recommender) -> None:
    recommender.behaviour["bad"] = fault
    hangs = fault in {"slow", "trickle"}
    source = source_of(http={"url": recommender.url, "timeout": "1s" if hangs else "20s", "retries": 0 if hangs else 2})
    started = time.monotonic()

    pull = source.pull(request("good", "bad", "fine", k=3, timeout_s=60))

    assert time.monotonic() - started < 20
    assert as_lists(pull) == {"good": ["0", "1", "2"], "fine": ["0", "1", "2"]}
    assert pull.failures == {"bad": FAULTS[fault]}
    assert pull.notes[FAULTS[fault]]


@pytest.mark.parametrize("behaviour", HARMLESS)
def test_what_is_no_fault_is_a_list(behaviour: str, recommender: Recommender) -> None:
    recommender.otherwise = behaviour

    pull = source_of(http={"url": recommender.url}).pull(request("u", k=3))

    assert as_lists(pull) == {"u": HARMLESS[behaviour]}
    assert not pull.failures


def test_an_answer_nobody_asked_for_is_never_the_next_users(recommender: Recommender) -> None:
    users = [f"u{number}" for number in range(20)]
    recommender.behaviour.update(dict.fromkeys(users[::2], "two_answers"))
    recommender.lists.update({user: [user] for user in users})

    pull = source_of(http={"url": recommender.url, "concurrency": 1}).pull(request(*users))

    assert as_lists(pull) == {user: ["1"] if user in users[::2] else [user] for user in users}

    # Nor those of the next source, which may use the connection that this one leaves.
    for user in users[1::2]:
        source_of(http={"url": recommender.url, "concurrency": 1}).pull(request(users[0]))
        assert as_lists(source_of(http={"url": recommender.url}).pull(request(user))) == {user: [user]}


def test_every_fault_at_once_stays_within_the_deadline(recommender: Recommender) -> None:
    users = [f"{fault}-{copy}" for fault in FAULTS for copy in range(3)]
    recommender.behaviour.update({user: user.rpartition("-")[0] for user in users})
    source = source_of(http={"url": recommender.url, "timeout": "30s"})
    started = time.monotonic()

    pull = source.pull(request(*users, "good", timeout_s=2))

    assert time.monotonic() - started < 20
    assert pull.failures.keys() | as_lists(pull).keys() == {*users, "good"}
    assert as_lists(pull).keys() <= {"good"}


def test_a_source_that_lives_is_never_given_up_for_many_faults(recommender: Recommender) -> None:
    users = [f"u{number:03}" for number in range(300)]
    recommender.behaviour.update({user: "missing" if number % 3 else "server_error" for number, user in enumerate(users)})

    pull = source_of(http={"url": recommender.url, "concurrency": 4, "retries": 0}).pull(request(*users, "zz"))

    assert as_lists(pull).keys() == {"zz"}
    assert recommender.attempts.keys() == {*users, "zz"}


def test_a_name_that_resolves_to_nothing_is_unreachable() -> None:
    pull = source_of(http={"url": "http://no-such-host.invalid/{user}", "retries": 0}).pull(request("u", timeout_s=15))

    assert pull.failures["u"] in (CoverageReason.UNREACHABLE, CoverageReason.TIMEOUT)


def test_the_deadline_leaves_the_rest_as_timeout_and_keeps_what_came(recommender: Recommender) -> None:
    recommender.behaviour.update({"b": "slow", "c": "trickle"})
    source = source_of(http={"url": recommender.url, "concurrency": 3, "timeout": "1m"})
    started = time.monotonic()

    pull = source.pull(request("a", "b", "c", k=2, timeout_s=2))

    assert time.monotonic() - started < 20
    assert as_lists(pull) == {"a": ["0", "1"]}
    assert pull.failures == {"b": CoverageReason.TIMEOUT, "c": CoverageReason.TIMEOUT}


@pytest.mark.parametrize(
    ("behaviour", "attempts", "pause_s"),
    [
        ("limited_once", 2, 1),
        *((each, 3, 0) for each in ("server_error", "cut")),
        *((each, 1, 0) for each in ("missing", "html", "redirect")),
    ],
)
def test_only_what_may_pass_is_asked_again_after_the_pause_that_was_asked_for(
    behaviour: str, attempts: int, pause_s: int, recommender: Recommender
) -> None:
    recommender.otherwise = behaviour
    started = time.monotonic()

    source_of(http={"url": recommender.url}).pull(request("u"))

    assert time.monotonic() - started >= pause_s
    assert recommender.attempts == {"u": attempts}


_MEASURE = """
import json, resource, sys
sys.path.insert(0, "tests")
from servers.lists import request, source_of
source = source_of(http={"url": sys.argv[1], "concurrency": 8, "timeout": "5s"})
source.pull(request(*(f"warm{n}" for n in range(50))))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for fault in sys.argv[2:]:
    pull = source.pull(request(*(f"{fault} {n}" for n in range(40)), timeout_s=20))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([grown < 64 * 1024, sorted(set(pull.failures.values())), len(pull.failures)]))
"""


def test_memory_stays_bounded_whatever_comes(recommender: Recommender) -> None:
    """40 answers of a gigabyte each, 8 at once: the process grows by less than 64 MB."""
    faults = ("huge", "bomb", "huge_declared", "deep")
    recommender.behaviour.update({f"{fault} {number}": fault for fault in faults for number in range(40)})
    command = [sys.executable, "-c", _MEASURE, recommender.url, *faults]

    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=90, check=True)

    assert [json.loads(line) for line in done.stdout.splitlines()] == [[True, [FAULTS[fault]], 40] for fault in faults]
