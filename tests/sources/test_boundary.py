"""One user's odd answer costs that user's list and nothing else, in any header, body, expression, cell or row."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from multidict import CIMultiDict

from monitor.deadline import BackgroundCall, Deadline
from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.plugins import Guard
from monitor.sources.file import FileUsersOptions
from monitor.sources.file.source import FileUsers
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.source import _HttpPull
from servers.lists import SLOT, as_lists, request, source_of

MALFORMED = CoverageReason.MALFORMED
GOOD = b'{"items": [{"id": "i1", "score": 0.9}], "outputs": []}'
EXPRESSIONS = """
@
items
items[?score > `0.5`].id
ceil(@[0])
ceil(items[0].score)
sort_by(items, &score)[].id
max_by(items, &score)
join(',', items)
sum(items)
to_number(items[0])
map(&id, items)
keys(@)
rows(@)
tensors(outputs)
merge(@, items[0])
items[::0]
""".strip().splitlines()
ATOMS = (
    "null",
    "true",
    "0",
    "-0.0",
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * 400,
    "9" * 5000,
    "1e-400",
    '""',
    '"i1"',
    '"\\ud800"',
    '"\\u0000"',
    '"' + "x" * 2000 + '"',
    '"\xff"',
    "[" * 50_000 + "]" * 50_000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "{}",
    "[]",
    "",
    "}",
    "'",
)
HEADERS = ["X-Request-Id", "Age", "X-Cache", "X-Varnish", "Cache-Status", "Content-Type", "X-Model"]
VALUES = (
    "\udcff",
    "",
    "1" * 5000,
    "²",
    "hit; \udcfe",
    "1 2",
    "text/\udcff; charset=\udcff",
    "-1",
    "nan",
)


def odd_json(draw: random.Random, depth: int = 3) -> str:
    """A text that is nearly JSON."""
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(ATOMS)
    inner = [odd_json(draw, depth - 1) for _ in range(draw.randrange(4))]
    if draw.random() < 0.5:
        return f"[{','.join(inner)}]"
    names = ("items", "id", "score", "outputs", "name", "data", "shape", "user", "version", "error")
    return "{" + ",".join(f'"{draw.choice(names)}":{each}' for each in inner) + "}"


class Answer:
    """What aiohttp hands over of an answer: its status, headers and body."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.status, self.headers, self.content_type = 200, CIMultiDict(headers), "application/json"
        self.content, self.content_length, self._body = self, len(body), body

    async def readany(self) -> bytes:
        """All of the body."""
        return self._body

    def at_eof(self) -> bool:
        """There is no more."""
        return True

    def close(self) -> None:
        """Nothing is open."""


def pull_of_answers(options: dict[str, Any], answers: dict[str, Answer]) -> Pull:
    """The pull in which each user gets such an answer."""

    async def read() -> Pull:
        given = HttpSourceOptions.model_validate({"url": "http://127.0.0.1/{user}", **options})
        pull = _HttpPull(given, request(*answers))
        for user, answer in answers.items():
            outcome = await pull._read((user,), answer)  # type: ignore[arg-type]
            for read_user, found in dict(
                outcome if isinstance(outcome, dict) else {user: outcome}
            ).items():
                pull._add(read_user, found) if hasattr(found, "items") else pull._fail(
                    read_user, found
                )
        return pull._lists.pull()

    return asyncio.run(read())


def odd_answers(draw: random.Random, count: int) -> Iterator[tuple[str, Answer]]:
    """Users with odd answers, and among them one with a good one."""
    for number in range(count):
        headers = {name: draw.choice(VALUES) for name in draw.sample(HEADERS, draw.randrange(3))}
        yield f"odd{number}", Answer(odd_json(draw).encode("utf-8", "replace"), headers)
    yield "good", Answer(GOOD, {})


def check_answers(seed: int, count: int) -> None:
    """Every pull of these odd answers has the good list, and a list or a reason for each user."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    for expression in EXPRESSIONS:
        options = {"items": f"{expression} || items[].id" if draw.random() < 0.5 else expression}
        more = {
            "scores": expression,
            "user": "user",
            "model_version": expression,
            "error": expression,
        }
        options |= (
            {name: more[name] for name in draw.sample(sorted(more), 2)}
            if draw.random() < 0.5
            else {}
        )
        answers = dict(odd_answers(draw, count // len(EXPRESSIONS)))

        pull = pull_of_answers({"model_version_header": "X-Model", **options}, answers)

        assert set(pull.rankings.users) | set(pull.failures) == set(answers), options
    plain = dict(odd_answers(draw, 100))
    assert as_lists(pull_of_answers({"items": "items[].id"}, plain))["good"] == ["i1"]


def test_odd_answers_over_http_cost_nobody_else():
    check_answers(seed=1, count=600)


@pytest.mark.integration  # some seconds of CPU
def test_a_hundred_thousand_odd_answers_cost_nobody_else():
    check_answers(seed=2, count=100_000)


NAMED: dict[str, tuple[dict[str, Any], bytes, dict[str, str], CoverageReason | None]] = {
    "an id of the request in Latin-1": ({}, b"[1]", {"X-Request-Id": "\udcff"}, None),
    "a number beyond floats": ({"items": "ceil(@[0])"}, b"[1e400]", {}, MALFORMED),
    "a score that cannot be ordered": (
        {"items": "sort_by(items, &score)[].id"},
        b'{"items":[{"score":"x"},{"score":1}]}',
        {},
        MALFORMED,
    ),
    "arrays in arrays": ({}, b"[" * 50_000 + b"]" * 50_000, {}, MALFORMED),
}


@pytest.mark.parametrize("case", NAMED)
def test_an_odd_answer_costs_its_user_at_most(case):
    options, body, headers, reason = NAMED[case]

    pull = pull_of_answers(options, {"odd": Answer(body, headers), "next": Answer(body, {})})

    expected = {} if reason is None else {"odd": reason, "next": reason}
    assert pull.failures == expected


def test_odd_cells_of_a_file_cost_nobody_else(tmp_path):
    draw, users = random.Random(3), [f"odd{number}" for number in range(300)]  # noqa: S311 - no secret
    cells = dict.fromkeys(users, "[" * 50_000 + "]" * 50_000)
    cells |= {user: odd_json(draw, 2) for user in users[1:]}
    quoted = {user: cell.replace('"', '""') for user, cell in cells.items()}
    lines = ["user,items", *(f'{user},"{cell}"' for user, cell in quoted.items()), 'good,"[1]"', ""]
    path = tmp_path / "lists.csv"
    path.write_bytes("\n".join(lines).encode("utf-8", "replace"))

    options = {"path": str(path), "user": "user", "items": "items", "max_unreadable": 1}
    pull = source_of(file=options).pull(request(*users, "good"))

    assert as_lists(pull)["good"] == ["1"]
    assert pull.failures["odd0"] is CoverageReason.MALFORMED


def raise_interrupt() -> None:
    """What a plugin may do by mistake."""
    raise KeyboardInterrupt


def test_a_plugin_that_raises_an_interrupt_fails_its_source_and_not_the_process():
    guard = Guard("plugin of package p", SourceError, permanent=False)
    call = BackgroundCall(lambda: guard.run(raise_interrupt), name="plugin")

    with pytest.raises(SourceError, match="failed with KeyboardInterrupt in line"):
        call.wait(Deadline.after(60))


def test_ctrl_c_in_a_plugin_that_the_main_thread_calls_ends_the_command():
    guard = Guard("plugin of package p", SourceError, permanent=False)

    with pytest.raises(KeyboardInterrupt):
        guard.run(raise_interrupt)


def test_an_odd_segment_value_costs_its_user_the_segment_alone(tmp_path):
    path = tmp_path / "users.jsonl"
    rows = [{"user": "good", "country": "UK"}, {"user": "odd", "country": {"code": ["UK"]}}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = {"path": str(path), "user": "user", "max_unreadable": 0.5}

    table = FileUsers(FileUsersOptions.model_validate(file)).users(SLOT, ("country",))

    assert set(table.users) == {"good", "odd"}
    assert table.segments["country"].categories.tolist() == ["UK"]
