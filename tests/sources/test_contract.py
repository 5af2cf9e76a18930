"""The contract of every source: lists, users, tables, and canonical forms of ids."""

from pathlib import Path

import pytest

from monitor.model.errors import SourceError
from monitor.model.id_forms import make_speller
from monitor.sources import SOURCES as KINDS
from monitor.testing import SourceContract
from servers.lists import BY_RING, LONG, SLOT, SOURCES, as_lists, request, source_of
from sources.tables import KINDS as TABLES, source_with
from tables import parsed

pytestmark = pytest.mark.usefixtures("own_databases")
PULLED = {kind: each for kind, each in KINDS.items() if each.is_pulled}


class TestEveryKind(SourceContract):
    @pytest.fixture(params=BY_RING)
    def serving(self, request, tmp_path):
        return lambda lists: SOURCES[request.param](lists, tmp_path)


@pytest.mark.parametrize("kind", [case for case in BY_RING if case.id not in LONG])
def test_an_empty_list_is_a_list_and_whole_numbers_stay_numbers(kind, tmp_path):
    lists = {"u1": [1, 2**63 - 1], "u2": [-(2**63)], "u3": []}
    with SOURCES[kind](lists, tmp_path) as options:
        pull = source_of(**options).pull(request("u1", "u2", "u3"))

    columns = pull.rankings.users, pull.rankings.offsets, pull.rankings.items
    assert [str(column.dtype) for column in columns] == ["str", "int64", "int64"]
    assert as_lists(pull) == {user: [*map(str, items)] for user, items in lists.items()}


@pytest.mark.parametrize("kind", BY_RING)
def test_without_time_everybody_is_a_timeout_and_the_next_pull_is_not(kind, tmp_path):
    with SOURCES[kind]({"u1": [1]}, tmp_path) as options:
        source = source_of(**options)
        pull, following = source.pull(request("u1", "u2", timeout_s=0)), source.pull(request("u1"))

    assert pull.failures == dict.fromkeys(["u1", "u2"], "timeout")
    assert (as_lists(pull), as_lists(following)) == ({}, {"u1": ["1"]})


@pytest.mark.parametrize(
    "kind, limits, count",
    [
        ("file parquet wide", {"max_bytes": 2**20}, 140_000),
        ("sql query long", {"max_rows": 2}, 3),
    ],
)
def test_more_than_the_limit_of_a_pull_is_refused(kind, limits, count, tmp_path):
    lists = {"u1": [*range(count)]}
    with (
        SOURCES[kind](lists, tmp_path) as options,
        pytest.raises(SourceError, match=r"more than|at most"),
    ):
        source_with(options, **limits).pull(request("u1", k=count))


READ = {
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
"""For everything else that a kind may read: the columns, and whether the one row is read."""


@pytest.mark.parametrize(
    "kind, role",
    [(kind, role) for kind, each in PULLED.items() for role in READ if getattr(each, role)],
)
def test_all_that_a_kind_declares_is_read_and_its_loss_is_said(kind, role, tmp_path):
    (columns, is_read), reader = READ[role], getattr(KINDS[kind], role)
    folder = tmp_path / f"{SLOT:%Y-%m-%d}"
    folder.mkdir()
    options = TABLES[kind]([{"who": "u1", "what": 7, "many": 2}], folder, **columns)[kind]
    if "path" in options:
        options["path"] = options["path"].replace(folder.name, "{slot:%Y-%m-%d}")
    source = reader.open(reader.options.model_validate(options))
    assert is_read(source)

    if kind == "redis":
        TABLES[kind]([], folder, **columns)
    for lose in (lambda path: path.write_bytes(b"rubbish\n" * 100), Path.unlink):
        for file in folder.iterdir():
            lose(file)
        if role == "relevance" and lose is Path.unlink and "path" in options:
            # A file that is not there has not arrived.
            assert source.relevance(SLOT) is None
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


def test_forms_are_applied_in_order_and_one_that_does_not_fit_leaves_the_id():
    for forms, given, spelled in FORMS:
        assert make_speller(forms)([given]) == [spelled]


@pytest.mark.parametrize("kind", BY_RING)
def test_every_kind_hands_over_lists_as_they_are_spelled_then(kind, tmp_path):
    is_table = kind.startswith(("file", "sql table"))
    forms = {"item_ids": ["lower", {"prefix": "item:"}, "int"]}
    lists = {"u1": ["item:007", "ITEM:7", "x"], "u2": ["9"], "u3": ["Item:1"]}
    if is_table:
        forms["user_ids"] = ["strip", "lower"]
        lists = {" U1": lists["u1"], "u2": ["9"], "two": ["1"], "Two": ["2", "3"]}
    with SOURCES[kind](lists, tmp_path) as given:
        pull = source_with(given, **forms).pull(request("u1", "u2", *["two"] * is_table, k=3))

    assert as_lists(pull) == {"u1": ["7", "7", "x"], "u2": ["9"]}
    assert pull.notes["duplicated"].endswith("item_ids give the same id to several items")
    assert pull.failures == ({"two": "duplicate_user"} if is_table else {})
