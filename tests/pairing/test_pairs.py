from dataclasses import replace
from typing import Any

import numpy as np

from factories import panel, pull
from monitor.metrics import parse, score_all
from monitor.model.rankings import Arm, CoverageReason, Pairing, Pull
from monitor.pairing import pair
from monitor.pairing.ids import decode

B, C = Arm.BASELINE, Arm.CANDIDATE


def lists_of(pairing: Pairing) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    batch = pairing.batch
    return [
        (decode(baseline, pairing.vocabulary), decode(candidate, pairing.vocabulary))
        for baseline, candidate in zip(batch.baseline, batch.candidate, strict=True)
    ]


def test_users_are_matched_by_name_in_the_panels_order() -> None:
    found = pair(panel("a", "b"), pull({"b": [1, 2], "a": [3, 4]}), pull({"a": [4, 3], "b": [2, 1]}), k=2)
    assert lists_of(found) == [(("3", "4"), ("4", "3")), (("1", "2"), ("2", "1"))]
    assert list(found.panel_rows) == [0, 1]
    assert found.coverage.all.paired == 2
    assert found.coverage.all.reasons == {}


def test_lists_are_cut_to_k_before_duplicates_are_dropped() -> None:
    found = pair(panel("a"), pull({"a": [1, 1, 2, 3]}), pull({"a": [1, 2, 3, 4]}), k=3)
    assert lists_of(found) == [(("1", "2"), ("1", "2", "3"))]
    assert found.coverage.all.reasons == {(B, CoverageReason.SHORT): 1, (B, CoverageReason.DUPLICATED): 1}


def test_every_user_who_cannot_be_compared_is_counted_under_arm_and_reason() -> None:
    baseline = pull({"a": [1], "b": [1], "c": [1], "d": []})
    candidate = pull({"a": [1], "b": []}, {"c": CoverageReason.TIMEOUT})
    found = pair(panel("a", "b", "c", "d", "e", left=[0, 1], right=[2, 3, 4]), baseline, candidate, k=1)
    rows = {row.segment: row for row in found.coverage.rows}
    assert rows["all"].asked == 5
    assert rows["all"].paired == 1
    assert rows["all"].reasons == {
        (B, CoverageReason.MISSING): 1,
        (B, CoverageReason.EMPTY): 1,
        (C, CoverageReason.EMPTY): 1,
        (C, CoverageReason.TIMEOUT): 1,
        (C, CoverageReason.MISSING): 2,
    }
    assert (rows["left"].asked, rows["left"].paired) == (2, 1)
    assert rows["right"].reasons[C, CoverageReason.MISSING] == 2


def test_a_user_that_was_not_asked_changes_nothing() -> None:
    found = pair(panel("a"), pull({"a": [1], "z": [2]}), pull({"z": [2], "a": [1]}, {"y": CoverageReason.TIMEOUT}), k=1)
    assert lists_of(found) == [(("1",), ("1",))]
    assert found.coverage.all.reasons == {}


def test_flaws_of_lists_that_are_not_compared_are_not_counted_as_short() -> None:
    found = pair(panel("a"), pull({"a": []}), pull({"a": [1, 2]}), k=2)
    assert found.coverage.all.reasons == {(B, CoverageReason.EMPTY): 1}


def test_numbers_and_their_text_name_the_same_item_across_arms() -> None:
    found = pair(panel("a"), pull({"a": [42, 7]}), pull({"a": ["7", "x"]}), k=2)
    assert lists_of(found) == [(("42", "7"), ("7", "x"))]
    assert found.batch.baseline[0, 1] == found.batch.candidate[0, 0]


def test_when_nobody_answers_nothing_is_paired_and_nothing_breaks() -> None:
    found = pair(panel("a", "b"), pull({}), pull({}), k=3)
    assert len(found.batch) == 0
    assert found.coverage.all.reasons == {(B, CoverageReason.MISSING): 2, (C, CoverageReason.MISSING): 2}


NAN = float("nan")


def scored(lists: dict[str, tuple[list[Any], list[float]]]) -> Pull:
    plain = pull({user: items for user, (items, _) in lists.items()})
    scores = np.array([score for _, scores in lists.values() for score in scores], dtype=np.float64)
    return replace(plain, rankings=replace(plain.rankings, scores=scores))


def listed(pairing: Pairing, row: int = 0) -> tuple[list[str], list[str]]:
    batch = pairing.batch
    baseline, candidate = (list(decode(codes[row], pairing.vocabulary)) for codes in (batch.baseline, batch.candidate))
    return baseline, candidate


def same(found: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(expected, dtype=np.float64), equal_nan=True)


def test_scores_stand_at_the_places_of_their_items_in_the_panels_order() -> None:
    baseline = scored({"b": ([1, 2], [0.9, 0.8]), "a": ([3], [0.7])})
    candidate = scored({"a": ([3, 4], [5.0, 4.0]), "b": ([2, 1], [1.0, NAN])})

    scores = pair(panel("a", "b"), baseline, candidate, k=2).batch.scores

    assert scores is not None
    assert same(scores.baseline, [[0.7, NAN], [0.9, 0.8]])
    assert same(scores.candidate, [[5.0, 4.0], [1.0, NAN]])


def test_without_scores_there_are_none() -> None:
    assert pair(panel("a"), pull({"a": [1]}), pull({"a": [1]}), k=1).batch.scores is None


def test_an_arm_that_tells_none_has_nan_where_the_other_tells_them() -> None:
    scores = pair(panel("a"), pull({"a": [1, 2]}), scored({"a": ([1, 2], [2.0, 1.0])}), k=2).batch.scores

    assert scores is not None
    assert same(scores.baseline, [[NAN, NAN]])
    assert same(scores.candidate, [[2.0, 1.0]])


def test_a_metric_that_needs_scores_can_be_asked_when_an_arm_gave_no_list_at_all() -> None:
    away = pull({}, {"a": CoverageReason.UNAVAILABLE})
    for baseline, candidate in ((away, away), (away, scored({"a": ([1], [1.0])})), (scored({"a": ([], [])}), away)):
        batch = pair(panel("a"), baseline, candidate, k=2).batch
        assert len(batch) == 0
        assert len(score_all(batch, [parse("rbo_w")])["rbo_w(p=0.9)"]) == 0


def test_tied_neighbours_stand_in_the_order_of_their_ids_as_text() -> None:
    baseline = scored({"a": ([7, 9, 10, 100, 2, 1], [3.0, 2.0, 2.0, 2.0, 1.0, 1.0])})
    candidate = scored({"a": (["x", "b", "9", "10"], [1.0, 1.0, 0.5, 0.5])})

    pairing = pair(panel("a"), baseline, candidate, k=6)

    assert listed(pairing) == (["7", "10", "100", "9", "1", "2"], ["b", "x", "10", "9"])
    assert pairing.batch.scores is not None
    assert same(pairing.batch.scores.baseline, [[3.0, 2.0, 2.0, 2.0, 1.0, 1.0]])
