"""One definition of an id: the same for files, SQL, answers, plugins and frames."""

import json
from datetime import date, timedelta
from decimal import Decimal
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monitor
from monitor.measures.frames.columns import FrameColumns, read_lists_of_any_shape
from monitor.measures.reading import ids
from monitor.measures.reading.lists import parse_cell, parse_numbers
from monitor.model.errors import InputError, SourceError
from monitor.sources.list_collector import ListCollector
from servers.lists import as_lists, pull_of
from sources.tables import WRITERS
from tables import cells, parsed

LONGEST = "é" * ids.MAX_ID_LENGTH
PLAIN = parsed(r"""
    ["int64", 9223372036854775807, "9223372036854775807"]
    ["uint64", 18446744073709551615, "18446744073709551615"]
    ["large_string", "0042", "0042"]
    ["string_view", " 42", " 42"]
    ["string", "", null]
    ["string", "a\u0000b", null]
    ["string", null, null]
    ["float64", 42.0, "42"]
    ["float64", -0.0, "0"]
    ["float64", 9007199254740991.0, "9007199254740991"]
    ["float64", 9007199254740992.0, null]
    ["float64", 0.5, null]
    ["float64", NaN, null]
    ["float32", 16777215.0, "16777215"]
    ["float32", 16777216.0, null]
    ["float32", Infinity, null]
""")
VALUES = [(value, pa.type_for_alias(kind), expected) for kind, value, expected in PLAIN]
VALUES += [
    ("é", pa.dictionary(pa.int8(), pa.string()), "é"),
    (LONGEST, pa.string(), LONGEST),
    (f"{LONGEST}x", pa.string(), None),
    (np.float16(2047), pa.float16(), "2047"),
    (np.float16(2048), pa.float16(), None),
    (Decimal(42), pa.decimal128(38, 0), "42"),
    (Decimal(10) ** 37, pa.decimal128(38, 0), str(10**37)),
    (Decimal("0.5"), pa.decimal128(10, 2), None),
    ("é".encode(), pa.binary(), "é"),
    (b"a", pa.large_binary(), "a"),
    (b"\xff", pa.binary(), None),
]


def listed(pull, count):
    """The only item of each user's list, None for a malformed list."""
    lists = as_lists(pull)
    assert set(pull.failures.values()) <= {"malformed"}
    assert len(lists) + len(pull.failures) == count
    return [lists.get(str(user), [None])[0] for user in range(count)]


def framed(lists, expected):
    """The ids of lists of one item each, from a frame."""
    if None in expected:
        with pytest.raises(InputError, match=r"found .*, where|found .* where"):
            read_lists_of_any_shape(lists, COLUMNS, "baseline")
        lists = [each for each, key in zip(lists, expected, strict=True) if key is not None]
    return list(map(str, read_lists_of_any_shape(lists, COLUMNS, "baseline").items))


KINDS_OF_VALUES = sorted({str(kind) for _, kind, _ in VALUES})
COLUMNS = FrameColumns(user="u", item="i", rank=None, items="items", score=None, scores=None)


@pytest.mark.parametrize("kind", KINDS_OF_VALUES)
def test_a_value_is_the_same_id_in_python_arrow_files_and_frames(kind, tmp_path):
    of_kind = [each for each in VALUES if str(each[1]) == kind]
    values, (arrow_kind, *_), expected = map(list, zip(*of_kind, strict=True))
    column = pa.array(values, arrow_kind)
    users = list(map(str, range(len(values))))
    path = tmp_path / "lists.parquet"
    lists = pa.ListArray.from_arrays(range(len(values) + 1), column)
    if kind == "string_view":  # Parquet has no views
        column, lists = column.cast(pa.string()), lists.cast(pa.list_(pa.string()))
    pq.write_table(pa.table({"user": users, "items": lists, "key": column}), path)
    file = {"path": str(path), "max_unreadable": 1, "items": "items"}
    keys = [key for key in expected if key is not None]

    assert listed(pull_of(*users, file=file | {"user": "user"}), len(users)) == expected
    assert ids.id_column(column, "v", "rows").cast(pa.large_string()).to_pylist() == expected
    if kind != "float":  # Python has one kind of float
        assert list(map(ids.user_key, values)) == expected
    pulled = pull_of(*keys, file=file | {"user": "key"})
    assert {*pulled.rankings.users, *pulled.failures} == {*keys}
    assert framed([[value] for value in column.to_numpy(zero_copy_only=False)], expected) == keys
    if len(keys) == len(expected):
        table = pa.table({"u": users, "items": lists})
        assert list(map(str, read_lists_of_any_shape(table, COLUMNS, "baseline").items)) == keys


JSON = r"""
-42 -0 0 42.0 4.2e1 0.5 9007199254740991.0 9007199254740992.0 18446744073709551616
-9223372036854775808 "0042" " 42" "é" "e\u0301" "" "a\u0000b" null true [1] {"a":1}
"""


@pytest.mark.parametrize("form", ["jsonl", "csv", "sqlite", "answers", "frame"])
def test_a_value_of_json_is_the_same_id_in_every_source(form, tmp_path):
    texts = [*JSON.replace('" 42"', "").split(), '" 42"', f'"{"x" * 1001}"']
    values = list(map(json.loads, texts))
    expected = list(map(ids.user_key, values))
    users = list(map(str, range(len(values))))
    if form == "answers":  # of HTTP, Redis and plugins
        collector = ListCollector(5)
        for user, value in zip(users, values, strict=True):
            collector.add(user, [value])
        assert listed(collector.pull(), len(users)) == expected
    elif form == "frame":
        keys = [key for key in expected if key is not None]
        assert framed([[value] for value in values], expected) == keys
    else:
        rows = [{"u": user, "items": [value]} for user, value in zip(users, values, strict=True)]
        given = WRITERS[form](rows, tmp_path, user="u", items="items")
        ((source, options),) = given.items()
        pull = pull_of(*users, **{source: options | {"max_unreadable": 1}})
        assert listed(pull, len(users)) == expected


REFUSED = {
    "booleans": pa.array([[True]]),
    "dates": pa.array([[date(2024, 1, 1)]]),
    "times": pa.array([[pd.Timestamp("2024-01-01")]], pa.list_(pa.timestamp("ms"))),
    "INTERVAL": pa.array([[timedelta(1)]]),
    "lists of int64": pa.array([[[1]]]),
}


@pytest.mark.parametrize("word", REFUSED)
def test_a_type_that_holds_no_ids_is_named(word, tmp_path):
    table, path = pa.table({"user": ["u"], "items": REFUSED[word]}), f"{tmp_path}/a.parquet"
    pq.write_table(table, path)
    if word == "INTERVAL":  # Parquet would hold plain integers
        duckdb.sql(f"COPY (SELECT 'u' AS user, [INTERVAL 1 DAY] AS items) TO '{path}'")

    message = f"{word} ?.*: ids must be integers or text"
    with pytest.raises(InputError, match=message):
        monitor.compare_many(table, {"u": ["a"]})
    with pytest.raises(SourceError, match=message):
        pull_of("u", file={"path": path, "user": "user", "items": "items"})


def test_pairs_of_item_and_score_are_refused_with_what_to_do():
    with pytest.raises(
        InputError,
        match=r"found a pair, \('a', 0.9\), .*: give the ids alone, .* and the scores with scores=",
    ):
        monitor.compare([("a", 0.9)], [("a", 0.5)])


STRUCTS = [{"movieId": 1, "rating": 0.5}, {"movieId": 2, "rating": 0.25}]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_lists_of_objects_are_read_by_a_field_and_else_refused_with_that_advice(form, tmp_path):
    other = [*STRUCTS, {"rating": 1.0}]
    lists = {"u": STRUCTS, "v": [], "w": other}
    rows = [{"user": {"$oid": user}, "recs": recs} for user, recs in lists.items()]

    def pull(user, items):
        given = WRITERS[form](rows, tmp_path, user=user, items=items)["file"]
        return pull_of("u", "v", "w", file=given | {"max_unreadable": 0.5})

    pulled = pull("user.$oid", "recs.movieId")
    assert (as_lists(pulled), pulled.failures) == ({"u": ["1", "2"], "v": []}, {"w": "malformed"})
    for user, items, advice in parsed("""
        ["user.$oid", "recs", "`recs.movieId`"]
        ["user", "recs.movieId", "`user.$oid`"]
    """):
        with pytest.raises(SourceError) as caught:
            pull(user, items)
        assert f"to name a field, write {advice} in place of" in caught.value.shown


def test_lists_of_objects_in_frames_are_read_by_a_field_and_else_refused_with_that_advice():
    table = pl.DataFrame({"user": ["u", "v"], "recs": [STRUCTS, []]})

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


def pull_parts(folder, *parts):
    """The lists of each part in a file of its own, of users named by their numbers."""
    users = [f"u{number}" for number in range(len(parts))]
    for user, items in zip(users, parts, strict=True):
        pq.write_table(pa.table({"user": [user], "items": items}), folder / f"{user}.parquet")
    return as_lists(pull_of(*users, file={"path": str(folder), "user": "user", "items": "items"}))


def test_parts_whose_types_differ_are_read_as_one_unless_a_number_could_change(tmp_path):
    assert pull_parts(
        tmp_path,
        pa.array([["1", "2"]]),
        pa.array([[]], pa.list_(pa.null())),
        pa.array([["3"]], pa.large_list(pa.large_string())),
        pa.array([None], pa.null()),
    ) == {"u0": ["1", "2"], "u1": [], "u2": ["3"]}

    parts = [pa.array([[1]], pa.list_(kind)) for kind in (pa.int32(), pa.int64(), pa.uint8())]
    parts.append(pa.array([[1.0]]))
    assert pull_parts(tmp_path, *parts[:3], parts[0]) == {f"u{n}": ["1"] for n in range(4)}
    with pytest.raises(
        SourceError,
        match=r"has lists of double in .*u3\.parquet, but lists of int32 in .*: write the same",
    ):
        pull_parts(tmp_path, *parts)


def test_uuids_of_files_and_frames_are_their_text(tmp_path):
    key, path = UUID(int=5), f"{tmp_path}/a.parquet"
    duckdb.sql(f"COPY (SELECT '{key}'::UUID u, ['{key}'::UUID] items) TO '{path}'")

    pulled = pull_of(str(key), file={"path": path, "user": "u", "items": "items"})
    assert as_lists(pulled) == {str(key): [str(key)]}
    assert monitor.compare([key], [str(key)], "overlap") == {"overlap": 1.0}


def test_values_that_only_fill_up_lists_are_no_items_in_frames():
    matrix = np.array([[5, 6, -1, -1]])
    many = monitor.compare_many(matrix, [[7, 5, -1, -1]], "overlap", no_item=[-1])
    assert many["overlap"].tolist() == [0.5]
    scored = monitor.compare(
        [1, -1, 2], [1, 2], "rbo_a", scores=([3, 9, 2], [3, 2]), no_item=["-1"]
    )
    assert scored == monitor.compare([1, 2], [1, 2], "rbo_a", scores=([3, 2], [3, 2]))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("filler, items", [(None, ["a", "b"]), ("", ["a", "b"]), (-1, [5, 6])])
def test_values_that_only_fill_up_lists_are_no_items_in_files_wherever_they_stand(
    form, filler, items, tmp_path
):
    first, second = items
    lists = {"u": [first, filler, second, filler], "v": [filler] * 4}
    scores = [4.0, 3.0, 2.0, 1.0]
    rows = [{"user": user, "items": lists[user], "scores": scores} for user in lists]
    options = WRITERS[form](rows, tmp_path, user="user", items="items", scores="scores")["file"]

    pull = pull_of("u", "v", k=2, file=options | {"no_item": [filler]})

    assert as_lists(pull) == {"u": [str(first), str(second)], "v": []}
    assert str(pull.rankings.scores) == "[4. 2.]"


PRINTED = """
"[\\"a\\"]"  expected a list of ids, found a JSON array in a text: write the array itself
['a', 'b']   the text is not a JSON array of ids, but a list as Python prints it: write json.dumps
('a', None)  a list as Python prints it
{a,b}        an array of PostgreSQL: select it with to_json
['a' 'b']    an array as numpy prints it
[1 2 3]      an array as numpy prints it
a|b          text with separators: write a JSON array such as ["a","b"], or one item in each row
"""


@pytest.mark.parametrize("text, advice", cells(PRINTED))
def test_the_program_that_wrote_a_list_as_text_is_recognized(text, advice):
    lists = ListCollector(5)
    lists.add("u", text)

    assert advice in lists.pull().notes["malformed"]  # type: ignore[index]


def test_texts_of_whole_numbers_are_parsed_by_arrow_and_all_other_columns_are_not():
    for texts in (["[1, 20,0]", None, "[7]"], [b"[1]"], [None], []):
        assert parse_numbers(texts).to_pylist() == list(map(parse_cell, texts))  # type: ignore[union-attr]
    for cell in (
        "[]",
        "[01]",
        "[-1]",
        "[1.0]",
        '["1"]',
        "[1],[2]",
        "[1 ,2]",
        "[[1]",
        "\ud800",
        [1],
    ):
        assert parse_numbers(["[1]", cell]) is None
