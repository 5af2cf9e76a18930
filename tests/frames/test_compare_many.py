"""monitor.compare: one pair; monitor.compare_many: many users, every shape of input."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import monitor
from monitor.measures.frames import chunks
from monitor.measures.reading.ids import user_key
from monitor.model.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:.* users were compared; users left out:UserWarning")


class Foreign:
    """A table of another library, which has only columns and the protocol."""

    columns = ("user", "items")

    def __init__(self, stream):
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema=None):
        return self.stream(requested_schema)


TEXTS = [["a", "b"], ["c", "d"]]


def test_lists_of_text_views_categories_and_fixed_size_are_read_in_several_parts():
    for items in [
        pl.Series(TEXTS, dtype=pl.List(pl.Categorical)),
        pl.Series(TEXTS, dtype=pl.Array(pl.Enum("abcd"), 2)),
        pa.array([*TEXTS, None], pa.list_view(pa.string_view()))[:2],
        pa.array(TEXTS, pa.large_list_view(pa.binary_view())),
    ]:
        is_polars = isinstance(items, pl.Series)
        frame = pl.DataFrame if is_polars else pa.table
        parts = [frame({"user": [name], "items": items[row:][:1]}) for row, name in enumerate("uv")]
        lists = pl.concat(parts, rechunk=False) if is_polars else pa.concat_tables(parts)

        found = monitor.compare_many(lists, {"u": ["a", "b"], "v": ["c", "x"]}, metrics="overlap")

        assert found["overlap"].to_dict() == {"u": 1.0, "v": 0.5}


LISTS = {"u1": ["a", "b", "c"], "u2": ["d", "e"], "u3": ["f", "f", "g"]}
OTHERS = {"u3": ["g", "f"], "u1": ["a", "c", "x"], "u9": ["z"]}


DICTIONARY = pa.dictionary(pa.int32(), pa.string())
LARGE_LISTS = pa.schema({"user": pa.large_string(), "items": pa.large_list(pa.large_string())})


def long(lists):
    rows = [(user, *each) for user, items in lists.items() for each in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["user", "rank", "item"])


def ranked(lists, first):
    columns = pd.DataFrame({user: pd.Series(items) for user, items in lists.items()}).T
    return columns.rename(columns=lambda rank: f"rec{rank + first}").reset_index(names="user")


def wide(lists):
    return pd.DataFrame({"user": list(lists), "items": list(lists.values())})


def arrow(lists):
    users = pa.array(list(lists), pa.large_string())
    return pa.table({"user": users, "items": pa.array(list(lists.values()), pa.list_(DICTIONARY))})


SHAPES = {
    "dict": dict,
    "long, shuffled": lambda lists: (
        long(lists).sample(frac=1, random_state=2).astype(object).set_index("rank")
    ),
    "long, categorical": lambda lists: (
        long(lists).astype({"user": "category", "item": "category"}).set_index(["user", "item"])
    ),
    "wide, arrays": lambda lists: wide(
        {user: np.array(items, dtype=object) for user, items in lists.items()}
    ),
    "wide, user is the index": lambda lists: wide(lists).set_index("user"),
    "list of a dictionary": arrow,
    "a record batch": lambda lists: arrow(lists).to_batches()[0],
    "large list": lambda lists: arrow(lists).cast(LARGE_LISTS),
    "several chunks": lambda lists: pa.concat_tables(arrow({user: lists[user]}) for user in lists),
    "a slice": lambda lists: arrow({"x": ["y"], **lists}).slice(1),
    "long table of a dictionary": lambda lists: pa.Table.from_pandas(
        long(lists).astype({"item": "category"})
    ),
    "another library's, lists": lambda lists: Foreign(arrow(lists).__arrow_c_stream__),
    "frame of Arrow types": lambda lists: arrow(lists).to_pandas(types_mapper=pd.ArrowDtype),
    "a Series of Arrow's lists": lambda lists: pd.Series(
        list(lists.values()), list(lists), pd.ArrowDtype(pa.list_(pa.string()))
    ),
    "a column a rank": lambda lists: ranked(lists, 0)[["rec1", "rec0", "rec2", "user"]],
    "a column a rank from 1": lambda lists: pa.Table.from_pandas(ranked(lists, 1)),
}


@pytest.mark.parametrize("ours", SHAPES)
def test_every_shape_may_meet_others(ours):
    expected = {user: monitor.compare(LISTS[user], OTHERS[user]) for user in ("u1", "u3")}
    told = {
        "only_baseline": ("u2",),
        "only_candidate": ("u9",),
        "duplicated_baseline": 1,
        "duplicated_candidate": 0,
    }
    for theirs in ("long, categorical", "list of a dictionary"):
        found = monitor.compare_many(SHAPES[ours](LISTS), SHAPES[theirs](OTHERS))

        assert found.to_dict(orient="index") == expected, theirs
        assert found.attrs.items() >= told.items(), theirs


ROWS = np.array([["a", "b"], ["c", "d"]])


def test_rows_of_arrays_and_sequences_are_users():
    for baseline in [ROWS, ROWS.tolist()]:
        for candidate, expected in (
            ([["a", "b"], ["d", "x"]], {0: 1.0, 1: 0.5}),
            ({1: ["c", "d"], 7: ["a"]}, {1: 1.0}),
        ):
            assert (
                monitor.compare_many(baseline, candidate, "overlap")["overlap"].to_dict()
                == expected
            )


def test_columns_may_have_other_names():
    frame = pd.DataFrame({"who": [1, 2, 1], "what": ["a", "c", "b"], "at": [2, 1, 1]})
    lists = {1: ["b", "a"], 2: ["c"]}

    found = monitor.compare_many(frame, lists, "rbo", user="who", item="what", rank="at")
    frame.columns = ["CustomerID", "Product", "RANK"]
    assert monitor.compare_many(frame, lists, "rbo").equals(found)
    assert found["rbo(p=0.9)"].tolist() == [1.0, 1.0]
    assert found.index.name == "who"


@pytest.mark.parametrize("k, cells", [(None, 1), (None, 1 << 22), (1, 7), (60, 100)])
def test_many_users_in_chunks_with_all_side_information_have_the_scores_of_each_single_user(
    k, cells, monkeypatch
):
    monkeypatch.setattr(chunks, "_CHUNK_CELLS", cells)
    rng = np.random.default_rng(5)
    users = range(20)
    ours, theirs = (
        {
            i: rng.integers(0, 60, rng.choice([0, 1, 2, 5, 80])).tolist()
            for i in rng.permutation(users).tolist()
        }
        for _ in "ab"
    )
    grades = {i: dict(rng.integers(0, 4, (i % 5, 2)).tolist()) for i in range(0, 30, 2)}
    weights = {item: float(item + 1) for item in range(60)}
    metrics = ("extended_tau", "rbo", "element_weighted_tau", "ndcg(arm=candidate)", "map")
    done = []

    found = monitor.compare_many(
        ours, theirs, metrics, k, item_weights=weights, relevance=grades, progress=done.append
    )

    assert (found.index.name, list(found.index)) == ("user", list(ours))
    assert list(found.columns) == [str(monitor.parse(metric)) for metric in metrics]
    assert sum(done) == len(users)
    for i in users:
        alone = monitor.compare(
            ours[i], theirs[i], metrics, k, item_weights=weights, relevance=grades.get(i, {})
        )
        np.testing.assert_array_equal(found.loc[i], list(alone.values()))


FRAME = long(LISTS)


def test_what_cannot_be_read_is_refused_by_name():
    for data, message in [
        (
            {"u1": ["a", ["b"]]},
            "lists of the baseline: found a list, .*: ids must be integers or text",
        ),
        ({None: ["a"]}, "baseline has a missing user id"),
        ({0.5: ["a"]}, "found .* 0.5, where a user was expected"),
        (np.zeros(3), "baseline is a 1-dimensional array: give an array of two"),
        (
            FRAME[["item", "rank"]],
            "baseline has no column 'user'; found .*: give the name of the column with",
        ),
        (FRAME[["user", "rank"]], "no column 'item' .* no column 'items' .* It has 'user', 'rank'"),
        (FRAME[["user", "item"]], "baseline has no column 'rank'"),
        (FRAME.assign(items="x"), "both a column 'item' .* and 'items'"),
        (FRAME.assign(rank=1), "two items at rank 1 of user 'u1'"),
        (FRAME.assign(rank="first"), "rank column 'rank' has a missing value"),
        (pd.concat([FRAME, FRAME[["item"]]], axis=1), "several columns 'item'"),
        (pd.concat([wide(LISTS), wide(LISTS)]), "baseline has user 'u1' twice"),
        (wide(LISTS).assign(items="abc"), "found a value of type str where a list"),
        (
            pa.table({"user": ["u"], "items": pa.array([{"a": 1}])}),
            "found a value of type dict where a list",
        ),
        (
            Foreign(lambda _: int("this stream\nhas ended")),
            r"^baseline is a table of type Foreign that cannot be read: reading it raised ValueError",
        ),
        (
            {1: ["a"]},
            "no user is in both arms: .*, such as '1' in the baseline and 'u1' in the candidate",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            monitor.compare_many(data, OTHERS)


SEQUENCES = [tuple, np.array, pd.Series, pd.Index, lambda x: np.array(x, dtype=object), pa.array]


@pytest.mark.parametrize("shape", [*SEQUENCES, lambda x: pa.chunked_array([x[:1], x[1:]])])
@pytest.mark.parametrize("items", [["x", "y", "z"], [3, 1, 2], [5.0, 15.0, 25.0]])
def test_every_kind_of_sequence_is_read_alike(shape, items):
    assert monitor.compare(shape(items), items[::-1]) == monitor.compare(items, items[::-1])


def test_wrong_metrics_are_refused():
    none: Any = None
    message = "^metrics is (empty: name|None: give one name or a list of names, )"
    for metrics in ((), none):
        with pytest.raises(InputError, match=message):
            monitor.compare(["a"], ["a"], metrics=metrics)


ITEMS = st.lists(
    st.integers(-3, 3) | st.text(min_size=1, max_size=1).filter("\0".__ne__), max_size=8
)


@pytest.mark.filterwarnings("ignore:no item is in both arms", "ignore:item .* fills the end of")
@settings(max_examples=30)
@given(a=ITEMS, b=ITEMS, k=st.none() | st.integers(1, 9))
def test_lists_are_cut_before_duplicates_are_dropped(a, b, k):
    x, y = (list(dict.fromkeys(map(user_key, ranking[:k]))) for ranking in (a, b))
    expected, found = monitor.compare(x, y), monitor.compare(a, b, k=k)

    assert list(found) == ["extended_tau", "rbo(p=0.9)", "overlap"]
    np.testing.assert_array_equal(list(found.values()), list(expected.values()))
