from factories import panel, pull
from monitor.model.rankings import Arm, CoverageReason, Pairing
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
