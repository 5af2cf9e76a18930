"""The content that files may have, and how odd parts are handled."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.model.errors import SourceError
from servers.lists import as_lists, pull_of
from sources.file.test_joined import WRITERS
from sources.tables import parquet as in_parquet
from tables import parsed


def parquet(path, **columns):
    """A file of these columns: of this name, or ``lists.parquet`` in this folder."""
    path = path / "lists.parquet" if path.is_dir() else path
    pq.write_table(pa.table(columns), path)
    return path


WIDE = {"user": "user", "items": "items", "max_unreadable": 1}
LONG = {"user": "user", "item": "item", "rank": "rank", "max_unreadable": 1}


def wide(path, *users, k=10, **more):
    return pull_of(*users, k=k, file={"path": str(path), **WIDE, **more})


NUMBERS, TEXTS = [[7, 5], [1, 2]], [["7", "5"], ["1", "2"]]
KEYS = pa.array(["7", "8"])
FIXED, DECIMALS = pa.list_(pa.float32(), 2), pa.list_(pa.decimal128(9, 3))


@pytest.mark.parametrize(
    "items, users, scores",
    [
        (pa.array(NUMBERS, pa.list_(pa.uint64())), KEYS.cast(pa.int32()), pa.list_(pa.float16())),
        (pa.array(NUMBERS, pa.list_(pa.int64(), 2)), KEYS.dictionary_encode(), FIXED),
        (pa.array(NUMBERS, pa.list_(pa.float16())), KEYS.cast(pa.float64()), DECIMALS),
        (pa.array(TEXTS, pa.large_list(pa.large_string())), KEYS, pa.large_list(pa.uint64())),
    ],
)
def test_lists_of_every_kind_of_id_and_score_are_read_for_every_kind_of_key(
    items, users, scores, tmp_path
):
    path = parquet(tmp_path, user=users, items=items, scores=pa.array([[4, 3], [2, 1]], scores))

    pull = wide(path, "8", "7", scores="scores")

    assert as_lists(pull) == {"7": ["7", "5"], "8": ["1", "2"]}
    assert str(pull.rankings.scores) in {"[4. 3. 2. 1.]", "[2. 1. 4. 3.]"}


@pytest.mark.parametrize("column", ["user", "items"])
def test_text_that_is_not_utf8_is_refused(column, tmp_path):
    broken = pa.array([b"caf\xe9"]).view(pa.string())
    columns = {"user": pa.array(["caf"]), "items": pa.array(["a"])} | {column: broken}
    columns["items"] = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), columns["items"])

    with pytest.raises(SourceError, match="has text that is not UTF-8: write it again"):
        wide(parquet(tmp_path, **columns), "caf")


@pytest.mark.parametrize(
    "kept, rows", [("csv", 600), ("tsv", 600), ("jsonl", 600), ("parquet", 15_000)]
)
def test_rows_in_order_need_no_rank_even_if_there_are_many_rows_in_several_parts(
    kept, rows, tmp_path
):
    users, items = [f"u{n % 3}" for n in range(rows)], [n * 7919 % 100_003 for n in range(rows)]
    table = pa.table({"user": users, "item": items})
    for part, taken in enumerate((table[: rows * 2 // 3], table[rows * 2 // 3 :])):
        WRITERS[f".{kept}"](taken, tmp_path / f"{part}.{kept}")

    options = {"path": str(tmp_path), "user": "user", "item": "item", "in_order": True}

    pull = pull_of("u0", "u2", file=options)

    assert as_lists(pull) == {"u0": list(map(str, items[::3])), "u2": list(map(str, items[2::3]))}


def test_long_form_is_ordered_by_rank_with_gaps_from_any_start_and_without_an_order_is_malformed(
    tmp_path,
):
    rows = """
        {"user": "a", "item": 30, "rank": 12}
        {"user": "b", "item": 9, "rank": 0}
        {"user": "a", "item": 10, "rank": -1}
        {"user": "a", "item": 20, "rank": 3.0}
        {"user": "tied", "item": 1, "rank": 1}
        {"user": "tied", "item": 2, "rank": 1}
        {"user": "no rank", "item": 3, "rank": null}
        {"user": "no item", "item": null, "rank": 1}
        {"user": "nan", "item": 4, "rank": NaN}
        {"user": "score", "item": 5, "rank": 3.5}
    """
    odd = ("tied", "no rank", "no item", "nan", "score")
    pull = pull_of("b", "a", *odd, **in_parquet(parsed(rows), tmp_path, **LONG))

    assert as_lists(pull) == {"a": ["10", "20", "30"], "b": ["9"]}
    assert pull.failures == dict.fromkeys(odd, "malformed")
    assert {each.column: each.count for each in pull.unreadable if each.count} == {
        "item": 1,
        "rank": 3,
    }


def test_csv_keeps_leading_zeros_and_the_word_na(tmp_path):
    path = tmp_path / "lists.csv"
    path.write_text('user,item,rank\n007,010,1\n007,NA,2\nNA,"x,y",1\n007,z,oops\n8,1,1\n')

    pull = pull_of("007", "NA", "8", "7", file={"path": str(path), **LONG})

    assert as_lists(pull) == {"NA": ["x,y"], "8": ["1"]}
    assert pull.failures == {"007": "malformed"}


def test_json_lines_may_mix_types_and_one_odd_line_costs_one_user(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text("""
        {"user": 1, "items": [1, "b", 3.0]}
        {"user": "nested", "items": [[1]]}

        {"user": "null", "items": null}
        {"user": "none"}
        {"user": "text", "items": "[4, 5]"}
        {"user": "twice", "items": [1]}
        {"user": "twice", "items": [1]}
        {"user": null, "items": [1]}""")

    pull = wide(path, "1", "nested", "null", "none", "text", "twice")

    assert as_lists(pull) == {"1": ["1", "b", "3"], "text": ["4", "5"]}
    assert pull.failures == {
        "nested": "malformed",
        "null": "missing",
        "none": "missing",
        "twice": "duplicate_user",
    }
    assert pull.notes.keys() == set(pull.failures.values())


def test_the_format_may_be_set_if_the_suffix_does_not_say_it(tmp_path):
    path = parquet(tmp_path, user=["a"], items=[[1]]).rename(tmp_path / "lists.bin")

    assert as_lists(wide(path, "a", format="parquet")) == {"a": ["1"]}
    with pytest.raises(
        SourceError, match=r"the format of .*lists\.bin is unknown: use a suffix .* or set format"
    ):
        wide(path, "a")


DAMAGED = {"a.parquet": b"", "a.csv": b"", "a.csv.gz": b"user,items\n", "a.jsonl": b"[" * 100_000}


@pytest.mark.parametrize("name, content", DAMAGED.items())
def test_a_damaged_file_is_one_line(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(SourceError, match=r"a\.\w+") as caught:
        wide(tmp_path / name, "a")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("pattern", ["", "**/*.parquet", "[ab].parquet"])
def test_parts_are_read_together_and_a_user_in_two_of_them_is_a_duplicate(pattern, tmp_path):
    parquet(tmp_path / "a.parquet", user=["u1", "twice"], items=[[1, 2], [3]])
    parquet(tmp_path / "b.parquet", user=["u2", "twice"], items=[[4], [3]])
    (tmp_path / "_SUCCESS").touch()

    found = wide(tmp_path / pattern, "u1", "u2", "twice")

    assert as_lists(found) == {"u1": ["1", "2"], "u2": ["4"]}
    assert found.failures == {"twice": "duplicate_user"}


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda path: parquet(path, user=["b"]), r"b\.parquet has no column 'items'"),
        (
            lambda path: path.with_suffix(".csv").touch(),
            r"files of several formats \(csv, parquet\)",
        ),
    ],
)
def test_a_part_that_does_not_fit_is_named(damage, reason, tmp_path):
    parquet(tmp_path / "a.parquet", user=["a"], items=[[1]])
    damage(tmp_path / "b.parquet")

    with pytest.raises(SourceError, match=reason):
        wide(tmp_path, "a")


def test_csv_parts_have_one_header(tmp_path):
    (tmp_path / "a.csv").write_text('user,items\na,"[1]"\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b'items,user\n"[1]",b\n'))

    with pytest.raises(
        SourceError,
        match=r"the header or the line ends of .*b\.csv\.gz differ from those of .*a\.csv",
    ):
        wide(tmp_path, "a")


def test_a_column_that_occurs_twice_is_an_error(tmp_path):
    twice = pa.table([["a"], [[1]], [[2]]], names=["user", "items", "items"])
    pq.write_table(twice, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("user,items,items\na,[1],[2]\n")

    for name in ("a.parquet", "a.csv"):
        with pytest.raises(SourceError, match="several columns 'items'"):
            wide(tmp_path / name, "a")
