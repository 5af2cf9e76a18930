"""What stands beside lists in any shape: scores, and what is tied by them; weights of items; relevance."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monitor
from monitor.errors import InputError, MetricError
from monitor.metrics import METRICS as REGISTRY
from monitor.metrics import Need

WEIGHTED = "element_weighted_tau"
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "z": 9.0}
FRAME = pd.DataFrame({"item": list(WEIGHTS), "weight": list(WEIGHTS.values())})

WEIGHT_SHAPES: dict[str, Any] = {
    "dict of whole numbers": {item: int(weight) for item, weight in WEIGHTS.items()},
    "dict of Decimals": {item: Decimal(weight) for item, weight in WEIGHTS.items()},
    "series": pd.Series(WEIGHTS),
    "frame": FRAME,
    "frame of more columns": FRAME.assign(price=3),
    "frame of other names": FRAME.rename(columns={"item": "sku", "weight": "sold"}),
    "categorical items": FRAME.astype({"item": "category"}),
    "arrow": pa.Table.from_pandas(FRAME),
}


@pytest.mark.parametrize("shape", WEIGHT_SHAPES)
def test_weights_of_every_shape_weigh_alike(shape: str) -> None:
    weights = WEIGHT_SHAPES[shape]

    found = monitor.compare(["a", "b", "c"], ["c", "b", "a"], WEIGHTED, item_weights=weights)

    assert found == monitor.compare(["a", "b", "c"], ["c", "b", "a"], WEIGHTED, item_weights=WEIGHTS)
    assert found != monitor.compare(["a", "b", "c"], ["c", "b", "a"], WEIGHTED, item_weights=dict.fromkeys("abc", 1))
    many = monitor.compare_many({"u": ["a", "b", "c"]}, {"u": ["c", "b", "a"]}, WEIGHTED, item_weights=weights)
    assert many.loc["u"].to_dict() == found


def test_weights_of_whole_number_ids_are_found_by_number() -> None:
    weights = pd.Series([1.0, 5.0, 2.0], index=[30, 10, 20])

    found = monitor.compare([10, 20], [20, 30], WEIGHTED, item_weights=weights)

    assert found == monitor.compare(["a", "b"], ["b", "c"], WEIGHTED, item_weights={"a": 5, "b": 2, "c": 1})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"a": 1.0},
            r"2 of 3 listed items have no weight from 1e-50 to 1e\+50, such as 'b' \(no weight\), 'c' \(no weight\): ",
        ),
        (WEIGHTS | {"b": 0}, r"1 of 3 listed items have no weight from 1e-50 to 1e\+50, such as 'b' \(0\)"),
        (WEIGHTS | {"b": float("inf")}, r"such as 'b' \(inf\)"),
        (WEIGHTS | {"b": None}, r"such as 'b' \(nan\)"),
        (WEIGHTS | {"b": 1e51}, r"1 of 3 listed items have no weight from 1e-50 to 1e\+50, such as 'b' \(1e\+51\): give"),
        (WEIGHTS | {"b": 1e-51}, r"such as 'b' \(1e-51\)"),
        (WEIGHTS | {"b": "2"}, "item_weights: found '2' where a number was expected"),
        ({}, "3 of 3 listed items"),
        (pd.concat([FRAME, FRAME]), "item 'a' stands twice"),
        (FRAME.rename(columns={"item": "x"}).assign(y=1), "has columns 'x', 'weight', 'y': expected item and weight"),
        ([1.0, 2.0], "item_weights is of type list: expected a dict of item -> weight"),
        ("ab", "item_weights is of type str"),
    ],
)
def test_weights_that_leave_an_item_without_one_are_refused_by_name(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.compare(["a", "b", "c"], ["c", "b", "a"], WEIGHTED, item_weights=weights)


@pytest.mark.parametrize("metric", [name for name, kind in REGISTRY.items() if kind.need == Need.ITEM_WEIGHTS])
def test_the_least_and_the_largest_weights_go_together(metric: str) -> None:
    for a, b in (([1, 2, 3, 4], [3, 1, 4, 2]), ([4, 3, 2, 1], [1, 2, 3, 4]), ([1, 3], [3, 2, 1])):
        found = monitor.compare(a, b, metric, item_weights={1: 1e-50, 2: 1e50, 3: 1, 4: 1e50})

        assert all(map(math.isfinite, found.values()))


def test_weights_of_items_that_nobody_lists_may_be_anything() -> None:
    weights = WEIGHTS | {"z": float("nan"), "y": -3}

    assert monitor.compare(["a"], ["a"], WEIGHTED, item_weights=weights) is not None


def test_a_metric_that_needs_what_was_not_given_says_how_to_give_it() -> None:
    with pytest.raises(MetricError, match="element_weighted_tau needs item_weights: give item_weights="):
        monitor.compare(["a"], ["a"], WEIGHTED)
    with pytest.raises(MetricError, match=r"^recall\(arm=difference\) needs relevance: give relevance="):
        monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, "recall")
    for scores in (None, (None, None)):
        with pytest.raises(MetricError, match=r"^rbo_a\(p=0.9\) needs scores: give scores="):
            monitor.compare(["a"], ["a"], "rbo_a", scores=scores)
    with pytest.raises(MetricError, match=r"scores= of|score= or scores="):
        monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, "rbo_a")


GRADES = {"u1": {"a": 3, "x": 1}, "u2": {"d": 1}, "u9": {"a": 1}}
LONG = pd.DataFrame([("u2", "d", 1), ("u1", "x", 1), ("u9", "a", 1), ("u1", "a", 3)], columns=["user", "item", "grade"])
BASE = {"u1": ["a", "b", "c"], "u2": ["c", "d"], "u3": ["a"]}
OTHER = {"u1": ["b", "a", "c"], "u2": ["d", "c"], "u3": ["a"]}
METRICS = ("ndcg(arm=baseline)", "ndcg(arm=candidate)", "recall(arm=candidate)")

RELEVANCE_SHAPES: dict[str, Callable[[], Any]] = {
    "dict": lambda: GRADES,
    "long frame": lambda: LONG,
    "the other name": lambda: LONG.rename(columns={"grade": "relevance"}),
    "user in the index": lambda: LONG.set_index("user"),
    "arrow": lambda: pa.Table.from_pandas(LONG),
    "frame of Arrow types": lambda: pa.Table.from_pandas(LONG).to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("shape", RELEVANCE_SHAPES)
def test_relevance_of_every_shape_is_joined_by_user(shape: str) -> None:
    found = monitor.compare_many(BASE, OTHER, METRICS, relevance=RELEVANCE_SHAPES[shape]())

    ideal, seen = 3 + 1 / np.log2(3), 3 / np.log2(3)
    expected = [[3 / ideal, seen / ideal, 0.5], [1 / np.log2(3), 1.0, 1.0], [np.nan] * 3]
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("items", [["a", "x"], {"a", "x"}, ("a", "x", "a"), iter(["a", "x"]), np.array(["a", "x"])])
def test_relevant_items_without_grades_have_grade_one(items: Any) -> None:
    found = monitor.compare(["a", "b"], ["b", "c"], ("recall(arm=baseline)", "map(arm=candidate)"), relevance=items)

    assert list(found.values()) == [0.5, 0.0]
    frame = monitor.compare_many(BASE, OTHER, METRICS, relevance=LONG.drop(columns="grade"))
    assert frame["recall(arm=candidate)"].tolist()[:2] == [0.5, 1.0]


def test_of_an_item_graded_twice_the_highest_grade_counts() -> None:
    twice = pd.concat([LONG.assign(grade=0), LONG, LONG.assign(grade=0.5)])

    found = monitor.compare_many(BASE, OTHER, METRICS, relevance=twice)

    pd.testing.assert_frame_equal(found, monitor.compare_many(BASE, OTHER, METRICS, relevance=LONG))


def test_the_ideal_is_made_of_all_graded_items_down_to_k() -> None:
    grades = {"a": 1, "x": 3, "y": 2}
    by_rank = [3, 2 / np.log2(3), 1 / 2]

    for k, ideal in ((None, sum(by_rank)), (1, by_rank[0]), (2, sum(by_rank[:2])), (9, sum(by_rank))):
        found = monitor.compare(["a"], ["a"], "ndcg(arm=baseline)", k=k, relevance=grades)
        assert list(found.values()) == pytest.approx([1 / ideal], abs=1e-12)
    found = monitor.compare(["a"], ["a"], "ndcg(arm=baseline)@2", relevance=grades)
    assert list(found.values()) == pytest.approx([1 / sum(by_rank[:2])], abs=1e-12)


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        ({"u1": {"a": -1}}, "1 grades are not finite numbers of at least 0, such as -1 of item 'a' for user 'u1'"),
        ({"u2": {}, "u1": {"b": 1, "a": float("inf")}}, "such as inf of item 'a' for user 'u1'"),
        ({"u1": {"a": None}}, "such as nan of item 'a'"),
        ({"u1": {"a": "3"}}, "relevance: found '3' where"),
        ({"u1": "abc"}, "found a value of type str where a user's items"),
        ({"u1": pd.Series({"a": 1})}, r"type Series where a user's items.*: write \.tolist\(\) for items, \.to_dict\(\) for"),
        ({"u1": LONG}, "found a value of type DataFrame where a user's items"),
        ({"u1": [["a"]]}, "relevance: found a list, .*: ids must be integers or text"),
        ({"u1": [None]}, "found None where an item id was expected"),
        ({None: ["a"]}, "relevance holds a missing user id"),
        ({1: ["a"]}, "relevance knows none of the compared users: it has users such as 1, the lists 'u1'"),
        (["a"], "relevance is of type list: expected a dict"),
        (LONG.drop(columns="user"), "relevance has no column 'user'; found 'item', 'grade'"),
        (LONG.assign(relevance=1), "both columns grade and relevance"),
        (LONG.assign(user=None), "relevance holds a missing user id"),
    ],
)
def test_relevance_that_cannot_be_read_is_refused_by_name(relevance: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.compare_many(BASE, OTHER, METRICS, relevance=relevance)


def test_a_grade_of_one_pair_is_refused_without_naming_a_user() -> None:
    with pytest.raises(InputError, match="such as -1 of item 'a': use 0"):
        monitor.compare(["a"], ["a"], "recall", relevance={"a": -1})


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


def test_metrics_that_speak_of_ties_see_them() -> None:
    found = monitor.compare(["b", "a"], ["a", "b"], ("rbo_w", "rbo_a"), scores=([1, 1], [1, 1]))

    assert found["rbo_w(p=0.9)"] == pytest.approx(1.0)
    assert found["rbo_a(p=0.9)"] < 1.0


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
