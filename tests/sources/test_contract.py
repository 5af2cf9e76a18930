"""What every Source promises, whatever is behind it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.model import CoverageReason, Pull
from servers.lists import LONG, SOURCES, Lists, as_lists, request

every_source = pytest.mark.parametrize("kind", SOURCES)

ODD_USERS = ["007", "a/b c?d=e&f#g%41", "Zoë 🐙", "O'Brien; DROP TABLE wide", "..x", '{user}"', "null", "NA", "{k}"]


def pulled(kind: str, lists: Lists, folder: Path, *users: str, k: int = 10) -> Pull:
    with SOURCES[kind](lists, folder) as source:
        found: Pull = source.pull(request(*users, k=k))
        source.close()
        return found


@every_source
def test_lists_come_back_best_first(kind: str, tmp_path: Path) -> None:
    lists = {"u1": [5, 3, 9], "u2": [9, 8, 7, 6, 5, 4, 3, 2, 1], "u3": [1]}

    pull = pulled(kind, lists, tmp_path, "u3", "u1", "u2")

    assert as_lists(pull) == {"u1": ["5", "3", "9"], "u2": list("987654321"), "u3": ["1"]}
    assert not pull.failures


@every_source
def test_a_user_who_was_not_asked_for_never_comes_back(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [1], "u2": [2], "u3": [3]}, tmp_path, "u2")

    assert as_lists(pull) == {"u2": ["2"]}


@every_source
def test_a_user_without_a_list_is_missing(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [1]}, tmp_path, "u1", "nobody")

    assert as_lists(pull) == {"u1": ["1"]}
    assert pull.failures.get("nobody", CoverageReason.MISSING) is CoverageReason.MISSING


@pytest.mark.parametrize("kind", sorted(SOURCES.keys() - LONG))
def test_an_empty_list_is_a_list(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [], "u2": [4]}, tmp_path, "u1", "u2")

    assert as_lists(pull) == {"u1": [], "u2": ["4"]}
    assert not pull.failures


@every_source
def test_duplicates_and_short_lists_are_handed_on(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": ["a", "a", "b"], "u2": ["c"]}, tmp_path, "u1", "u2", k=5)

    assert as_lists(pull) == {"u1": ["a", "a", "b"], "u2": ["c"]}


@every_source
def test_ids_are_texts_as_soon_as_one_is(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [1, 2], "u2": ["x", "2"]}, tmp_path, "u1", "u2")

    assert as_lists(pull) == {"u1": ["1", "2"], "u2": ["x", "2"]}
    assert str(pull.rankings.items.dtype) == "str"


@pytest.mark.parametrize(
    "kind", ["parquet wide", "parquet long", "csv wide", "jsonl wide", "jsonl long", "sql table wide", "http"]
)
def test_whole_numbers_stay_numbers(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [1, 2**63 - 1], "u2": [-(2**63)]}, tmp_path, "u1", "u2")

    assert pull.rankings.items.dtype == np.int64
    assert as_lists(pull) == {"u1": ["1", str(2**63 - 1)], "u2": [str(-(2**63))]}


@every_source
def test_odd_user_keys_survive(kind: str, tmp_path: Path) -> None:
    lists = {user: [place] for place, user in enumerate(ODD_USERS)}

    pull = pulled(kind, lists, tmp_path, *ODD_USERS)

    assert as_lists(pull) == {user: [str(place)] for place, user in enumerate(ODD_USERS)}


@every_source
def test_nobody_asked_means_nobody_answered(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {"u1": [1]}, tmp_path)

    assert len(pull.rankings) == 0
    assert not pull.failures


@every_source
def test_a_source_without_a_single_list_leaves_everybody_missing(kind: str, tmp_path: Path) -> None:
    pull = pulled(kind, {}, tmp_path, "u1", "u2")

    assert as_lists(pull) == {}
    assert set(pull.failures.values()) <= {CoverageReason.MISSING}


@every_source
def test_the_table_keeps_its_shape(kind: str, tmp_path: Path) -> None:
    table = pulled(kind, {"u1": [1, 2], "u2": [3]}, tmp_path, "u1", "u2", "u3").rankings

    assert table.users.dtype == "str"
    assert table.users.is_unique
    assert table.offsets.dtype == np.int64
    assert table.offsets.tolist() == [0, *np.cumsum([len(items) for items in [[1, 2], [3]]])]
    assert len(table.items) == table.offsets[-1]


@every_source
def test_several_threads_may_pull_at_once(kind: str, tmp_path: Path) -> None:
    lists = {f"u{number}": [number, number + 1] for number in range(40)}

    with SOURCES[kind](lists, tmp_path) as source, ThreadPoolExecutor(4) as threads:
        pulls = list(threads.map(lambda _: source.pull(request(*lists)), range(8)))
        source.close()
        source.close()

    expected = {user: [str(item) for item in items] for user, items in lists.items()}
    assert [as_lists(pull) for pull in pulls] == [expected] * 8


ids = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=5))
key_texts = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=5).filter(lambda key: key not in (".", ".."))


@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lists=st.dictionaries(key_texts, st.lists(ids, min_size=1, max_size=6), max_size=8), k=st.integers(1, 8))
def test_any_lists_survive_the_way(kind: str, tmp_path: Path, lists: dict[str, list[Any]], k: int) -> None:
    pull = pulled(kind, lists, tmp_path, *lists, k=k)

    assert {user: items[:k] for user, items in as_lists(pull).items()} == {
        user: [str(item) for item in items[:k]] for user, items in lists.items()
    }
    assert not pull.failures
