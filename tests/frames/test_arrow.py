"""Arrow tables and whatever else speaks the Arrow PyCapsule protocol, at the front door."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import monitor
from monitor.errors import InputError
from monitor.frames import lists

BASE = {"u1": ["a", "b", "c"], "u2": ["d", "e"], "u3": []}
OTHER = {"u3": ["f"], "u2": ["e", "d"], "u1": ["a", "c", "x"]}


class Foreign:
    """A table of some other library: it has columns and speaks the protocol, and is nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def wide(lists: dict[str, list[str]], kind: pa.DataType) -> pa.Table:
    return pa.table({"user": pa.array(list(lists), pa.large_string()), "items": pa.array(list(lists.values()), kind)})


def long(lists: dict[str, list[str]], kind: pa.DataType) -> pa.Table:
    rows = [(user, item, rank) for user, items in lists.items() for rank, item in enumerate(items)]
    return pa.table(
        {
            "user": pa.array([user for user, _, _ in rows]),
            "item": pa.array([item for _, item, _ in rows]).cast(kind),
            "rank": pa.array([rank for _, _, rank in rows], pa.int32()),
        }
    )


DICTIONARY = pa.dictionary(pa.int32(), pa.string())
TEXTS = [pa.string(), pa.large_string(), DICTIONARY]
ARROW_SHAPES: dict[str, Callable[[dict[str, list[str]]], Any]] = {
    "list of text": lambda lists: wide(lists, pa.list_(pa.string())),
    "list of large text": lambda lists: wide(lists, pa.list_(pa.large_string())),
    "list of a dictionary": lambda lists: wide(lists, pa.list_(DICTIONARY)),
    "large list": lambda lists: wide(lists, pa.large_list(pa.string())),
    "several chunks": lambda lists: pa.concat_tables([wide({user: lists[user]}, pa.list_(pa.string())) for user in lists]),
    "a slice": lambda lists: wide({"x": ["y"], **lists}, pa.list_(pa.string())).slice(1),
    "another library's, lists": lambda lists: Foreign(wide(lists, pa.list_(pa.string()))),
    "frame of Arrow types": lambda lists: wide(lists, pa.list_(DICTIONARY)).to_pandas(types_mapper=pd.ArrowDtype),
}
"""Beside those of `test_compare_many`, where every shape meets others."""


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_long_tables_are_read_like_long_frames(kind: pa.DataType) -> None:
    found = monitor.compare_many(long(BASE, kind), Foreign(long(OTHER, kind)))

    expected = monitor.compare_many(long(BASE, kind).to_pandas(), long(OTHER, kind).to_pandas())
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs["only_candidate"] == ("u3",)


def test_a_record_batch_and_lists_of_a_fixed_size_are_read() -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4]), 2)
    batch = pa.record_batch({"user": pa.array([7, 8]), "items": lists})

    found = monitor.compare_many(batch, {7: [1, 2], 8: [4, 9]}, metrics="overlap")

    assert found["overlap"].to_dict() == {7: 1.0, 8: 0.5}


def test_integers_equal_their_text_in_arrow_too() -> None:
    table = pa.table({"user": ["u"], "items": pa.array([["1"]])})

    assert monitor.compare_many(table, {"u": [1]}, metrics="overlap")["overlap"].tolist() == [1.0]


def test_one_arrow_array_is_a_list() -> None:
    assert monitor.compare(pa.array(["a", "b"]), pa.chunked_array([["a"], ["c"]]), metrics="overlap") == {"overlap": 0.5}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"user": ["u"], "items": pa.array([["a", None]])}), "found .* where an item id"),
        (pa.table({"user": ["u"], "items": pa.array([None], pa.list_(pa.string()))}), "found a value of type"),
        (pa.table({"user": pa.array([None], pa.string()), "items": pa.array([["a"]])}), "missing user id"),
        (pa.table({"user": ["u", "u"], "items": pa.array([["a"], ["b"]])}), "lists user 'u' twice"),
        (pa.table({"user": ["u"], "things": pa.array([["a"]])}), "neither a column 'item'"),
        (pa.table({"user": ["u"], "items": pa.array([{"a": 1}])}), "found a value of type dict where a list"),
        (pa.table({"user": ["u"], "items": pa.array([[["a"]]])}), "must be hashable"),
    ],
)
def test_tables_that_hold_no_lists_are_refused_by_name(table: pa.Table, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.compare_many(table, OTHER)


def test_a_stream_that_breaks_is_an_input_error_of_one_line() -> None:
    class Broken:
        columns = ()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            msg = "this stream\nhas ended"
            raise ValueError(msg)

    with pytest.raises(InputError, match=r"^baseline is a table of type Broken that cannot be read: this stream$"):
        monitor.compare_many(Broken(), OTHER)


def test_comparing_never_imports_arrow_itself() -> None:
    assert not {"pa", "pyarrow"} & vars(lists).keys()


def test_scores_may_stand_in_a_list_column_beside_the_items() -> None:
    table = pa.table({"user": ["u"], "items": pa.array([["b", "a"]]), "scores": pa.array([[1.0, 1.0]])})
    frame = table.to_pandas()

    assert monitor.compare_many(table, frame, metrics="extended_tau")["extended_tau"].tolist() == [1.0]
    np.testing.assert_array_equal(monitor.compare_many(table, {"u": ["a", "b"]}, metrics="extended_tau")["extended_tau"], [1.0])
