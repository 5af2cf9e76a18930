"""Scores beside lists: what is tied, and what that does to lists."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monitor
from monitor.errors import InputError, MetricError

TAU = "extended_tau"


def long(rows: list[tuple[Any, ...]], *names: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(names))


def test_tied_items_are_measured_in_the_order_of_their_ids_in_both_arms() -> None:
    tied = monitor.compare(["b", "a", "c"], ["a", "b", "c"], TAU, scores=([2, 2, 1], None))
    both = monitor.compare(["c", "a", "b"], ["b", "c", "a"], TAU, scores=([1, 1, 1], [5, 5, 5]))

    assert (tied, both) == ({TAU: 1.0}, {TAU: 1.0})


def test_without_scores_nothing_is_tied() -> None:
    plain = monitor.compare(["b", "a", "c"], ["a", "b", "c"], TAU)

    assert monitor.compare(["b", "a", "c"], ["a", "b", "c"], TAU, scores=(None, None)) == plain
    assert monitor.compare(["b", "a", "c"], ["a", "b", "c"], TAU, scores=([np.nan, None, np.nan], [3, 2, 1])) == plain


def test_ids_are_ordered_as_text_then_by_the_name_of_their_type() -> None:
    same = ([0, 0, 0], None)

    assert monitor.compare([9, 10, 1], [1, 10, 9], TAU, scores=same) == {TAU: 1.0}
    assert monitor.compare(["1", 1, "0"], ["0", 1, "1"], TAU, scores=same) == {TAU: 1.0}
    assert monitor.compare([("b",), ("a",), 3], [("a",), ("b",), 3], TAU, scores=same) == {TAU: 1.0}


def test_metrics_that_speak_of_ties_see_them() -> None:
    found = monitor.compare(["b", "a"], ["a", "b"], ("rbo_w", "rbo_a"), scores=([1, 1], [1, 1]))

    assert found["rbo_w(p=0.9)"] == pytest.approx(1.0)
    assert found["rbo_a(p=0.9)"] < 1.0


def test_a_metric_that_needs_scores_says_how_to_give_them() -> None:
    for scores in (None, (None, None)):
        with pytest.raises(MetricError, match=r"^rbo_a\(p=0.9\) needs scores: give scores="):
            monitor.compare(["a"], ["a"], "rbo_a", scores=scores)
    with pytest.raises(MetricError, match=r"scores= of|score= or scores="):
        monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, "rbo_a")


def test_a_long_frame_without_ranks_is_ordered_by_its_scores() -> None:
    frame = long([("u", "c", 1.0), ("v", "x", 0.0), ("u", "b", 7.0), ("u", "a", 7.0)], "user", "item", "score")

    found = monitor.compare_many(frame, {"u": ["a", "b", "c"], "v": ["x"]}, ("rbo", TAU))

    assert found["rbo(p=0.9)"].tolist() == [1.0, 1.0]


def test_order_by_scores_puts_ties_in_order_before_the_cut() -> None:
    frame = long([("u", item, 1.0) for item in "dcba"], "user", "item", "score")

    assert monitor.compare_many(frame, {"u": ["a", "b"]}, "overlap", k=2)["overlap"].tolist() == [1.0]


def test_a_rank_rules_where_there_is_one_and_rank_none_means_rows() -> None:
    frame = long([("u", "a", 1, 0.1), ("u", "b", 2, 0.9)], "user", "item", "rank", "score")

    assert monitor.compare_many(frame, {"u": ["a", "b"]}, TAU)[TAU].tolist() == [1.0]
    assert monitor.compare_many(frame[::-1], {"u": ["b", "a"]}, TAU, rank=None)[TAU].tolist() == [1.0]


def test_scores_of_other_names_and_no_scores_at_all() -> None:
    frame = long([("u", "b", 1, 5), ("u", "a", 2, 5)], "user", "item", "rank", "points")
    lists = {"u": ["a", "b"]}

    assert monitor.compare_many(frame, lists, TAU, score="points")[TAU].tolist() == [1.0]
    ignored = monitor.compare_many(frame.rename(columns={"points": "score"}), lists, TAU, score=None)
    assert ignored[TAU].tolist() == monitor.compare_many(frame, lists, TAU)[TAU].tolist() != [1.0]
    with pytest.raises(InputError, match=r"baseline has no column 'pts'.*name the right one with score="):
        monitor.compare_many(frame, lists, TAU, score="pts")


def test_scores_may_be_any_numbers_but_no_text() -> None:
    frame = pd.DataFrame({"user": ["u"], "items": [["b", "a"]], "scores": [[2, np.float32(2)]]})

    assert monitor.compare_many(frame, {"u": ["a", "b"]}, TAU)[TAU].tolist() == [1.0]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[1.0]], "scores of the baseline: row 0 has 1 scores for 2 items: give each item its score"),
        ([None], "scores of the baseline: found a value of type NoneType where a list of numbers"),
        ([["high", 1]], "scores of the baseline: found 'high' where a number was expected"),
        ([[True, False]], "scores of the baseline: found True where a number was expected"),
        ([[object(), 1]], "where a number was expected"),
        ([3.0], "found a value of type float where a list of numbers"),
    ],
)
def test_scores_that_are_none_are_refused(scores: list[Any], message: str) -> None:
    frame = pd.DataFrame({"user": ["u"], "items": [["a", "b"]]})
    frame["scores"] = scores

    with pytest.raises(InputError, match=message):
        monitor.compare_many(frame, {"u": ["a", "b"]})


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1, 2], "found a value of type int where a list of numbers"),
        (([1], [1]), "scores of the first list: row 0 has 1 scores for 2 items"),
        (([2, 1], [1, 2], [3]), "scores must be two lists of numbers"),
        (("ab", None), "found a value of type str where a list of numbers"),
    ],
)
def test_scores_of_one_pair_that_cannot_be_read_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.compare(["a", "b"], ["a", "b"], scores=scores)


def test_a_missing_score_makes_no_order() -> None:
    frame = long([("u", "a", 1.0), ("u", "b", np.nan)], "user", "item", "score")

    with pytest.raises(InputError, match="baseline has an item without a score for user 'u'"):
        monitor.compare_many(frame, {"u": ["a"]})


RANKING = st.lists(st.integers(0, 9), max_size=8)


@given(a=RANKING, b=RANKING, seed=st.integers(0, 9), k=st.none() | st.integers(1, 9))
def test_many_users_with_scores_score_like_each_alone_and_like_the_definition(
    a: list[int], b: list[int], seed: int, k: int | None
) -> None:
    rng = np.random.default_rng(seed)
    scores = [rng.choice([np.inf, 0.0, -3.5], len(ranking)).tolist() for ranking in (a, b)]
    frames = [
        pd.DataFrame({"user": [0, 1], "items": [[1, 2], ranking], "scores": [[2, 1], told]})
        for ranking, told in zip((a, b), scores, strict=True)
    ]

    many = monitor.compare_many(frames[0], frames[1], (TAU, "rbo"), k).loc[1].to_dict()

    alone = monitor.compare(a, b, (TAU, "rbo"), k=k, scores=scores)
    plain = monitor.compare(tidy(a, scores[0], k), tidy(b, scores[1], k), (TAU, "rbo"))
    np.testing.assert_array_equal(list(many.values()), list(alone.values()))
    np.testing.assert_array_equal(list(many.values()), list(plain.values()))


def tidy(ranking: list[int], scores: list[float], k: int | None) -> list[int]:
    """Cut, without duplicates, runs of equal scores by the text of the id: as the docstring has it."""
    first = dict(reversed(list(zip(ranking, scores, strict=True))[:k]))
    kept = [(item, first[item]) for item in dict.fromkeys(ranking[:k])]
    ordered: list[int] = []
    while kept:
        run = [item for item, score in kept if score == kept[0][1]]
        run = run[: next((i for i, (_, score) in enumerate(kept) if score != kept[0][1]), len(kept))]
        ordered += sorted(run, key=str)
        kept = kept[len(run) :]
    return ordered
