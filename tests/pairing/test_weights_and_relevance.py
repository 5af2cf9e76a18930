"""Weights and relevance brought to the places of a batch; 42 and "42" name one item here too."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factories import panel, pull
from monitor.metrics import METRICS, Need, parse, score_all
from monitor.model.rankings import ItemWeights, Pairing, Pull, RelevanceTable
from monitor.pairing import ListedItems, keep_lists, pair

NAN = float("nan")
BIG = 2**40


def ids(items: list[Any]) -> Any:
    return np.array(items, dtype=np.int64) if all(isinstance(item, int) for item in items) else pd.array(items, dtype="str")


def weights(known: dict[Any, float]) -> ItemWeights:
    return ItemWeights(items=ids(list(known)), weights=np.array(list(known.values()), dtype=np.float64))


def relevance(known: dict[str, dict[Any, float]]) -> RelevanceTable:
    return RelevanceTable(
        users=pd.Index(list(known), dtype="str"),
        offsets=np.cumsum([0, *map(len, known.values())], dtype=np.int64),
        items=ids([item for graded in known.values() for item in graded]),
        grades=np.array([grade for graded in known.values() for grade in graded.values()], dtype=np.float64),
    )


def spelt(spell: str, *items: int) -> list[Any]:
    return [str(item) for item in items] if spell == "text" else list(items)


def same(found: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(expected, dtype=np.float64), equal_nan=True)


@pytest.mark.parametrize("large", [5, BIG, -5], ids=["own codes", "large", "negative"])
@pytest.mark.parametrize(("baseline", "candidate", "known"), [*itertools.product(("number", "text"), repeat=3)])
def test_each_place_has_the_weight_of_its_item_and_the_grade_of_its_user_and_item(
    baseline: str, candidate: str, known: str, large: int
) -> None:
    table = weights(dict(zip(spelt(known, 42, large, 77), (0.5, 2.0, 9.0), strict=True)))
    graded = relevance(
        {"b": dict.fromkeys(spelt(known, 42), 3.0), "a": dict(zip(spelt(known, 9, large), (1.0, 2.0), strict=True))}
    )
    arms = (
        pull({"a": spelt(baseline, 42, large), "b": spelt(baseline, 1)}),
        pull({"b": spelt(candidate, 42), "a": spelt(candidate, large, 3)}),
    )

    batch = pair(panel("a", "b", "c"), *arms, 3, item_weights=table, relevance=graded).batch

    assert batch.weights is not None
    assert same(batch.weights.baseline, [[0.5, 2.0, NAN], [NAN] * 3])
    assert same(batch.weights.candidate, [[2.0, NAN, NAN], [0.5, NAN, NAN]])
    assert batch.labels is not None
    assert same(batch.labels.grades.baseline, [[0, 2, 0], [0] * 3])
    assert same(batch.labels.grades.candidate, [[2, 0, 0], [3, 0, 0]])
    assert same(batch.labels.ideal, [[2, 1, 0], [3, 0, 0]])
    assert batch.labels.relevant.tolist() == [2, 1]


def test_nothing_is_known_unless_it_is_given() -> None:
    batch = pair(panel("a"), pull({"a": [1]}), pull({"a": [1]}), 1).batch

    assert batch.weights is None
    assert batch.labels is None


def test_a_user_whom_nobody_graded_has_nothing_relevant() -> None:
    labels = pair(panel("a"), pull({"a": [1]}), pull({"a": [1]}), 1, relevance=relevance({"z": {1: 1.0}})).batch.labels

    assert labels is not None
    assert labels.relevant.tolist() == [0]


def listed(*pairings: Pairing) -> ListedItems:
    found = ListedItems()
    for each in pairings:
        found.add(each)
    return found


def test_the_note_counts_items_and_users_without_a_weight() -> None:
    baseline, candidate = pull({"a": [1, 2], "b": [1], "c": [9]}), pull({"a": [3, 1], "b": [1, 3], "c": [9]})
    some, every = weights({1: 1.0, 9: 1.0}), weights({1: 1.0, 9: 1.0, 2: 1.0, 3: 2.0})

    whole = listed(pair(panel("a", "b", "c"), baseline, candidate, 2, item_weights=some))
    parts = listed(*(pair(panel(user), baseline, candidate, 2, item_weights=some) for user in "abc"))

    assert whole.unweighted_note == parts.unweighted_note
    assert whole.unweighted_note == (
        "item_weights: 2 of 4 listed items have no weight, so 2 of 3 users are left out where weights are needed"
    )
    assert listed(pair(panel("a", "b", "c"), baseline, candidate, 2, item_weights=every)).unweighted_note is None
    assert listed(pair(panel("a", "b", "c"), baseline, candidate, 2)).unweighted_note is None


@pytest.mark.parametrize("spell", [lambda code: code, lambda code: f"item-{code}", lambda code: code - 2**40])
def test_distinct_items_are_counted_over_any_number_of_batches(spell: Callable[[int], Any]) -> None:
    users = [f"u{number:02}" for number in range(50)]
    lists = {user: [spell(place % 7), spell(place)] for place, user in enumerate(users)}
    others = {user: [spell(place + 3)] for place, user in enumerate(users)}

    parts = listed(*(pair(panel(user), pull({user: lists[user]}), pull({user: others[user]}), 2) for user in users))

    assert parts.count == listed(pair(panel(*users), pull(lists), pull(others), 2)).count == 53


@pytest.mark.parametrize("name", [name for name, kind in METRICS.items() if kind.need is Need.ITEM_WEIGHTS])
def test_a_user_whose_items_lack_a_weight_has_no_weighted_score(name: str) -> None:
    baseline = pull({"a": [1, 2, 3], "b": [1, 4, 3]})
    candidate = pull({"a": [2, 1, 3], "b": [4, 1, 3]})
    batch = pair(panel("a", "b"), baseline, candidate, 3, item_weights=weights({1: 1.0, 2: 2.0, 3: 1.0})).batch

    (scores,) = score_all(batch, [parse(name)]).values()

    assert np.isfinite(scores[0])
    assert np.isnan(scores[1])


def unkept(pairing: Pairing) -> list[Any]:
    return [np.asarray(part) for part in (pairing.batch.baseline, pairing.batch.candidate)]


@pytest.mark.parametrize("items", [[[1, 2], [3]], [[BIG, 2], [3]], [["x", "2"], ["3"]]], ids=["own", "numbers", "texts"])
def test_lists_that_were_kept_pair_again_as_they_did(items: list[list[Any]]) -> None:
    segments = {"all": np.arange(2), "x=y": np.array([1])}
    first = pair(panel("a", "n", "b"), pull({"a": items[0], "b": items[1]}), pull({"b": items[0], "a": items[1]}), 3)

    kept = keep_lists(first, panel("a", "n", "b").users[first.panel_rows], segments)
    again = pair(kept.panel, Pull(rankings=kept.baseline, failures={}), Pull(rankings=kept.candidate, failures={}), 3)

    assert kept.baseline.users.tolist() == ["a", "b"]
    assert again.panel_rows.tolist() == [0, 1]
    assert again.coverage.rows[1].paired == 1
    assert kept.baseline.scores is None
    spell = {str(item) for row in items for item in row}
    assert {str(item) for item in kept.baseline.items} == spell
    for left, right in zip(unkept(first), unkept(again), strict=True):
        assert ((left < 0) == (right < 0)).all()
