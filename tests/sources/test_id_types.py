"""One definition of an id: the same for Python's values, Arrow's columns, DuckDB's expressions, files, SQL and frames."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monitor
from monitor.errors import InputError, SourceError
from monitor.reading import ids
from monitor.sources.list_collector import ListCollector
from servers.lists import as_lists, request, source_of
from sources.tables import WRITERS

KEY = UUID(int=5)
LONGEST = "x" * ids.MAX_ID_LENGTH
VALUES: list[tuple[Any, pa.DataType, str | None]] = [
    (42, pa.int8(), "42"),
    (2**63 - 1, pa.int64(), str(2**63 - 1)),
    (2**64 - 1, pa.uint64(), str(2**64 - 1)),
    ("42", pa.string(), "42"),
    ("0042", pa.large_string(), "0042"),
    (" 42", pa.string_view(), " 42"),
    ("é", pa.dictionary(pa.int8(), pa.string()), "é"),
    (LONGEST, pa.string(), LONGEST),
    ("é" * ids.MAX_ID_LENGTH, pa.string(), "é" * ids.MAX_ID_LENGTH),
    (LONGEST + "x", pa.string(), None),
    ("", pa.string(), None),
    ("a\0b", pa.string(), None),
    (None, pa.string(), None),
    (42.0, pa.float64(), "42"),
    (-0.0, pa.float64(), "0"),
    (2.0**53 - 1, pa.float64(), str(2**53 - 1)),
    (2.0**53, pa.float64(), None),
    (2.0**24 - 1, pa.float32(), str(2**24 - 1)),
    (2.0**24, pa.float32(), None),
    (np.float16(2047), pa.float16(), "2047"),
    (np.float16(2048), pa.float16(), None),
    (0.5, pa.float64(), None),
    (float("nan"), pa.float64(), None),
    (float("inf"), pa.float32(), None),
    (Decimal(42), pa.decimal128(38, 0), "42"),
    (Decimal(10) ** 37, pa.decimal128(38, 0), str(10**37)),
    (Decimal("0.5"), pa.decimal128(10, 2), None),
    ("é".encode(), pa.binary(), "é"),
    (b"a", pa.large_binary(), "a"),
    (b"\xff", pa.binary(), None),
]


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize(("value", "kind", "expected"), VALUES, ids=lambda each: str(each)[:20])
def test_a_value_is_the_same_id_in_python_in_arrow_and_in_duckdb(value, kind, expected, database):
    column = pa.array([value, None], kind)
    exact = (
        np.float32(value) if pa.types.is_float32(kind) else value
    )  # Python has one kind of float
    wide = (
        column.cast(pa.float32()) if pa.types.is_float16(kind) else column
    )  # DuckDB has none of 16 bits
    database.register("rows", pa.table({"v": wide}))
    (in_sql, _) = database.sql(f"SELECT {ids.id_sql(kind, 'v')} FROM rows").fetchall()

    assert ids.user_key(exact) == expected
    assert ids.user_column(column, "v", "rows").to_pylist() == [expected, None]
    assert in_sql == (expected,)


JSON = [
    "42",
    "-42",
    "-0",
    "0",
    "42.0",
    "4.2e1",
    "0.5",
    "9007199254740991.0",
    "9007199254740992.0",
    '"42"',
    '"0042"',
    '""',
]
JSON += [
    '"a\\u0000b"',
    "null",
    "true",
    "[1]",
    '{"a": 1}',
    str(2**64),
    str(-(2**63)),
    f'"{"x" * 1001}"',
]


@pytest.mark.parametrize("text", JSON, ids=lambda text: text[:20])
def test_a_value_of_json_is_the_same_id_in_python_and_in_duckdb(text, database):
    ((found,),) = database.execute(
        f"SELECT {ids.json_id_sql('v')} FROM (SELECT CAST(? AS JSON) AS v)", [text]
    ).fetchall()

    assert found == ids.user_key(json.loads(text))


def frame(column: pa.Array) -> None:
    monitor.compare_many(pa.table({"user": [1], "items": column}), {1: ["a"]})


def parquet(column: pa.Array) -> None:
    if pa.types.is_duration(column.type.value_type):  # Parquet would hold plain integers
        duckdb.sql("COPY (SELECT 'u' AS user, [INTERVAL 1 DAY] AS items) TO 'lists.parquet'")
    else:
        pq.write_table(pa.table({"user": ["u"], "items": column}), "lists.parquet")
    source_of(file={"path": "lists.parquet", "user": "user", "items": "items"}).pull(request("u"))


REFUSED = {
    "booleans": pa.array([[True]]),
    "dates": pa.array([[date(2024, 1, 1)]]),
    "times": pa.array([[pd.Timestamp("2024-01-01")]], pa.list_(pa.timestamp("ms"))),
    "INTERVAL": pa.array([[timedelta(1)]]),
    "lists of int64": pa.array([[[1]]]),
}


@pytest.mark.parametrize("read", [frame, parquet])
@pytest.mark.parametrize("word", REFUSED)
def test_a_type_that_holds_no_ids_is_named(word, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        (SourceError, InputError), match=f"{word} ?.*: ids must be integers or text"
    ):
        read(REFUSED[word])


@pytest.mark.parametrize(
    "odd",
    [True, date(2024, 1, 1), 0.5, np.float32(2**24), (1, 2, 3), frozenset("a"), "", "a\0"],
    ids=repr,
)
def test_lists_of_python_and_plugins_refuse_the_same_values(odd):
    with pytest.raises(
        InputError,
        match=r"the first list: found .*: (ids must be integers or text|give the ids alone)",
    ):
        monitor.compare([odd], ["a"])

    lists = ListCollector(5)
    lists.add("u", [odd])
    assert lists.pull().failures == {"u": "malformed"}


def test_pairs_of_item_and_score_are_refused_with_what_to_do():
    with pytest.raises(
        InputError,
        match=r"found a pair, \('a', 0.9\), .*: give the ids alone, .* and the scores with scores=",
    ):
        monitor.compare([("a", 0.9)], [("a", 0.5)])
    with pytest.raises(InputError, match="found a pair"):
        monitor.compare_many({"u": [("a", 0.9)]}, {"u": [("a", 0.5)]})


STRUCTS = [{"movieId": 1, "rating": 0.5}, {"movieId": 2, "rating": 0.25}]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_lists_of_objects_are_read_by_a_field_and_else_refused_with_that_advice(form, tmp_path):
    rows = [{"user": {"$oid": "u"}, "recs": STRUCTS}, {"user": {"$oid": "v"}, "recs": []}]

    def pull(user: str, items: str) -> Any:
        return source_of(**WRITERS[form](rows, tmp_path, user=user, items=items)).pull(
            request("u", "v")
        )

    assert as_lists(pull("user.$oid", "recs.movieId")) == {"u": ["1", "2"], "v": []}
    for user, items, advice in (
        ("user.$oid", "recs", "`recs.movieId`"),
        ("user", "recs.movieId", "`user.$oid`"),
    ):
        with pytest.raises(SourceError) as caught:
            pull(user, items)
        assert f"to name a field, write {advice} in place of" in caught.value.shown


@pytest.mark.parametrize(
    "as_given", [lambda table: table, pl.from_arrow], ids=["pyarrow", "polars"]
)
def test_lists_of_objects_in_frames_are_read_by_a_field_and_else_refused_with_that_advice(as_given):
    table = as_given(pa.table({"user": ["u", "v"], "recs": [STRUCTS, []]}))

    found = monitor.compare_many(table, {"u": [1, 2], "v": [3]}, "overlap", items="recs.movieId")
    assert found["overlap"].tolist() == [1.0, 0.0]
    with pytest.raises(
        InputError,
        match=r"found objects with movieId, rating where .*: name one field of them, such as",
    ):
        monitor.compare_many(table, table, items="recs")
    with pytest.raises(
        InputError, match="column 'recs' has no lists of objects with a field 'nothing'"
    ):
        monitor.compare_many(table, table, items="recs.nothing")


def test_an_object_without_the_field_is_no_id_and_shortens_no_list(tmp_path):
    rows = [{"user": "u", "recs": [{"id": 1}, {"other": 2}]}, {"user": "v", "recs": [{"id": 3}]}]
    source = source_of(
        **WRITERS["jsonl"](rows, tmp_path, user="user", items="recs.id", max_unreadable=0.5)
    )

    pull = source.pull(request("u", "v"))

    assert (as_lists(pull), pull.failures) == ({"v": ["3"]}, {"u": "malformed"})


def source_over(folder: Path, *parts: tuple[pa.Array, pa.Array]) -> Any:
    """The users and items of each part in a file."""
    for number, (users, items) in enumerate(parts):
        pq.write_table(pa.table({"user": users, "items": items}), folder / f"{number}.parquet")
    return source_of(
        file={"path": str(folder), "user": "user", "items": "items", "max_unreadable": 0.5}
    )


def test_parts_whose_types_differ_without_loss_are_read_as_one(tmp_path):
    source = source_over(
        tmp_path,
        (pa.array([None], pa.null()), pa.array([None], pa.null())),
        (pa.array(["u3"], pa.large_string()), pa.array([["3"]], pa.large_list(pa.large_string()))),
        (pa.array(["u2"]), pa.array([[]], pa.list_(pa.null()))),
        (pa.array(["u1"]), pa.array([["1", "2"]])),
    )

    assert as_lists(source.pull(request("u1", "u2", "u3"))) == {
        "u1": ["1", "2"],
        "u2": [],
        "u3": ["3"],
    }


def test_integers_of_several_sizes_are_read_as_one_and_floats_beside_them_refused(tmp_path):
    kinds = enumerate((pa.int32(), pa.int64(), pa.uint8()))
    parts = [(pa.array([f"u{number}"]), pa.array([[1]], pa.list_(kind))) for number, kind in kinds]

    assert as_lists(source_over(tmp_path, *parts).pull(request("u0", "u1", "u2"))) == {
        f"u{number}": ["1"] for number in range(3)
    }
    with pytest.raises(
        SourceError,
        match=r"3\.parquet has lists of double, but that of .* has lists of int32: write the same",
    ):
        source_over(tmp_path, *parts, (pa.array(["u"]), pa.array([[1.0]]))).pull(request("u0"))


def test_floats_of_16_bits_in_files_are_ids_where_they_are_exact(tmp_path):
    lists = pa.array(
        [np.array([each], np.float16) for each in (2047, 2049)], pa.list_(pa.float16())
    )  # 2049 is 2048

    pull = source_over(tmp_path, (pa.array(["u", "v"]), lists)).pull(request("u", "v"))

    assert (as_lists(pull), pull.failures) == ({"u": ["2047"]}, {"v": "malformed"})


def test_uuids_of_files_and_frames_are_their_text(tmp_path):
    duckdb.sql(
        f"COPY (SELECT '{KEY}'::UUID u, ['{KEY}'::UUID] items) TO '{tmp_path / 'a.parquet'}'"
    )
    source = source_of(file={"path": str(tmp_path / "a.parquet"), "user": "u", "items": "items"})

    assert as_lists(source.pull(request(str(KEY)))) == {str(KEY): [str(KEY)]}
    assert monitor.compare([KEY], [str(KEY)], "overlap") == {"overlap": 1.0}


def test_values_that_only_fill_up_lists_are_no_items_in_frames():
    assert monitor.compare([5, 6, -1, -1], [7, 8, -1, -1], "overlap", no_item=[-1]) == {
        "overlap": 0.0
    }
    matrix = np.array([[5, 6, -1, -1]])
    assert monitor.compare_many(matrix, matrix[:, ::-1], "overlap", no_item=[-1])[
        "overlap"
    ].tolist() == [1.0]
    texts = pl.DataFrame({"user": ["u"], "items": [["a", "", "b"]]})
    with pytest.raises(InputError, match="found empty text"):
        monitor.compare_many(texts, texts)
    scored = monitor.compare(
        [1, -1, 2], [1, 2], "rbo_a", scores=([3, 9, 2], [3, 2]), no_item=["-1"]
    )
    assert scored == monitor.compare([1, 2], [1, 2], "rbo_a", scores=([3, 2], [3, 2]))


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(("filler", "items"), [(None, ["a", "b"]), ("", ["a", "b"]), (-1, [5, 6])])
def test_values_that_only_fill_up_lists_are_no_items_in_files_wherever_they_stand(
    form, filler, items, tmp_path
):
    first, second = items
    rows = [
        {"user": "u", "items": [first, filler, second, filler], "scores": [4.0, 3.0, 2.0, 1.0]},
        {"user": "v", "items": [filler, filler], "scores": [2.0, 1.0]},
    ]
    options = WRITERS[form](rows, tmp_path, user="user", items="items", scores="scores")["file"]

    pull = source_of(file=options | {"no_item": [filler]}).pull(request("u", "v", k=2))

    assert as_lists(pull) == {"u": [str(first), str(second)], "v": []}
    assert str(pull.rankings.scores) == "[4. 2.]"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("['a', 'b']", "a list as Python prints it: write json.dumps"),
        ("('a', None)", "a list as Python prints it"),
        ("{a,b}", "an array of PostgreSQL: select it with to_json"),
        ("['a' 'b']", "an array as numpy prints it"),
        ("[1 2 3]", "an array as numpy prints it"),
        ("a|b", "text with separators: write a JSON array, or one item in each row"),
    ],
)
def test_the_program_that_wrote_a_list_as_text_is_recognized(text, advice):
    lists = ListCollector(5)
    lists.add_cell("u", text)

    assert f"the text is not a JSON array of ids, but {advice}" in lists.pull().notes["malformed"]  # type: ignore[index]
