"""Data about lists, in any shape: scores and ties, weights of items, and relevance."""

import math
from io import StringIO
from itertools import groupby

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import monitor
from monitor.measures.metrics import METRICS as REGISTRY, Need
from monitor.model.errors import InputError, MetricError

WEIGHTED = "element_weighted_tau"
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "z": 9.0}
FRAME = pd.DataFrame({"item": list(WEIGHTS), "weight": list(WEIGHTS.values())})
REVERSED = (["a", "b", "c"], ["c", "b", "a"])


def test_weights_of_every_shape_weigh_alike():
    for weights in [
        WEIGHTS | {"z": math.nan, "y": -3},  # of items that nobody lists
        pd.Series(WEIGHTS),
        FRAME.assign(price=3),
        FRAME.rename(columns={"item": "sku", "weight": "sold"}),
        pa.Table.from_pandas(FRAME),
    ]:
        found = monitor.compare(*REVERSED, WEIGHTED, item_weights=weights)

        assert found == monitor.compare(*REVERSED, WEIGHTED, item_weights=WEIGHTS)
        assert found != monitor.compare(*REVERSED, WEIGHTED, item_weights=dict.fromkeys("abc", 1))


def test_weights_that_leave_an_item_without_one_are_refused_by_name():
    for weights, message in [
        (
            {"a": 1.0},
            r"2 of 3 listed items have no weight from 1e-50 to 1e\+50, such as 'b' \(no weight\), 'c' \(no weight\): ",
        ),
        (WEIGHTS | {"b": 1e51}, r"1 of 3 listed items have .* such as 'b' \(1e\+51\): give"),
        (WEIGHTS | {"b": 1e-51}, r"such as 'b' \(1e-51\)"),
        (WEIGHTS | {"b": "2"}, "item_weights: found '2' where a number was expected"),
        (pd.concat([FRAME, FRAME]), "item 'a' has two weights"),
        (
            FRAME.assign(x=1, y=1)[["x", "y", "weight"]],
            "has columns 'x', 'y', 'weight': rename two of them",
        ),
        ([1.0, 2.0], "item_weights is of type list: give a dict of item -> weight"),
    ]:
        with pytest.raises(InputError, match=message):
            monitor.compare(*REVERSED, WEIGHTED, item_weights=weights)  # type: ignore[arg-type]


def test_the_least_and_the_largest_weights_go_together():
    for metric in [name for name, kind in REGISTRY.items() if kind.need == Need.ITEM_WEIGHTS]:
        weights = {"1": 1e-50, "2": 1e50, "3": 1, "4": 1e50}
        for a, b in (("1234", "3142"), ("4321", "1234"), ("13", "321")):
            found = monitor.compare([*a], [*b], metric, item_weights=weights)
            assert all(map(math.isfinite, found.values()))


def test_a_metric_that_needs_what_was_not_given_says_how_to_give_it():
    for metric, message in [
        (WEIGHTED, "element_weighted_tau needs item_weights: give item_weights="),
        ("recall", r"^recall\(arm=difference\) needs relevance: give relevance="),
        ("rbo_a", r"^rbo_a\(p=0.9\) needs scores: give scores="),
    ]:
        with pytest.raises(MetricError, match=message):
            monitor.compare(["a"], ["a"], metric)
        with pytest.raises(
            MetricError, match=r"give item_weights=|give relevance=|score= or scores="
        ):
            monitor.compare_many({"u": ["a"]}, {"u": ["a"]}, metric)


LONG = pd.DataFrame(
    [("u2", "d", 1), ("u1", "x", 1), ("u9", "a", 1), ("u1", "a", 3)],
    columns=["user", "item", "grade"],
)
BASE = {"u1": ["a", "b", "c"], "u2": ["c", "d"], "u3": ["a"]}
OTHER = {"u1": ["b", "a", "c"], "u2": ["d", "c"], "u3": ["a"]}
METRICS = ("ndcg(arm=baseline)", "ndcg(arm=candidate)", "recall(arm=candidate)")


def test_relevance_of_every_shape_is_joined_by_user():
    for relevance in [
        {"u1": {"a": 3, "x": 1}, "u2": {"d": 1}, "u9": {"a": 1}},
        LONG.rename(columns={"grade": "relevance"}),
        LONG.set_index("user"),
        pa.Table.from_pandas(LONG),
        # Of each item the highest grade counts.
        pd.concat([LONG.assign(grade=0), LONG, LONG.assign(grade=0.5)]),
    ]:
        found = monitor.compare_many(BASE, OTHER, METRICS, relevance=relevance)

        second = 1 / np.log2(3)
        ideal = 3 + second
        expected = [[3 / ideal, 3 * second / ideal, 0.5], [second, 1.0, 1.0], [np.nan] * 3]
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=0, atol=1e-12)


def test_relevant_items_without_grades_have_grade_one():
    for items in [["a", "x"], {"a", "x"}, pa.array(["a", "x"])]:
        found = monitor.compare(
            ["a", "b"], ["b", "c"], ("recall(arm=baseline)", "map(arm=candidate)"), relevance=items
        )

        assert list(found.values()) == [0.5, 0.0]

        frame = monitor.compare_many(BASE, OTHER, METRICS, relevance=LONG.drop(columns="grade"))
        assert frame["recall(arm=candidate)"].tolist()[:2] == [0.5, 1.0]


def test_relevance_that_cannot_be_read_is_refused_by_name():
    for relevance, message in [
        (
            {"u1": {"a": -1}},
            "1 grades are not finite numbers of at least 0, such as -1 of item 'a' for user 'u1'",
        ),
        ({"u2": {}, "u1": {"b": 1, "a": float("inf")}}, "such as inf of item 'a' for user 'u1'"),
        ({"u1": "abc"}, "found a value of type str where a list of items"),
        (
            {"u1": pd.Series({"a": 1})},
            r"type Series where .*: add \.tolist\(\) if the values are items, \.to_dict\(\) if",
        ),
        ({None: ["a"]}, "relevance has a missing user id"),
        (
            {1: ["a"]},
            "relevance has none of the compared users: it has users such as 1, the lists have users such as 'u1'",
        ),
        (["a"], "relevance is of type list: give a dict"),
        (LONG.drop(columns="user"), "relevance has no column 'user'; found 'item', 'grade'"),
        (LONG.assign(relevance=1), "both columns grade and relevance"),
    ]:
        with pytest.raises(InputError, match=message):
            monitor.compare_many(BASE, OTHER, METRICS, relevance=relevance)  # type: ignore[arg-type]


def test_a_grade_of_one_pair_is_refused_without_naming_a_user():
    with pytest.raises(InputError, match="such as -1 of item 'a': use 0"):
        monitor.compare(["a"], ["a"], "recall", relevance={"a": -1})


TAU = "extended_tau"


def test_without_scores_nothing_is_tied():
    for scores in [(None, None), ([np.nan, None, np.nan], [3, 2, 1])]:
        lists = (["b", "a", "c"], ["a", "b", "c"])

        assert monitor.compare(*lists, TAU, scores=scores) == monitor.compare(*lists, TAU)


def test_metrics_that_speak_of_ties_see_them():
    found = monitor.compare(["b", "a"], ["a", "b"], ("rbo_w", "rbo_a"), scores=([1, 1], [1, 1]))

    assert found["rbo_w(p=0.9)"] == pytest.approx(1.0)
    assert found["rbo_a(p=0.9)"] < 1.0


def tau(table, lists, **options):
    """Extended tau of a frame, or of a long one as CSV, and of lists, user by user."""
    frame = pd.read_csv(StringIO(table)) if isinstance(table, str) else table
    return monitor.compare_many(frame, lists, TAU, **options)[TAU].tolist()


def test_a_long_frame_without_ranks_is_ordered_by_its_scores_and_ties_before_the_cut():
    two_users = "user,item,score\nu,c,1\nv,x,0\nu,b,7\nu,a,7"
    assert tau(two_users, {"u": ["a", "b", "c"], "v": ["x"]}) == [1.0, 1.0]
    assert tau("user,item,score\nu,c,1\nu,b,1\nu,a,1", {"u": ["a", "b"]}, k=2) == [1.0]
    with pytest.raises(InputError, match="baseline has an item without a score for user 'u'"):
        tau("user,item,score\nu,a,1\nu,b,", {"u": ["a"]})


def test_a_rank_rules_where_there_is_one_and_rank_none_means_rows():
    ranked = "user,item,rank,score\nu,b,2,0.9\nu,a,1,0.1"

    assert tau(ranked, {"u": ["a", "b"]}) == [1.0]
    assert tau(ranked, {"u": ["b", "a"]}, rank=None) == [1.0]


def test_scores_of_other_names_and_no_scores_at_all():
    named, lists = "user,item,rank,points\nu,b,1,5\nu,a,2,5", {"u": ["a", "b"]}

    assert tau(named, lists, score="points") == [1.0]
    ignored = tau(named.replace("points", "score"), lists, score=None)
    assert ignored == tau(named, lists) != [1.0]
    with pytest.raises(
        InputError, match=r"baseline has no column 'pts'.*give the name of the column with score="
    ):
        tau(named, lists, score="pts")


def test_scores_may_be_a_list_column_of_any_numbers():
    lists = {"u": ["a", "b"]}
    columns = {"user": ["u"], "items": [["b", "a"]]}
    assert tau(pd.DataFrame(columns | {"scores": [[2, np.float32(2)]]}), lists) == [1.0]
    assert tau(pa.table(columns | {"scores": [[1.0, 1.0]]}), lists) == [1.0]


def test_scores_that_are_none_are_refused():
    for scores, message in [
        (
            [1.0],
            "scores of the baseline: row 0 has 1 scores for 2 items: give one score for each item",
        ),
        (None, "scores of the baseline: found no list where a list of numbers"),
        (["high", 1], "scores of the baseline: found 'high' where a number was expected"),
    ]:
        table = pd.DataFrame({"user": ["u"], "items": [["a", "b"]], "scores": [scores]})
        with pytest.raises(InputError, match=message):
            tau(table, {"u": ["a", "b"]})


def test_scores_of_one_pair_that_cannot_be_read_are_refused():
    for scores, message in [
        ([1, 2], "found a value of type int where a list of numbers"),
        (([2, 1], [1, 2], [3]), "scores must be two lists of numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            monitor.compare(["a", "b"], ["a", "b"], scores=scores)  # type: ignore[arg-type]


SCORED = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([np.inf, 0.0, -3.5])), max_size=8)


@pytest.mark.filterwarnings("ignore:no item is in both arms", "ignore:item .* fills the end of")
@settings(max_examples=20)
@given(a=SCORED, b=SCORED, k=st.none() | st.integers(1, 9))
def test_many_users_with_model_scores_have_the_values_of_single_users_and_of_the_definition(
    a, b, k
):
    lists = [[item for item, _ in arm] for arm in (a, b)]
    scores = [[score for _, score in arm] for arm in (a, b)]
    ours, theirs = (
        pd.DataFrame({"user": [0, 1], "items": [[1, 2], items], "scores": [[2, 1], numbers]})
        for items, numbers in zip(lists, scores, strict=True)
    )

    many = monitor.compare_many(ours, theirs, (TAU, "rbo"), k).loc[1]

    alone = monitor.compare(lists[0], lists[1], (TAU, "rbo"), k=k, scores=scores)
    plain = monitor.compare(tidy(a, k), tidy(b, k), (TAU, "rbo"))
    np.testing.assert_array_equal(many, list(alone.values()))
    np.testing.assert_array_equal(many, list(plain.values()))


def tidy(scored, k):
    """Cut, without duplicates, runs of equal scores by the text of the id: as the docstring has it."""
    first = dict(reversed(scored[:k]))
    runs = groupby(dict.fromkeys(item for item, _ in scored[:k]), first.get)
    return [item for _, run in runs for item in sorted(run, key=str)]
