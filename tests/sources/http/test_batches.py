"""Many users a request: how they are asked for, how answers are matched to them, and what becomes of broken ones."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from monitor.model.rankings import CoverageReason, Pull
from servers.answering import Respond, answering
from servers.lists import as_lists, request, source_of
from servers.webhook import Reply, Request, answer, serve

USERS = tuple(f"u{number}" for number in range(10))


def list_of(user: str) -> list[str]:
    return [f"{user}-{place}" for place in range(3)]


LISTS = {user: list_of(user) for user in USERS}


def pull_from(respond: Respond, *users: str, path: str = "/", **options: Any) -> Pull:
    with answering(respond) as url:
        return source_of(http={"url": url + path, "retries": 0, **options}).pull(request(*(users or USERS)))


@pytest.mark.parametrize(
    ("body", "posted"),
    [
        ({"users": "{users}", "k": "{k}"}, {"users": ["a", "b"], "k": 10}),
        ({"instances": [{"user": "{user}", "n": "{k}"}]}, {"instances": [{"user": "a", "n": 10}, {"user": "b", "n": 10}]}),
        (
            {"inputs": [{"name": "user", "shape": ["{count}"], "data": "{users}"}]},
            {"inputs": [{"name": "user", "shape": [2], "data": ["a", "b"]}]},
        ),
        ({"query": "{ recs(of: '{users}') }"}, {"query": "{ recs(of: 'a,b') }"}),
    ],
    ids=["users", "instances", "tensor", "text"],
)
def test_a_body_is_posted_for_all_users_of_a_batch(body: Any, posted: Any) -> None:
    seen = []

    def respond(_: str, body: Any) -> tuple[int, object]:
        seen.append(body)
        return 200, [list_of("a"), list_of("b")]

    pull = pull_from(respond, "a", "b", method="POST", batch=64, body=body)
    assert seen == [posted]
    assert as_lists(pull) == {"a": list_of("a"), "b": list_of("b")}


def test_users_stand_in_an_address_with_commas_between_each_percent_encoded() -> None:
    seen = []

    def respond(path: str, _: Any) -> tuple[int, object]:
        seen.append(path)
        return 200, {"a,b": [1], "é/": [2]}

    pull = pull_from(respond, "a,b", "é/", path="/recs?of={users}&n={k}", batch=10)
    assert seen == ["/recs?of=a%2Cb,%C3%A9%2F&n=10"]
    assert as_lists(pull) == {"a,b": ["1"], "é/": ["2"]}


ANSWERS: dict[str, tuple[Callable[[list[str]], object], dict[str, str]]] = {
    "in order": (lambda users: [list_of(user) for user in users], {}),
    "in order, in objects": (lambda users: {"r": [{"ids": list_of(user)} for user in users]}, {"answers": "r", "items": "ids"}),
    "by user": (lambda users: {user: list_of(user) for user in reversed(users)}, {}),
    "in another order, named": (
        lambda users: {"r": [{"who": user, "ids": list_of(user)} for user in reversed(users)]},
        {"answers": "r", "user": "who", "items": "ids"},
    ),
    "with others beside": (
        lambda users: [{"who": user, "ids": list_of(user)} for user in ("x", *users, "y")],
        {"user": "who", "items": "ids"},
    ),
}


@pytest.mark.parametrize("way", ANSWERS)
@pytest.mark.parametrize("batch", [1, 3, 10, 64])
def test_answers_are_matched_to_their_users(way: str, batch: int) -> None:
    sizes = []
    answer, options = ANSWERS[way]

    def respond(_: str, body: Any) -> tuple[int, object]:
        sizes.append(len(body["users"]))
        return 200, answer(body["users"])

    pull = pull_from(respond, method="POST", body={"users": "{users}"}, batch=batch, **options)
    assert as_lists(pull).items() == LISTS.items()
    assert sorted(sizes, reverse=True) == [batch] * (10 // batch) + [10 % batch] * (10 % batch > 0)


def of_users(users: list[str]) -> list[dict[str, object]]:
    return [{"who": user, "ids": list_of(user)} for user in users]


NAMED = {"user": "who", "items": "ids"}
BROKEN: dict[str, tuple[Callable[[list[str]], object], dict[str, str], CoverageReason, str, int]] = {
    "half of it": (lambda users: [list_of(user) for user in users[:5]], {}, CoverageReason.MALFORMED, "gave 5 answers", 10),
    "half of it, named": (lambda users: of_users(users[:5]), NAMED, CoverageReason.MISSING, "left", 5),
    "half of it, by user": (lambda users: {user: list_of(user) for user in users[:5]}, {}, CoverageReason.MISSING, "left", 5),
    "twice": (lambda users: of_users([*users, *users[:2]]), NAMED, CoverageReason.DUPLICATE_USER, "twice", 2),
    "a number": (lambda _: 7, {}, CoverageReason.MALFORMED, "without an array or object", 10),
    "one list that is none": (
        lambda users: [None, *(list_of(user) for user in users[1:])], {}, CoverageReason.MALFORMED, "found null", 1,
    ),
    "names that are none": (lambda _: [{"who": [1]}], NAMED, CoverageReason.MISSING, "left", 10),
    "numbers where objects should be": (lambda _: [1, 2], {"user": "length(who)"}, CoverageReason.MALFORMED, "expression", 10),
}  # fmt: skip


@pytest.mark.parametrize("way", BROKEN)
def test_what_is_broken_in_an_answer_costs_those_users_alone_and_is_told(way: str) -> None:
    answer, options, reason, told, count = BROKEN[way]
    pull = pull_from(
        lambda _, body: (200, answer(body["users"])), method="POST", body={"users": "{users}"}, batch=10, **options
    )
    assert list(pull.failures.values()) == [reason] * count
    assert told in pull.notes[reason]
    assert as_lists(pull).items() == {user: LISTS[user] for user in USERS if user not in pull.failures}.items()


@pytest.mark.parametrize("too_much", ["for the server", "for max_bytes"])
def test_a_batch_that_is_too_large_is_halved_and_asked_for_again(too_much: str) -> None:
    sizes = []

    def respond(_: str, body: Any) -> tuple[int, object]:
        users = body["users"]
        sizes.append(len(users))
        if len(users) <= 3:
            return 200, [list_of(user) for user in users]
        return (413, {}) if too_much == "for the server" else (200, [["x" * 2000]] * len(users))

    pull = pull_from(respond, method="POST", body={"users": "{users}"}, batch=10, concurrency=1, max_bytes=2048)
    assert as_lists(pull).items() == LISTS.items()
    assert sizes == [10, 5, 2, 2, 2, 2, 2]


def test_where_one_user_is_too_much_that_is_the_reason() -> None:
    pull = pull_from(lambda *_: (413, {}), method="POST", body={"users": "{users}"}, batch=4)
    assert pull.failures == dict.fromkeys(USERS, CoverageReason.HTTP_ERROR)
    assert "413" in pull.notes[CoverageReason.HTTP_ERROR]


def test_a_server_that_only_fails_is_given_up_after_few_batches() -> None:
    users, asked = [f"u{number}" for number in range(1000)], []

    def respond(_: str, body: Any) -> tuple[int, object]:
        asked.append(body)
        return 503, {}

    pull = pull_from(respond, *users, method="POST", body={"users": "{users}"}, batch=10, concurrency=2)
    assert pull.failures == dict.fromkeys(users, CoverageReason.SERVER_ERROR)
    assert len(asked) <= 6


def versions(user: str, place: int) -> dict[str, object]:
    """Half of the users are answered by a new model, and one of five by what names none."""
    told: object = None if place % 5 == 1 else [] if place % 5 == 2 else "v13" if place < 5 else " v12"
    return {"ids": list_of(user), "model": {"version": told}}


@pytest.mark.parametrize("usual", [None, 11])
def test_versions_are_counted_by_each_user_s_answer_else_the_whole_and_odd_ones_are_no_fault(usual: int | None) -> None:
    answers = {user: versions(user, place) for place, user in enumerate(USERS)}
    one = {"items": "ids", "model_version": "model.version"}
    batched: dict[str, Any] = {"method": "POST", "body": {"users": "{users}"}, "batch": 4, "answers": "by", **one}
    pull = pull_from(
        lambda _, body: (200, {"by": {u: answers[u] for u in body["users"]}, "model": {"version": usual}}), **batched
    )
    alone = pull_from(lambda path, _: (200, answers[path.strip("/")]), path="/{user}", **one)

    assert as_lists(pull).items() == as_lists(alone).items() == LISTS.items()
    assert alone.versions == {"v13": 3, "v12": 3}
    assert pull.versions == ({"v13": 3, "v12": 3} if usual is None else {"v13": 3, "v12": 3, "11": 4})
    wrong = pull_from(lambda path, _: (200, answers[path.strip("/")]), path="/{user}", **one | {"model_version": "abs(ids)"})
    assert (as_lists(wrong).items(), wrong.versions) == (LISTS.items(), {})


def test_a_header_may_name_the_version_and_what_is_told_is_cut_and_bounded() -> None:
    def reply(asked: Request) -> Reply:
        number = int(asked.path.strip("/"))
        return answer(200, {"X-Model": "v" * 500 if number < 200 else f"v{number}"}, b"[1, 2]")

    with contextmanager(serve)() as server:
        server.respond = reply
        source = source_of(
            http={"url": f"{server.url}/{{user}}", "model_version_header": "x-model", "model_version": "nothing"}
        )
        pull = source.pull(request(*map(str, range(400))))
    assert (pull.versions["v" * 100], len(pull.versions), sum(pull.versions.values())) == (200, 101, 400)
    assert pull.versions["(others)"] in (100, 101)
