"""Pairs of both arms' lists, with scores, weights and relevance at the places of their items; 42 and "42" name one item."""

import itertools
import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from factories import panel, pull, relevance, weights
from monitor.measures.metrics import METRICS, Need, parse, score_all
from monitor.measures.pairing.ids import decode_row
from monitor.measures.pairing.pairs import ListedItems, pair_users
from monitor.model.rankings import Arm, CoverageReason, Pull

B, C = Arm.BASELINE, Arm.CANDIDATE


def paired(users, baseline, candidate, k, **known):
    """Users named by one letter each, with pulls or lists as ``pull`` takes them."""
    ours, theirs = (
        lists if isinstance(lists, Pull) else pull(lists) for lists in (baseline, candidate)
    )
    return pair_users(panel(*users), ours, theirs, k, **known)


def lists_of(pairing):
    """The ids of both lists of each user, as one text each."""
    arms = [
        [" ".join(decode_row(row, pairing.vocabulary)) for row in arm]
        for arm in (pairing.batch.baseline, pairing.batch.candidate)
    ]
    return list(zip(*arms, strict=True))


def test_users_are_matched_by_name_in_the_panels_order():
    found = paired("ab", "b:12 a:34 z:2", "a:43 b:21", 2)
    assert lists_of(found) == [("3 4", "4 3"), ("1 2", "2 1")]
    assert list(found.panel_rows) == [0, 1]
    assert not found.coverage.all.users_by_reason


def test_lists_are_cut_to_k_before_duplicates_are_dropped():
    found = paired("a", "a:1123", "a:1234", 3)
    assert lists_of(found) == [("1 2", "1 2 3")]
    assert found.coverage.all.users_by_reason == {(B, "short"): 1, (B, "duplicated"): 1}


def test_each_user_that_cannot_be_compared_is_counted_by_arm_and_reason():
    candidate = pull("a:1 b:", dict.fromkeys("cz", CoverageReason.TIMEOUT))
    users = panel(*"abcde", left=[0, 1], right=[2, 3, 4])
    found = pair_users(users, pull("a:1 b:1 c:1 d:"), candidate, k=1)
    assert [(row.segment, row.asked, row.paired) for row in found.coverage.rows] == [
        ("all", 5, 1),
        ("left", 2, 1),
        ("right", 3, 0),
    ]
    assert found.coverage.all.users_by_reason == {
        (B, "missing"): 1,
        (B, "empty"): 1,
        (C, "empty"): 1,
        (C, "timeout"): 1,
        (C, "missing"): 2,
    }
    assert found.coverage.rows[2].users_by_reason[C, CoverageReason.MISSING] == 2


def test_flaws_of_lists_that_are_not_compared_are_not_counted_as_short():
    found = paired("a", "a:", "a:12", 2)
    assert found.coverage.all.users_by_reason == {(B, "empty"): 1}


NAN = float("nan")


def scored(lists, *scores):
    """The lists with these scores, of all items one after the other."""
    plain = pull(lists)
    return replace(plain, rankings=replace(plain.rankings, scores=np.array(scores, dtype=float)))


def assert_places(found, baseline, candidate):
    """The figures of both arms at the places of the items."""
    np.testing.assert_array_equal(found.baseline, baseline)
    np.testing.assert_array_equal(found.candidate, candidate)


def test_scores_are_at_the_places_of_their_items_in_the_order_of_the_panel():
    baseline = scored("b:12 a:3", 0.9, 0.8, 0.7)
    candidate = scored("a:34 b:21", 5.0, 4.0, 1.0, NAN)

    scores = paired("ab", baseline, candidate, 2).batch.scores

    assert_places(scores, [[0.7, NAN], [0.9, 0.8]], [[5.0, 4.0], [1.0, NAN]])


def test_a_metric_that_needs_scores_can_be_asked_when_an_arm_gave_no_list_at_all():
    away = pull({}, {"a": CoverageReason.UNAVAILABLE})
    for baseline, candidate in ((away, away), (away, scored("a:1", 1.0)), (scored("a:"), away)):
        batch = paired("a", baseline, candidate, 2).batch
        assert len(batch) == 0
        assert len(score_all(batch, [parse("rbo_w")])["rbo_w(p=0.9)"]) == 0


def test_tied_neighbours_are_in_the_order_of_their_ids_as_text():
    baseline = scored({"a": [7, 9, 10, 100, 1]}, 3.0, 2.0, 2.0, 2.0, 1.0)
    candidate = scored({"a": ["x", "b", "9", "10"]}, 1.0, 1.0, 0.5, 0.5)

    pairing = paired("a", baseline, candidate, 5)

    assert lists_of(pairing) == [("7 10 100 9 1", "b x 10 9")]
    assert_places(pairing.batch.scores, [[3.0, 2.0, 2.0, 2.0, 1.0]], [[1.0, 1.0, 0.5, 0.5, NAN]])


BIG = 2**40


def spelt(spell, *items):
    return [str(item) for item in items] if spell == "text" else list(items)


@pytest.mark.parametrize("large", [50, BIG, -5])
@pytest.mark.parametrize(
    "baseline, candidate, known", [*itertools.product(("number", "text"), repeat=3)]
)
def test_each_place_has_the_weight_of_its_item_and_the_grade_of_its_user_and_item(
    baseline, candidate, known, large
):
    table = weights(dict(zip(spelt(known, 0, large, 77), (0.5, 2.0, 9.0), strict=True)))
    of_a = dict(zip(spelt(known, 9, large), (1.0, 2.0), strict=True))
    graded = relevance({"b": dict.fromkeys(spelt(known, 0), 3.0), "a": of_a})
    ours = {"a": spelt(baseline, 0, large), "b": spelt(baseline, 1)}
    theirs = {"b": spelt(candidate, 0), "a": spelt(candidate, large, 3)}

    batch = paired("abc", ours, theirs, 3, item_weights=table, relevance=graded).batch

    assert_places(batch.weights, [[0.5, 2.0, NAN], [NAN] * 3], [[2.0, NAN, NAN], [0.5, NAN, NAN]])
    labels = batch.labels
    assert_places(labels.grades, [[0, 2, 0], [0] * 3], [[2, 0, 0], [3, 0, 0]])
    assert labels.ideal.tolist() == [[2, 1, 0], [3, 0, 0]]
    assert labels.relevant.tolist() == [2, 1]


def listed_items(*pairings):
    found = ListedItems()
    for each in pairings:
        found.add(each)
    return found


def test_the_note_counts_items_and_users_without_a_weight():
    arms = "a:12 b:1 c:9", "a:31 b:13 c:9"
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


def test_distinct_items_are_counted_over_any_number_of_batches():
    for spell in [lambda code: code, lambda code: f"item-{code}", lambda code: code - 2**40]:
        users = string.ascii_lowercase
        lists = {user: [spell(place % 7), spell(place)] for place, user in enumerate(users)}
        others = {user: [spell(place + 3)] for place, user in enumerate(users)}

        parts = listed_items(*(paired(user, lists, others, 2) for user in users))

        assert parts.count == listed_items(paired(users, lists, others, 2)).count == len(users) + 3


def test_a_user_whose_items_lack_a_weight_has_no_weighted_score():
    for name in [name for name, kind in METRICS.items() if kind.need is Need.ITEM_WEIGHTS]:
        known = weights({1: 1.0, 2: 2.0, 3: 1.0})
        batch = paired("ab", "a:123 b:143", "a:213 b:413", 3, item_weights=known).batch

        (scores,) = score_all(batch, [parse(name)]).values()

        assert np.isfinite(scores).tolist() == [True, False]


def hashes(baseline, candidate):
    return paired("ab", baseline, candidate, 3).input_hashes.tolist()


def test_the_hash_of_a_user_s_input_is_of_both_lists_cut_to_k_and_of_which_arm_has_which():
    ours, theirs = "a:12 b:7891", "a:7"
    whole = hashes(ours, theirs)
    assert whole == hashes({"b": ["7", "8", "9", "2"], "a": ["1", "2"]}, theirs)
    assert hashes(theirs, ours)[0] != whole[0]
    assert len({*hashes("", "a:"), *hashes("a:", ""), *hashes("a:", "a:")}) == 4


LIST = st.lists(st.integers(-3, 3), max_size=3, unique=True)


@settings(max_examples=15)
@given(ours=LIST, theirs=LIST)
def test_inputs_hash_alike_exactly_where_they_are_alike_however_ids_are_spelled(ours, theirs):
    whole = {"a": ours, "b": theirs}
    texts = {user: [*map(str, items)] for user, items in whole.items()}
    beside = {"a": ["x"], "b": ["x"]}  # with texts among them, all ids are coded as texts
    found = hashes(whole, whole)
    assert found == hashes(texts, texts) == hashes(whole, texts)
    assert hashes(whole, beside) == hashes(texts, beside)
    assert (found[0] == found[1]) is (ours == theirs)
