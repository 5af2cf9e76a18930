"""What users found relevant: files that come a day later, tables, both forms, and every odd part of them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import RelevanceTable
from monitor.sources import RelevanceOptions, open_relevance
from servers.lists import SLOT
from sources.tables import Write, case, writers
from tables import parsed

NAMES = ("who", "what", "how")
WIDE = {"user": "who", "items": "what", "grades": "how"}
LONG = {"user": "who", "item": "what", "grade": "how"}
Graded = list[tuple[Any, list[Any] | None, list[Any] | None]]


def read(slot: datetime = SLOT, **options: Any) -> RelevanceTable | None:
    """Of a small table, of which one row is a large share."""
    given = {
        kind: each | {"max_unreadable": 1} if isinstance(each, dict) else each
        for kind, each in options.items()
    }
    return open_relevance(RelevanceOptions.model_validate(given)).relevance(slot)


def by_user(table: RelevanceTable | None) -> dict[str, dict[str, float]]:
    assert table is not None
    assert [str(column.dtype) for column in (table.offsets, table.grades, table.users)] == [
        "int64",
        "float64",
        "str",
    ]
    found = {}
    for row, user in enumerate(table.users):
        part = slice(table.offsets[row], table.offsets[row + 1])
        found[user] = dict(
            zip(map(str, table.items[part]), table.grades[part].tolist(), strict=True)
        )
        assert len(found[user]) == len(table.items[part]), "each item counts once"
    return found


def long(write: Write) -> Write:
    """One item a row, users mixed."""

    def written(rows: Graded, folder: Path) -> dict[str, Any]:
        flat = [
            (user, *each)
            for user, items, grades in rows
            for each in zip(items or [], grades or [], strict=True)
        ]
        return write(flat[::2] + flat[1::2], folder)

    return written


OF_LISTS = writers(NAMES, **WIDE)
OF_ITEMS = {form: long(write) for form, write in writers(NAMES, **LONG).items()}
every_kind = pytest.mark.parametrize("write", [*OF_LISTS.values(), *OF_ITEMS.values()])
either_form = pytest.mark.parametrize("write", [OF_LISTS["parquet"], OF_ITEMS["csv"]])


@every_kind
def test_users_grade_items_and_of_an_item_graded_twice_the_highest_grade_counts(write, tmp_path):
    rows: Graded = [
        ("b", [3, 9, 1, 3, 3], [1, 0.5, 0, 3, 2]),
        ("c", [9, 1], [2, 0.5]),
        ("a", [42, 42], [0.5, 0.5]),
    ]

    found = by_user(read(**write(rows, tmp_path)))

    assert found == {
        "b": {"3": 3.0, "9": 0.5, "1": 0.0},
        "c": {"9": 2.0, "1": 0.5},
        "a": {"42": 0.5},
    }


@either_form
def test_without_grades_each_item_has_grade_one(write, tmp_path):
    (options,) = write([("b", [3, 9], [5, 0])], tmp_path).values()

    assert by_user(read(file={name: options[name] for name in options if "grade" not in name})) == {
        "b": {"3": 1.0, "9": 1.0}
    }


def test_a_number_and_its_text_are_one_item(tmp_path):
    assert by_user(read(**OF_LISTS["jsonl"]([("b", [3, "3", "x"], [1, 2, 1])], tmp_path))) == {
        "b": {"3": 2.0, "x": 1.0}
    }


REFUSED = parsed("""
    ["either", ["b", [3, 4], [1, -1]], "has a grade that is not a number of at least 0$"]
    ["either", ["b", [3, 4], [1, null]], "has a grade that is not a number of at least 0$"]
    ["either", ["b", [3], [NaN]], "has a grade that is not a number of at least 0$"]
    ["either", ["b", [3], [Infinity]], "has a grade that is not a number of at least 0$"]
    ["wide", ["a", [3], [1]], "is in two rows: give each user one list$"]
    ["wide", ["b", [3, 4], [1]], "(has more or fewer grades|has no list of ids with one number)"]
    ["wide", ["b", [3, 4], [1, 1, 1]], "(has more or fewer grades|has no list of ids with one number)"]
    ["wide", ["b", [3, 4], null], "(has more or fewer grades|has no list of ids with one number)"]
    ["wide", ["b", [3, null], [1, 1]], "has (an item that is no id|no list of ids)"]
""")
CASES = [
    case(kept, OF_LISTS[kept], *refused)
    for kept in ("parquet", "jsonl", "sqlite")
    for _, *refused in REFUSED
]
CASES += [
    case(kept, OF_ITEMS[kept], *refused)
    for kept in ("parquet", "csv")
    for form, *refused in REFUSED
    if form == "either"
]


@pytest.mark.parametrize(("write", "row", "reason"), CASES)
def test_an_odd_row_is_refused_with_its_user(write, row, reason, tmp_path):
    with pytest.raises(SourceError, match=f"^user '{row[0]}' of .* {reason}"):
        read(**write([("a", [1], [1]), ("c", [1], [1]), row], tmp_path))


@pytest.mark.parametrize("write", OF_LISTS.values(), ids=OF_LISTS)
def test_a_row_without_a_user_counts_for_nobody_and_a_null_list_for_nothing(write, tmp_path):
    rows: Graded = [("a", [1], [1]), (None, [2], [-1]), ("b", [], []), ("c", None, None)]

    assert by_user(read(**write(rows, tmp_path))) == {"a": {"1": 1.0}, "b": {}, "c": {}}


def test_a_file_without_a_row_has_arrived_and_text_that_is_no_list_is_refused_with_its_user(
    tmp_path,
):
    path = tmp_path / "lists.csv"
    path.write_text("who,what,how\n", encoding="utf-8")
    assert by_user(read(file=LONG | {"path": str(path)})) == {}

    path.write_text('who,what\na,"[1]"\nb,"[2"\n', encoding="utf-8")
    with pytest.raises(SourceError, match=r"^user 'b' of .* has no list of ids"):
        read(file={"path": str(path), "user": "who", "items": "what"})


def test_a_query_without_a_row_has_not_arrived(tmp_path):
    (options,) = OF_ITEMS["sqlite"]([("a", [1], [1])], tmp_path).values()
    query = "SELECT who, what, how FROM filled WHERE date(:slot) = '2024-01-08'"
    of_a_day: Any = {"sql": LONG | {"url": options["url"], "query": query}}

    assert by_user(read(**of_a_day)) == {"a": {"1": 1.0}}
    assert read(datetime(2024, 1, 9, tzinfo=UTC), **of_a_day) is None


@pytest.mark.parametrize(
    ("items", "grades", "reason"),
    [
        (1, pa.array([1]), "and no lists: if each row has one item, give item and grade"),
        ([1], pa.array([["1"]]), "column .* holds .*: it must hold lists of numbers"),
    ],
)
def test_a_column_that_cannot_hold_lists_is_refused_with_advice(items, grades, reason, tmp_path):
    pq.write_table(pa.table({"who": ["a"], "what": [items], "how": grades}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=reason):
        read(file=WIDE | {"path": str(tmp_path / "x.parquet")})


def test_more_than_the_limit_is_refused(tmp_path):
    (options,) = OF_LISTS["parquet"](
        [("u", list(range(100_000)), [1.0] * 100_000)], tmp_path
    ).values()
    with pytest.raises(SourceError, match="more than 1048576 bytes"):
        read(file=options | {"max_bytes": 2**20})
