"""Pairs of both arms' lists, with scores, weights and relevance at the places of their items; 42 and "42" name one item."""

import itertools
import string
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import panel, pull
from monitor.metrics import METRICS, Need, parse, score_all
from monitor.model.rankings import (
    Arm,
    ByArm,
    CoverageReason,
    ItemWeights,
    Pairing,
    Pull,
    RelevanceTable,
)
from monitor.pairing import ListedItems, keep_lists, pair
from monitor.pairing.ids import decode

B, C = Arm.BASELINE, Arm.CANDIDATE
Lists = dict[str, list[Any]]


def paired(
    users: str, baseline: Lists | Pull, candidate: Lists | Pull, k: int, **known: Any
) -> Pairing:
    """Users named by one letter each."""
    pulls = [pull(lists) if isinstance(lists, dict) else lists for lists in (baseline, candidate)]
    return pair(panel(*users), pulls[0], pulls[1], k, **known)


def lists_of(pairing: Pairing) -> list[tuple[str, str]]:
    """The ids of both lists of each user, as one text each."""
    arms = [
        [" ".join(decode(row, pairing.vocabulary)) for row in arm]
        for arm in (pairing.batch.baseline, pairing.batch.candidate)
    ]
    return list(zip(*arms, strict=True))


def test_users_are_matched_by_name_in_the_panels_order():
    found = paired("ab", {"b": [1, 2], "a": [3, 4], "z": [2]}, {"a": [4, 3], "b": [2, 1]}, 2)
    assert lists_of(found) == [("3 4", "4 3"), ("1 2", "2 1")]
    assert list(found.panel_rows) == [0, 1]
    assert found.coverage.all.paired == 2
    assert found.coverage.all.users_by_reason == {}


def test_lists_are_cut_to_k_before_duplicates_are_dropped():
    found = paired("a", {"a": [1, 1, 2, 3]}, {"a": [1, 2, 3, 4]}, 3)
    assert lists_of(found) == [("1 2", "1 2 3")]
    assert found.coverage.all.users_by_reason == {
        (B, CoverageReason.SHORT): 1,
        (B, CoverageReason.DUPLICATED): 1,
    }


def test_every_user_who_cannot_be_compared_is_counted_under_arm_and_reason():
    baseline = pull({"a": [1], "b": [1], "c": [1], "d": []})
    candidate = pull(
        {"a": [1], "b": []}, {"c": CoverageReason.TIMEOUT, "z": CoverageReason.TIMEOUT}
    )
    found = pair(panel(*"abcde", left=[0, 1], right=[2, 3, 4]), baseline, candidate, k=1)
    rows = {row.segment: row for row in found.coverage.rows}
    assert {name: (row.asked, row.paired) for name, row in rows.items()} == {
        "all": (5, 1),
        "left": (2, 1),
        "right": (3, 0),
    }
    assert rows["all"].users_by_reason == {
        (B, CoverageReason.MISSING): 1,
        (B, CoverageReason.EMPTY): 1,
        (C, CoverageReason.EMPTY): 1,
        (C, CoverageReason.TIMEOUT): 1,
        (C, CoverageReason.MISSING): 2,
    }
    assert rows["right"].users_by_reason[C, CoverageReason.MISSING] == 2


def test_flaws_of_lists_that_are_not_compared_are_not_counted_as_short():
    found = paired("a", {"a": []}, {"a": [1, 2]}, 2)
    assert found.coverage.all.users_by_reason == {(B, CoverageReason.EMPTY): 1}


def test_numbers_and_their_text_name_the_same_item_across_arms():
    found = paired("a", {"a": [42, 7]}, {"a": ["7", "x"]}, 2)
    assert lists_of(found) == [("42 7", "7 x")]
    assert found.batch.baseline[0, 1] == found.batch.candidate[0, 0]


def test_when_nobody_answers_nothing_is_paired_and_nothing_breaks():
    found = paired("ab", {}, {}, 3)
    assert len(found.batch) == 0
    assert found.coverage.all.users_by_reason == {
        (B, CoverageReason.MISSING): 2,
        (C, CoverageReason.MISSING): 2,
    }


NAN = float("nan")


def scored(lists: dict[str, tuple[list[Any], list[float]]]) -> Pull:
    plain = pull({user: items for user, (items, _) in lists.items()})
    scores = np.array([score for _, scores in lists.values() for score in scores], dtype=np.float64)
    return replace(plain, rankings=replace(plain.rankings, scores=scores))


def assert_places(
    found: ByArm | None, baseline: list[list[float]], candidate: list[list[float]]
) -> None:
    """The figures of both arms at the places of the items."""
    assert found is not None
    np.testing.assert_array_equal(found.baseline, baseline)
    np.testing.assert_array_equal(found.candidate, candidate)


def test_scores_stand_at_the_places_of_their_items_in_the_panels_order():
    baseline = scored({"b": ([1, 2], [0.9, 0.8]), "a": ([3], [0.7])})
    candidate = scored({"a": ([3, 4], [5.0, 4.0]), "b": ([2, 1], [1.0, NAN])})

    scores = paired("ab", baseline, candidate, 2).batch.scores

    assert_places(scores, [[0.7, NAN], [0.9, 0.8]], [[5.0, 4.0], [1.0, NAN]])


def test_an_arm_that_tells_none_has_nan_where_the_other_tells_them():
    scores = paired("a", {"a": [1, 2]}, scored({"a": ([1, 2], [2.0, 1.0])}), 2).batch.scores

    assert_places(scores, [[NAN, NAN]], [[2.0, 1.0]])


def test_a_metric_that_needs_scores_can_be_asked_when_an_arm_gave_no_list_at_all():
    away = pull({}, {"a": CoverageReason.UNAVAILABLE})
    for baseline, candidate in (
        (away, away),
        (away, scored({"a": ([1], [1.0])})),
        (scored({"a": ([], [])}), away),
    ):
        batch = paired("a", baseline, candidate, 2).batch
        assert len(batch) == 0
        assert len(score_all(batch, [parse("rbo_w")])["rbo_w(p=0.9)"]) == 0


def test_tied_neighbours_stand_in_the_order_of_their_ids_as_text():
    baseline = scored({"a": ([7, 9, 10, 100, 2, 1], [3.0, 2.0, 2.0, 2.0, 1.0, 1.0])})
    candidate = scored({"a": (["x", "b", "9", "10"], [1.0, 1.0, 0.5, 0.5])})

    pairing = paired("a", baseline, candidate, 6)

    assert lists_of(pairing) == [("7 10 100 9 1 2", "b x 10 9")]
    assert_places(
        pairing.batch.scores, [[3.0, 2.0, 2.0, 2.0, 1.0, 1.0]], [[1.0, 1.0, 0.5, 0.5, NAN, NAN]]
    )


BIG = 2**40


def ids(items: list[Any]) -> Any:
    return (
        np.array(items, dtype=np.int64)
        if all(isinstance(item, int) for item in items)
        else pd.array(items, dtype="str")
    )


def weights(known: dict[Any, float]) -> ItemWeights:
    return ItemWeights(
        items=ids(list(known)), weights=np.array(list(known.values()), dtype=np.float64)
    )


def relevance(known: dict[str, dict[Any, float]]) -> RelevanceTable:
    return RelevanceTable(
        users=pd.Index(list(known), dtype="str"),
        offsets=np.cumsum([0, *map(len, known.values())], dtype=np.int64),
        items=ids([item for graded in known.values() for item in graded]),
        grades=np.array(
            [grade for graded in known.values() for grade in graded.values()], dtype=np.float64
        ),
    )


def spelt(spell: str, *items: int) -> list[Any]:
    return [str(item) for item in items] if spell == "text" else list(items)


@pytest.mark.parametrize("large", [5, BIG, -5], ids=["own codes", "large", "negative"])
@pytest.mark.parametrize(
    ("baseline", "candidate", "known"), [*itertools.product(("number", "text"), repeat=3)]
)
def test_each_place_has_the_weight_of_its_item_and_the_grade_of_its_user_and_item(
    baseline, candidate, known, large
):
    table = weights(dict(zip(spelt(known, 42, large, 77), (0.5, 2.0, 9.0), strict=True)))
    of_a = dict(zip(spelt(known, 9, large), (1.0, 2.0), strict=True))
    graded = relevance({"b": dict.fromkeys(spelt(known, 42), 3.0), "a": of_a})
    ours = {"a": spelt(baseline, 42, large), "b": spelt(baseline, 1)}
    theirs = {"b": spelt(candidate, 42), "a": spelt(candidate, large, 3)}

    batch = paired("abc", ours, theirs, 3, item_weights=table, relevance=graded).batch

    assert_places(batch.weights, [[0.5, 2.0, NAN], [NAN] * 3], [[2.0, NAN, NAN], [0.5, NAN, NAN]])
    assert batch.labels is not None
    assert_places(batch.labels.grades, [[0, 2, 0], [0] * 3], [[2, 0, 0], [3, 0, 0]])
    assert batch.labels.ideal.tolist() == [[2, 1, 0], [3, 0, 0]]
    assert batch.labels.relevant.tolist() == [2, 1]


def test_nothing_is_known_unless_it_is_given():
    batch = paired("a", {"a": [1]}, {"a": [1]}, 1).batch

    assert (batch.scores, batch.weights, batch.labels) == (None, None, None)


def test_a_user_whom_nobody_graded_has_nothing_relevant():
    labels = paired(
        "a", {"a": [1]}, {"a": [1]}, 1, relevance=relevance({"z": {1: 1.0}})
    ).batch.labels

    assert labels is not None
    assert labels.relevant.tolist() == [0]


def listed_items(*pairings: Pairing) -> ListedItems:
    found = ListedItems()
    for each in pairings:
        found.add(each)
    return found


def test_the_note_counts_items_and_users_without_a_weight():
    arms = pull({"a": [1, 2], "b": [1], "c": [9]}), pull({"a": [3, 1], "b": [1, 3], "c": [9]})
    some, every = weights({1: 1.0, 9: 1.0}), weights({1: 1.0, 9: 1.0, 2: 1.0, 3: 2.0})

    whole = listed_items(paired("abc", *arms, 2, item_weights=some))
    parts = listed_items(*(paired(user, *arms, 2, item_weights=some) for user in "abc"))

    assert whole.unweighted_note == parts.unweighted_note
    assert whole.unweighted_note == (
        "item_weights: 2 of 4 listed items have no weight, so metrics that need weights "
        "leave out 2 of 3 users: give every listed item a weight"
    )
    assert listed_items(paired("abc", *arms, 2, item_weights=every)).unweighted_note is None
    assert listed_items(paired("abc", *arms, 2)).unweighted_note is None


@pytest.mark.parametrize(
    "spell", [lambda code: code, lambda code: f"item-{code}", lambda code: code - 2**40]
)
def test_distinct_items_are_counted_over_any_number_of_batches(spell):
    users = string.ascii_letters
    lists = {user: [spell(place % 7), spell(place)] for place, user in enumerate(users)}
    others = {user: [spell(place + 3)] for place, user in enumerate(users)}

    parts = listed_items(*(paired(user, lists, others, 2) for user in users))

    assert parts.count == listed_items(paired(users, lists, others, 2)).count == len(users) + 3


@pytest.mark.parametrize(
    "name", [name for name, kind in METRICS.items() if kind.need is Need.ITEM_WEIGHTS]
)
def test_a_user_whose_items_lack_a_weight_has_no_weighted_score(name):
    lists = {"a": [1, 2, 3], "b": [1, 4, 3]}, {"a": [2, 1, 3], "b": [4, 1, 3]}
    batch = paired("ab", *lists, 3, item_weights=weights({1: 1.0, 2: 2.0, 3: 1.0})).batch

    (scores,) = score_all(batch, [parse(name)]).values()

    assert np.isfinite(scores).tolist() == [True, False]


@pytest.mark.parametrize(
    "items", [[[1, 2], [3]], [[BIG, 2], [3]], [["x", "2"], ["3"]]], ids=["own", "numbers", "texts"]
)
def test_lists_that_were_kept_pair_again_as_they_did(items):
    first = paired("anb", {"a": items[0], "b": items[1]}, {"b": items[0], "a": items[1]}, 3)

    users = panel(*"anb").users[first.panel_rows]
    kept = keep_lists(first, users, {"all": np.arange(2), "x=y": np.array([1])})
    again = pair(
        kept.panel,
        Pull(rankings=kept.baseline, failures={}),
        Pull(rankings=kept.candidate, failures={}),
        3,
    )

    assert kept.baseline.users.tolist() == ["a", "b"]
    assert kept.baseline.scores is None
    assert again.panel_rows.tolist() == [0, 1]
    assert again.coverage.rows[1].paired == 1
    assert lists_of(again) == lists_of(first)


def hashes(baseline: Lists, candidate: Lists) -> list[int]:
    found: list[int] = paired("ab", baseline, candidate, 3).input_hashes.tolist()
    return found


def test_the_hash_of_a_user_s_input_is_of_both_lists_cut_to_k_and_of_which_arm_has_which():
    lists: tuple[Lists, Lists] = (
        {"a": ["x", "y"], "b": [7, 8, 9, 1]},
        {"a": [7], "b": ["7", "8", "9"]},
    )
    whole = hashes(*lists)
    assert whole == hashes({"b": ["7", "8", "9", "2"], "a": ["x", "y"]}, lists[1])
    for baseline, candidate in (
        (lists[1], lists[0]),
        ({**lists[0], "a": []}, lists[1]),
        ({"b": lists[0]["b"]}, lists[1]),
    ):
        assert hashes(baseline, candidate)[0] != whole[0]
    assert len({*hashes({}, {"a": []}), *hashes({"a": []}, {}), *hashes({"a": []}, {"a": []})}) == 4


@settings(max_examples=15)
@given(
    lists=st.lists(st.lists(st.integers(-3, 3), max_size=3, unique=True), min_size=2, max_size=2)
)
def test_inputs_hash_alike_exactly_where_they_are_alike_however_ids_are_spelled(lists):
    whole = dict(zip("ab", lists, strict=True))
    texts = {user: [*map(str, items)] for user, items in whole.items()}
    beside = {"a": ["x"], "b": ["x"]}  # with texts among them, all ids are coded as texts
    found = hashes(whole, whole)
    assert found == hashes(texts, texts) == hashes(whole, texts)
    assert hashes(whole, beside) == hashes(texts, beside)
    assert (found[0] == found[1]) is (lists[0] == lists[1])
