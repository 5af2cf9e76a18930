"""Many users in one request: the request, how answers are matched to users, and broken answers."""

import json
import math
from collections import Counter

import pytest

from monitor.model.model_versions import count_versions
from servers.answering import answering
from servers.lists import as_lists, pull_of
from servers.webhook import answer, running_webhook
from tables import parsed

USERS = tuple(f"u{number}" for number in range(10))
BATCHED = {"method": "POST", "body": {"users": "{users}"}, "batch": 10}
NAMED = {"user": "who", "items": "ids"}


def list_of(user):
    return [f"{user}-{place}" for place in range(3)]


def of_users(users):
    return [{"who": user, "ids": list_of(user)} for user in users]


def by_user(users):
    return {user: list_of(user) for user in users}


LISTS = by_user(USERS)


def ask(respond, *users, path="/", **options):
    """The pull of these users, and the requests to the server."""
    with answering(respond) as server:
        http = {"url": server.url + path, "retries": 0, **options}
        return pull_of(*(users or USERS), http=http), server.requests


def pull_from(respond, **options):
    return ask(respond, **options)[0]


BODIES = parsed("""
    [{"users": "{users}", "k": "{k}"}, {"users": ["a", "b"], "k": 10}]
    [{"instances": [{"user": "{user}", "n": "{k}"}]}, {"instances": [{"user": "a", "n": 10}, {"user": "b", "n": 10}]}]
    [{"inputs": [{"shape": ["{count}"], "data": "{users}"}]}, {"inputs": [{"shape": [2], "data": ["a", "b"]}]}]
    [{"query": "{ recs(of: '{users}', day: {slot:%d}) }"}, {"query": "{ recs(of: 'a,b', day: 08) }"}]
    [{"all": "{users}", "flags": [true, "{k}!", null]}, {"all": ["a", "b"], "flags": [true, "10!", null]}]
""")


@pytest.mark.parametrize("body, posted", BODIES)
def test_a_body_is_posted_for_all_users_of_a_batch(body, posted):
    answer = 200, [list_of("a"), list_of("b")]
    pull, (asked,) = ask(lambda *_: answer, "a", "b", method="POST", batch=64, body=body)
    assert asked.json() == posted
    assert asked.headers["content-type"] == "application/json"
    assert as_lists(pull) == by_user("ab")


def test_users_in_an_address_are_percent_encoded_and_separated_by_commas():
    answer = 200, {"a,b": [1], "é/": [2]}
    pull, (asked,) = ask(lambda *_: answer, "a,b", "é/", path="/recs?of={users}&n={k}", batch=10)
    assert asked.path == "/recs?of=a%2Cb,%C3%A9%2F&n=10"
    assert as_lists(pull) == {"a,b": ["1"], "é/": ["2"]}


@pytest.mark.parametrize(
    "batch, answer, options",
    [
        (1, lambda users: [list_of(user) for user in users], {}),
        (3, lambda users: {"r": of_users(users)}, {"answers": "r", "items": "ids"}),
        (10, lambda users: by_user(reversed(users)), {}),
        (4, lambda users: of_users(["x", *reversed(users), "y"]), NAMED),
    ],
)
def test_answers_are_matched_to_their_users(batch, answer, options):
    given = {**BATCHED, **options, "batch": batch}
    pull, requests = ask(lambda _, body: (200, answer(body["users"])), **given)
    assert as_lists(pull) == LISTS
    assert len(requests) == math.ceil(10 / batch)


@pytest.mark.parametrize(
    "answer, options, failures, told",
    [
        ([list_of(user) for user in USERS[:5]], {}, {"malformed": 10}, "gave 5 answers"),
        (of_users(USERS[:5]), NAMED, {"missing": 5}, "omitted users"),
        ([{}], {"user": "id"}, {"malformed": 10}, "`user` gives (id), in an empty object"),
        (of_users([*USERS, "u0", "u1"]), NAMED, {"duplicate_user": 2}, "twice"),
        (LISTS | {"u0": None}, {}, {"malformed": 1}, "found null"),
        ([1, 2], {"user": "length(who)"}, {"malformed": 10}, "expression"),
    ],
)
def test_a_broken_part_of_an_answer_fails_only_its_users_and_is_reported(
    answer, options, failures, told
):
    pull = pull_from(lambda *_: (200, answer), **BATCHED, **options)
    assert Counter(pull.failures.values()) == failures
    (note,) = pull.notes.values()
    assert told in note
    assert as_lists(pull) == by_user(user for user in USERS if user not in pull.failures)


@pytest.mark.parametrize(
    "too_much", [lambda _: (413, {}), lambda users: (200, [["x" * 2000]] * len(users))]
)
def test_a_batch_that_is_too_large_is_halved_and_requested_again(too_much):
    sizes = []

    def respond(_, body):
        users = body["users"]
        sizes.append(len(users))
        return (200, by_user(users)) if len(users) <= 3 else too_much(users)

    assert as_lists(pull_from(respond, **BATCHED, concurrency=1, max_bytes=2048)) == LISTS
    assert sizes == [10, 5, 2, 2, 2, 2, 2]


def test_the_status_is_the_reason_if_even_one_user_is_too_much():
    pull = pull_from(lambda *_: (413, {}), **BATCHED)
    assert pull.failures == dict.fromkeys(USERS, "http_error")
    assert "413" in pull.notes["http_error"]


MODELS = json.loads('["v13", null, [], "v13", "v13", " v12", null, [], " v12", " v12"]')
"""Of each user's answer: half are by a new model, and two of five name none."""


def test_versions_are_counted_by_each_user_s_answer_else_the_whole_and_odd_ones_are_no_fault():
    answers = {
        user: {"ids": list_of(user), "model": {"version": told}}
        for user, told in zip(USERS, MODELS, strict=True)
    }
    one = {"items": "ids", "model_version": "model.version"}
    for usual, expected in ((None, {"v13": 3, "v12": 3}), (11, {"v13": 3, "v12": 3, "11": 4})):
        whole = {"by": answers, "model": {"version": usual}}
        pull = pull_from(lambda *_, whole=whole: (200, whole), **BATCHED, answers="by", **one)
        assert (as_lists(pull), pull.versions) == (LISTS, expected)
    for version, expected in (("model.version", {"v13": 3, "v12": 3}), ("abs(ids)", {})):
        one["model_version"] = version
        alone = pull_from(lambda path, _: (200, answers[path[1:]]), path="/{user}", **one)
        assert (as_lists(alone), alone.versions) == (LISTS, expected)


def test_a_header_may_name_the_version():
    with running_webhook() as server:
        server.respond = lambda _: answer(200, {"X-Model": "v12"}, b"[1, 2]")
        names = {"model_version_header": "x-model", "model_version": "nothing"}
        pull = pull_of("ann", http={"url": f"{server.url}/{{user}}", **names})
    assert pull.versions == {"v12": 1}


def test_versions_are_cut_and_bounded():
    told = [*["v" * 500] * 20, *(f"v{number}" for number in range(130))]
    versions = count_versions({}, [(version, 1) for version in told])
    assert (versions["v" * 100], versions["(others)"], len(versions)) == (20, 31, 101)
