"""What every Source promises, whatever is behind it: lists, users, tables, and canonical forms of ids."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.errors import ConfigError, SourceError
from monitor.model.id_forms import speller
from monitor.model.rankings import CoverageReason, Pull
from monitor.sources import SOURCES as KINDS
from monitor.sources import SourceOptions, UsersOptions, open_source, open_users
from monitor.testing import SourceContract
from servers.lists import BY_RING, LONG, SLOT, SOURCES, Given, Lists, as_lists, request, source_of
from sources.tables import KINDS as TABLES
from tables import parsed

PULLED = {kind: each for kind, each in KINDS.items() if each.is_pulled}
every_source = pytest.mark.parametrize("kind", BY_RING)
every_wide_source = pytest.mark.parametrize(
    "kind", [case for case in BY_RING if case.id not in LONG]
)


class TestEveryKind(SourceContract):
    @pytest.fixture(params=BY_RING)
    def serving(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Lists], Any]:
        return lambda lists: SOURCES[request.param](lists, tmp_path)


def pulled(kind: str, lists: Lists, folder: Path, *users: str, k: int = 10) -> Pull:
    with SOURCES[kind](lists, folder) as options:
        pull = source_of(**options).pull(request(*users, k=k))
    assert (str(pull.rankings.users.dtype), str(pull.rankings.offsets.dtype)) == ("str", "int64")
    assert not pull.failures
    return pull


@every_wide_source
def test_an_empty_list_is_a_list_and_whole_numbers_stay_numbers(kind, tmp_path):
    pull = pulled(
        kind, {"u1": [1, 2**63 - 1], "u2": [-(2**63)], "u3": []}, tmp_path, "u1", "u2", "u3"
    )

    assert pull.rankings.items.dtype == np.int64
    assert as_lists(pull) == {"u1": ["1", str(2**63 - 1)], "u2": [str(-(2**63))], "u3": []}


@every_source
def test_without_time_everybody_is_a_timeout_and_the_next_pull_is_not(kind, tmp_path):
    with SOURCES[kind]({"u1": [1]}, tmp_path) as options:
        source = source_of(**options)
        pull, following = source.pull(request("u1", "u2", timeout_s=0)), source.pull(request("u1"))

    assert pull.failures == dict.fromkeys(["u1", "u2"], CoverageReason.TIMEOUT)
    assert len(pull.rankings) == 0
    assert as_lists(following) == {"u1": ["1"]}


def by_slot(options: Given, folder: Path) -> Given:
    """Options with a relative path that the slot completes, where they have a path."""
    ((kind, keys),) = options.items()
    if "path" not in keys:
        return options
    file = Path(keys["path"])
    file.rename(folder / f"2024-01-08-{file.name}")
    return {kind: keys | {"path": f"{{slot:%Y-%m-%d}}-{file.name}"}}


@every_wide_source
def test_more_than_the_limit_is_refused(kind, tmp_path):
    """A kind limits the bytes that a pull keeps, or the rows where each is small."""
    count = 2 if kind.startswith("sql") else 140_000
    with SOURCES[kind]({"u1": list(range(10**6, 10**6 + count)), "u2": [1]}, tmp_path) as options:
        ((name, keys),) = options.items()
        fields = type(SourceOptions.model_validate(options).given).model_fields
        limits = {
            limit: least
            for limit, least in {"max_bytes": 2**20, "max_rows": 1}.items()
            if limit in fields
        }
        source, asked = source_of(**{name: keys | limits}), request("u1", "u2", k=140_000)
        if name in {"http", "redis"}:
            assert source.pull(asked).failures == {"u1": CoverageReason.TOO_LARGE}
        else:
            with pytest.raises(SourceError, match=str(*limits.values())):
                source.pull(asked)


@pytest.mark.parametrize("kind", [case for case in BY_RING if case.id != "redis list long"])
def test_scores_come_when_the_options_say_so(kind, tmp_path):
    with SOURCES[kind]({"u1": [3, 1]}, tmp_path) as options:
        ((name, keys),) = options.items()
        plain = SourceOptions.model_validate(options)
        column = plain.given.items or plain.given.rank  # numbers that may stand as scores
        scored = SourceOptions.model_validate({name: keys | {"scores": column}})

        assert [each.has_scores for each in (plain, scored)] == [False, True]
        assert open_source(plain).pull(request("u1")).rankings.scores is None
        scores = open_source(scored).pull(request("u1")).rankings.scores
    assert scores is not None
    assert scores.tolist() == ([1, 2] if kind in LONG else [3, 1])


@pytest.mark.parametrize(
    "kind", [kind for kind, source in PULLED.items() if source.all_users is not None]
)
def test_a_kind_that_can_list_all_users_does(kind, tmp_path):
    found = []
    for entry in (SOURCES[name] for name in SOURCES if name.split()[0] == kind):
        # A baseline that cannot list its users, such as a query that binds them, is a ConfigError.
        with entry({"u1": [1], "u2": [2]}, tmp_path) as options, suppress(ConfigError):
            every = open_users(UsersOptions(all=True), SourceOptions.model_validate(options))
            found.append(sorted(every.users(SLOT, ()).users))
    assert found
    assert all(users == ["u1", "u2"] for users in found)


READ: dict[str, tuple[dict[str, str], Callable[[Any], object]]] = {
    "users": ({"user": "who"}, lambda source: source.users(SLOT, ()).users.tolist() == ["u1"]),
    "item_weights": (
        {"item": "what", "weight": "many"},
        lambda source: source.weights(SLOT).weights.tolist() == [2],
    ),
    "item_titles": (
        {"item": "what", "title": "who"},
        lambda source: source.titles(SLOT, {"7"}) == {"7": "u1"},
    ),
    "relevance": (
        {"user": "who", "item": "what", "grade": "many"},
        lambda source: (found := source.relevance(SLOT)) and found.grades.tolist() == [2],
    ),
}
"""Of everything else that a kind may read: the columns, and whether the one row is read."""


@pytest.mark.parametrize(
    ("kind", "role"),
    [(kind, role) for kind, each in PULLED.items() for role in READ if getattr(each, role)],
)
def test_all_that_a_kind_declares_is_read_and_its_loss_is_said(kind, role, tmp_path):
    (columns, is_read), reader = READ[role], getattr(KINDS[kind], role)
    options = by_slot(
        TABLES[kind]([{"who": "u1", "what": 7, "many": 2}], tmp_path, **columns), tmp_path
    )[kind]
    source = reader.open(
        reader.options.model_validate(options, context={"base_dir": str(tmp_path)})
    )
    assert is_read(source)

    if kind == "redis":
        TABLES[kind]([], tmp_path, **columns)
    for lose in (lambda path: path.write_bytes(b"rubbish\n" * 100), Path.unlink):
        for file in tmp_path.iterdir():
            lose(file)
        if role == "relevance" and lose is Path.unlink and "path" in options:
            assert source.relevance(SLOT) is None, (
                "a file that is not there has not arrived: raise MissingTableError"
            )
            return
        with pytest.raises(SourceError) as caught:
            is_read(source)
        assert "\n" not in str(caught.value)


FORMS = parsed(r"""
    [["string"], " A1", " A1"]
    [["strip"], "\t a b ", "a b"]
    [["strip"], "  ", "  "]
    [["lower"], "ÄB-1", "äb-1"]
    [["int"], "007", "7"]
    [["int"], "-07.00", "-7"]
    [["int"], "7.5", "7.5"]
    [[{"prefix": "item:"}], "item:item:7", "item:7"]
    [[{"prefix": "item:"}], "item:", "item:"]
    [[{"prefix": "item:"}, "int"], "item:007", "7"]
    [["int", {"prefix": "item:"}], "item:007", "007"]
    [[{"regex": "sku-([0-9]+)(-[a-z]+)?"}], "sku-12-red", "12"]
    [[{"regex": "sku-([0-9]+)"}], "sku-12-red", "sku-12-red"]
    [[{"regex": "sku-([0-9]+)?"}], "sku-", "sku-"]
""")


@pytest.mark.parametrize(("forms", "given", "spelled"), FORMS)
def test_forms_are_applied_in_order_and_one_that_does_not_fit_leaves_the_id(forms, given, spelled):
    assert speller(forms)([given]) == [spelled]


def spelled(given: Given, **forms: Any) -> Any:
    return source_of(**{kind: options | forms for kind, options in given.items()})


@pytest.mark.parametrize("kind", BY_RING)
def test_every_kind_hands_over_lists_as_they_are_spelled_then(kind, tmp_path):
    users = {"user_ids": ["strip", "lower"]} if kind.startswith(("file", "sql table")) else {}
    lists = {" U1" if users else "u1": ["item:007", "ITEM:8", "x"], "u2": ["9"], "u3": ["Item:1"]}
    with SOURCES[kind](lists, tmp_path) as given:
        pull = spelled(given, item_ids=["lower", {"prefix": "item:"}, "int"], **users).pull(
            request("u1", "u2", k=3)
        )

    assert as_lists(pull) == {"u1": ["7", "8", "x"], "u2": ["9"]}
    assert not pull.failures


@pytest.mark.parametrize(
    "kind", [case for case in BY_RING if case.id.startswith(("file", "sql table"))]
)
def test_users_who_become_one_have_no_list_and_a_reason(kind, tmp_path):
    with SOURCES[kind]({"u1": [1], "U1": [2, 3], "u2": [4]}, tmp_path) as given:
        pull = spelled(given, user_ids=["lower"]).pull(request("u1", "u2"))

    assert (as_lists(pull), pull.failures) == ({"u2": ["4"]}, {"u1": CoverageReason.DUPLICATE_USER})


def test_items_that_become_one_are_noted(tmp_path):
    with SOURCES["file jsonl wide"]({"u1": ["a", "A"]}, tmp_path) as given:
        pull = spelled(given, item_ids=["lower"]).pull(request("u1"))

    assert as_lists(pull) == {"u1": ["a", "a"]}
    assert pull.notes[CoverageReason.DUPLICATED].endswith(
        "wide.jsonl.gz: item_ids give the same id to several items"
    )
