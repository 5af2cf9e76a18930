"""An odd answer for one user fails that user only, whatever is odd: a header, a body, an expression, a cell or a row."""

import asyncio
import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict
from yarl import URL

from monitor.boundary.deadline import BackgroundCall, Deadline
from monitor.boundary.plugins import Guard
from monitor.model.errors import SourceError
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.fetch import fetch
from monitor.sources.http.source import _HttpPull
from servers.lists import as_lists, pull_of, request
from sources.tables import in_csv

GOOD = b'{"items": [{"id": "i1", "score": 0.9}], "outputs": []}'
EXPRESSIONS = """
@
items
items[?score > `0.5`].id
items[?score > `0.5`].id || items[].id
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
DEEP = "[" * 50_000 + "]" * 50_000
PLAIN = r"""
null true 0 -0.0 1e400 -1e400 NaN Infinity 1e-400 "" "i1" "\ud800" "\u0000" "ÿ" {} [] } '
"""
LONG = ("9" * 400, "9" * 5000, '"' + "x" * 2000 + '"', DEEP, '{"a":' * 3000 + "1" + "}" * 3000)
ATOMS = ("", *PLAIN.split(), *LONG)
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


def odd_json(draw, depth=3):
    """A text that is nearly JSON."""
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(ATOMS)
    inner = [odd_json(draw, depth - 1) for _ in range(draw.randrange(4))]
    if draw.random() < 0.5:
        return f"[{','.join(inner)}]"
    names = ("items", "id", "score", "outputs", "name", "data", "shape", "user", "version", "error")
    return "{" + ",".join(f'"{draw.choice(names)}":{each}' for each in inner) + "}"


def answer(body, headers):
    """An answer as aiohttp returns it: its status, headers and body."""

    parts = iter((body, b""))

    async def read_next():
        return next(parts)

    return SimpleNamespace(
        status=200,
        headers=CIMultiDict(headers),
        content_type="application/json",
        content_length=len(body),
        content=SimpleNamespace(readany=read_next),
        close=lambda: None,
    )


async def fetched(given, given_answer):
    session: Any = SimpleNamespace(request=lambda *_, **__: nullcontext(given_answer))
    return await fetch(session, URL("http://127.0.0.1/"), given, {})


def pull_of_answers(options, answers):
    """The pull in which each user gets its answer of these."""

    async def read():
        given = HttpSourceOptions.model_validate({"url": "http://127.0.0.1/{user}", **options})
        pull = _HttpPull(given, request(*answers))
        for user, given_answer in answers.items():
            outcome = await fetched(given, given_answer)
            if isinstance(outcome, tuple):
                outcome = pull._read((user,), *outcome)
            found = outcome if isinstance(outcome, dict) else {user: outcome}
            for read_user, each in found.items():
                pull._add(read_user, each)
        return pull._lists.pull()

    return asyncio.run(read())


def odd_answers(draw, count):
    """Users with odd answers, and one user with a good answer."""
    for number in range(count):
        headers = {name: draw.choice(VALUES) for name in draw.sample(HEADERS, draw.randrange(3))}
        yield f"odd{number}", answer(odd_json(draw).encode("utf-8", "replace"), headers)
    yield "good", answer(GOOD, {})


@pytest.mark.parametrize("count", [600, pytest.param(100_000, marks=pytest.mark.integration)])
def test_odd_answers_over_http_fail_no_other_user(count):
    """Every pull of odd answers has a list or a reason for each user, and the good list."""
    draw = random.Random(count)  # noqa: S311 - no secret
    for expression in EXPRESSIONS:
        given = dict.fromkeys(("items", "scores", "model_version", "error"), expression)
        given["user"] = "user"
        options = {name: given[name] for name in draw.sample(sorted(given), draw.randrange(1, 4))}
        answers = dict(odd_answers(draw, count // len(EXPRESSIONS)))

        pull = pull_of_answers({"model_version_header": "X-Model", **options}, answers)

        assert set(pull.rankings.users) | set(pull.failures) == set(answers), options
    plain = dict(odd_answers(draw, 100))
    assert as_lists(pull_of_answers({"items": "items[].id"}, plain))["good"] == ["i1"]


def test_odd_cells_of_a_file_fail_no_other_user(tmp_path):
    rows = [{"user": f"odd{number}", "items": atom} for number, atom in enumerate(ATOMS)]
    options = in_csv(
        [*rows, {"user": "good", "items": "[1]"}], tmp_path, user="user", items="items"
    )

    users = [row["user"] for row in rows]
    pull = pull_of("good", *users, file=options["file"] | {"max_unreadable": 1})

    assert as_lists(pull)["good"] == ["1"]
    assert pull.failures[users[ATOMS.index(DEEP)]] == "malformed"


def test_an_interrupt_of_a_plugin_fails_its_source_and_ends_the_command_only_in_the_main_thread():
    guard = Guard("plugin of package p", SourceError, permanent=False)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(SourceError, match="failed with KeyboardInterrupt in line"):
        BackgroundCall(lambda: guard.run(interrupt), name="plugin").wait(Deadline.after(60))
    with pytest.raises(KeyboardInterrupt):
        guard.run(interrupt)
