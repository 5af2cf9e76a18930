"""What a file may hold, and what becomes of the odd parts of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from servers.lists import as_lists, request, source_of
from sources.file.test_joined import WRITERS


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "lists.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def wide(path: Path, *users: str, k: int = 10, **more: Any) -> Pull:
    return source_of(file={"path": str(path), "user": "user", "items": "items", "max_unreadable": 1} | more).pull(
        request(*users, k=k)
    )


def long(path: Path, *users: str) -> Pull:
    given = {"path": str(path), "user": "user", "item": "item", "rank": "rank", "max_unreadable": 1}
    return source_of(file=given).pull(request(*users))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int8()),
        pa.list_(pa.int32()),
        pa.list_(pa.uint64()),
        pa.large_list(pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.list_(pa.float64()),
        pa.list_(pa.float32()),
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_lists_of_every_kind_of_id_are_read(kind: pa.DataType, tmp_path: Path) -> None:
    texts = not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))
    items = [["7", "5"], ["1", "2"]] if texts else [[7, 5], [1, 2]]

    pull = wide(parquet(tmp_path, user=["a", "b"], items=pa.array(items, type=kind)), "b", "a")

    assert as_lists(pull) == {"a": ["7", "5"], "b": ["1", "2"]}
    assert (pull.rankings.items.dtype in {np.dtype(np.int32), np.dtype(np.int64)}) is not texts


@pytest.mark.parametrize(
    "users",
    [pa.array([7, 8], pa.int32()), pa.array([7.0, 8.0]), pa.array(["7", "8"]), pa.array(["7", "8"]).dictionary_encode()],
    ids=lambda users: str(users.type),
)
def test_users_of_every_kind_of_key_are_found(users: pa.Array, tmp_path: Path) -> None:
    pull = wide(parquet(tmp_path, user=users, items=[[1], [2]]), "8", "7")

    assert as_lists(pull) == {"7": ["1"], "8": ["2"]}


def test_numbers_beyond_64_signed_bits_become_texts(tmp_path: Path) -> None:
    items = pa.array([[2**64 - 1], [3]], type=pa.list_(pa.uint64()))

    assert as_lists(wide(parquet(tmp_path, user=["a", "b"], items=items), "a", "b")) == {"a": [str(2**64 - 1)], "b": ["3"]}


def test_each_odd_list_has_its_reason_and_costs_nobody_else(tmp_path: Path) -> None:
    users = ["good", "null list", "null item", "empty", "twice", "fine", "twice", None]
    items = [[1, 2], None, [1, None], [], [3], [4, 5, 6], [3], [9]]

    pull = wide(parquet(tmp_path, user=users, items=items), "fine", "null item", "null list", "good", "empty", "twice")

    assert as_lists(pull) == {"good": ["1", "2"], "empty": [], "fine": ["4", "5", "6"]}
    assert pull.failures == {
        "null list": CoverageReason.MISSING,
        "null item": CoverageReason.MALFORMED,
        "twice": CoverageReason.DUPLICATE_USER,
    }
    assert pull.notes.keys() == set(pull.failures.values())


@pytest.mark.parametrize("odd", ["", "b\0c", "x" * 1001, 2.5, float("nan"), float("inf"), 1e300], ids=lambda odd: repr(odd)[:9])
def test_a_text_or_number_that_is_no_id_makes_its_list_malformed(odd: str | float, tmp_path: Path) -> None:
    fit = type(odd)(2)
    pull = wide(parquet(tmp_path, user=["odd", "good"], items=[[fit, odd], [fit]]), "odd", "good")

    assert (as_lists(pull), pull.failures) == ({"good": ["2"]}, {"odd": CoverageReason.MALFORMED})


@pytest.mark.parametrize("values", [[[[1]]], [[True]], [[{"id": 1}]]], ids=["nested", "boolean", "struct"])
def test_a_column_that_cannot_hold_ids_is_refused(values: list[Any], tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"column 'items' of .*lists\.parquet holds .*: (ids must be integers or text|name a field)"
    ):
        wide(parquet(tmp_path, user=["a"], items=values), "a")


@pytest.mark.parametrize("column", ["user", "items"])
def test_text_that_is_not_utf8_is_refused(column: str, tmp_path: Path) -> None:
    broken = pa.array([b"caf\xe9"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), broken if column == "items" else pa.array(["a"]))

    with pytest.raises(SourceError, match="holds text that is not UTF-8: write it again"):
        wide(parquet(tmp_path, user=broken if column == "user" else ["caf"], items=lists), "caf")


def test_long_form_is_ordered_by_rank_with_gaps_and_from_any_start(tmp_path: Path) -> None:
    path = parquet(tmp_path, user=["a", "b", "a", "a"], item=[30, 9, 10, 20], rank=[12, 0, -1, 3.5])

    assert as_lists(long(path, "b", "a")) == {"a": ["10", "20", "30"], "b": ["9"]}


@pytest.mark.parametrize("kept", ["csv", "tsv", "jsonl", "parquet"])
def test_rows_that_stand_in_order_need_no_rank_however_many_they_are_and_in_how_many_parts(kept: str, tmp_path: Path) -> None:
    rows = [(f"u{n % 3}", n * 7919 % 100_003) for n in range(60_000)]
    for part, taken in enumerate((rows[:40_000], rows[40_000:])):
        users, items = zip(*taken, strict=True)
        WRITERS[f".{kept}"](pa.table({"user": users, "item": items}), tmp_path / f"{part}.{kept}")

    source = source_of(file={"path": str(tmp_path), "user": "user", "item": "item", "in_order": True})

    expected = {user: [str(item) for other, item in rows if other == user] for user in ("u0", "u2")}
    assert as_lists(source.pull(request("u0", "u2"))) == expected


def test_long_form_without_an_order_is_malformed(tmp_path: Path) -> None:
    users = ["tied", "tied", "no rank", "no item", "nan", "good", "good"]
    items = [1, 2, 3, None, 4, 6, 5]
    ranks = [1.0, 1.0, None, 1.0, float("nan"), 2.0, 1.0]

    pull = long(parquet(tmp_path, user=users, item=items, rank=ranks), "good", "tied", "no rank", "no item", "nan")

    assert as_lists(pull) == {"good": ["5", "6"]}
    assert pull.failures == dict.fromkeys(["tied", "no rank", "no item", "nan"], CoverageReason.MALFORMED)


def test_csv_keeps_leading_zeros_and_the_word_na(tmp_path: Path) -> None:
    path = tmp_path / "lists.csv"
    path.write_text('user,item,rank\n007,010,1\n007,NA,2\nNA,"x,y",1\n007,z,oops\n8,1,1\n', encoding="utf-8")

    pull = long(path, "007", "NA", "8", "7")

    assert as_lists(pull) == {"NA": ["x,y"], "8": ["1"]}
    assert pull.failures == {"007": CoverageReason.MALFORMED}


def test_json_lines_may_mix_types_and_one_odd_line_costs_one_user(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"user": 1, "items": [1, "b", 3.0]},
        {"user": "nested", "items": [[1]]},
        {"user": "null", "items": None},
        {"user": "none"},
        {"user": "text", "items": "[4, 5]"},
        {"user": "twice", "items": [1]},
        {"user": "twice", "items": [1]},
        {"user": None, "items": [1]},
    ]
    path = tmp_path / "lists.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")

    pull = wide(path, "1", "nested", "null", "none", "text", "twice")

    assert as_lists(pull) == {"1": ["1", "b", "3"], "text": ["4", "5"]}
    assert pull.failures == {
        "nested": CoverageReason.MALFORMED,
        "null": CoverageReason.MISSING,
        "none": CoverageReason.MISSING,
        "twice": CoverageReason.DUPLICATE_USER,
    }


def test_the_format_may_be_told_when_the_suffix_does_not(tmp_path: Path) -> None:
    path = parquet(tmp_path, user=["a"], items=[[1]]).rename(tmp_path / "lists.bin")

    assert as_lists(wide(path, "a", format="parquet")) == {"a": ["1"]}
    with pytest.raises(SourceError, match=r"the format of .*lists\.bin is unknown: use a suffix .* or set format"):
        wide(path, "a")


@pytest.mark.parametrize("kept", ["parquet", "csv", "jsonl"])
def test_a_wrong_column_is_answered_with_the_right_ones(kept: str, tmp_path: Path) -> None:
    WRITERS[f".{kept}"](pa.table({"users": ["a"], "items": [[1]]}), path := tmp_path / f"lists.{kept}")

    with pytest.raises(SourceError, match="has no column 'user': check the name in the options") as caught:
        wide(path, "a")
    assert caught.value.shown.endswith("has no column 'user' (did you mean 'users'?): it has users, items")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b""),
        ("a.csv", b""),
        ("a.csv", b"user,items\nx\n"),
        ("a.csv.gz", b"user,items\n"),
        ("a.jsonl", b'{"user": 1, "ite'),
        ("a.jsonl", b"[1]\n"),
        ("a.jsonl", b"[" * 100_000),
        ("a.csv", b"user,items\n\xff\xfe,[1]\n"),
    ],
)
def test_a_damaged_file_is_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(SourceError, match=r"a\.\w+") as caught:
        wide(tmp_path / name, "a")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
