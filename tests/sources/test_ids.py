"""Canonical forms of ids: what each makes of an id, and that all kinds of source hand over the same."""

from pathlib import Path
from typing import Any

import pytest

from monitor.model.rankings import CoverageReason
from monitor.sources.id_forms import speller
from servers.lists import BY_RING, SOURCES, Given, as_lists, request, source_of
from sources.tables import parsed

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
def test_forms_are_applied_in_order_and_one_that_does_not_fit_leaves_the_id(
    forms: list[str | dict[str, str]], given: str, spelled: str
) -> None:
    assert speller(forms)([given]) == [spelled]


def spelled(given: Given, **forms: Any) -> Any:
    return source_of(**{kind: options | forms for kind, options in given.items()})


@pytest.mark.parametrize("kind", BY_RING)
def test_every_kind_hands_over_lists_as_they_are_spelled_then(kind: str, tmp_path: Path) -> None:
    users = {"user_ids": ["strip", "lower"]} if kind.startswith(("file", "sql table")) else {}
    lists = {" U1" if users else "u1": ["item:007", "ITEM:8", "x"], "u2": ["9"], "u3": ["Item:1"]}
    with SOURCES[kind](lists, tmp_path) as given:
        pull = spelled(given, item_ids=["lower", {"prefix": "item:"}, "int"], **users).pull(request("u1", "u2", k=3))

    assert as_lists(pull) == {"u1": ["7", "8", "x"], "u2": ["9"]}
    assert not pull.failures


@pytest.mark.parametrize("kind", [case for case in BY_RING if case.id.startswith(("file", "sql table"))])
def test_users_who_become_one_have_no_list_and_a_reason(kind: str, tmp_path: Path) -> None:
    with SOURCES[kind]({"u1": [1], "U1": [2, 3], "u2": [4]}, tmp_path) as given:
        pull = spelled(given, user_ids=["lower"]).pull(request("u1", "u2"))

    assert (as_lists(pull), pull.failures) == ({"u2": ["4"]}, {"u1": CoverageReason.DUPLICATE_USER})


def test_items_that_become_one_are_noted(tmp_path: Path) -> None:
    with SOURCES["file jsonl wide"]({"u1": ["a", "A"]}, tmp_path) as given:
        pull = spelled(given, item_ids=["lower"]).pull(request("u1"))

    assert as_lists(pull) == {"u1": ["a", "a"]}
    assert pull.notes[CoverageReason.DUPLICATED].endswith("wide.jsonl.gz: item_ids make one of several items")
