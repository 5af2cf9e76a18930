"""What users found relevant: files that come a day later, tables, both forms, and every odd part of them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import RelevanceTable
from monitor.sources import RelevanceOptions, open_relevance
from servers.lists import SLOT
from sources.tables import FORMATS, Write, writers

WIDE = {"user": "who", "items": "what", "grades": "how"}
LONG = {"user": "who", "item": "what", "grade": "how"}

Graded = list[tuple[Any, list[Any] | None, list[Any] | None]]


def read(slot: datetime = SLOT, **options: Any) -> RelevanceTable | None:
    """Of a small table, of which one row is a large share."""
    given = {kind: each | {"max_unreadable": 1} if isinstance(each, dict) else each for kind, each in options.items()}
    return open_relevance(RelevanceOptions.model_validate(given)).relevance(slot)


def by_user(table: RelevanceTable | None) -> dict[str, dict[str, float]]:
    assert table is not None
    assert [str(column.dtype) for column in (table.offsets, table.grades, table.users)] == ["int64", "float64", "str"]
    assert table.users.is_unique
    assert table.offsets[-1] == len(table.items) == len(table.grades)
    found = {}
    for row, user in enumerate(table.users):
        part = slice(table.offsets[row], table.offsets[row + 1])
        items = [str(item) for item in table.items[part]]
        assert len(set(items)) == len(items)
        found[user] = dict(zip(items, table.grades[part].tolist(), strict=True))
    return found


def on_its_day(options: dict[str, Any]) -> dict[str, Any]:
    """The database's rows for one slot, and none for others."""
    query = "SELECT who, what, how FROM filled WHERE date(:slot) = '2024-01-08'"
    return {"sql": LONG | {"url": options["sql"]["url"], "query": query}}


def long(write: Write) -> Write:
    """One item a row, users mixed."""

    def written(rows: Graded, folder: Path) -> dict[str, Any]:
        flat = [(user, *each) for user, items, grades in rows for each in zip(items or [], grades or [], strict=True)]
        return write(flat[::2] + flat[1::2], folder)

    return written


NAMES = ("who", "what", "how")
OF_LISTS = dict(zip(FORMATS, writers(NAMES, **WIDE), strict=True))
OF_ITEMS = dict(zip(FORMATS, map(long, writers(NAMES, **LONG)), strict=True))
KINDS = {f"{name} {form}": write for form, of in (("wide", OF_LISTS), ("long", OF_ITEMS)) for name, write in of.items()}
every_kind = pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
every_wide = pytest.mark.parametrize("write", OF_LISTS.values(), ids=OF_LISTS)


@every_kind
def test_users_grade_items_and_of_an_item_graded_twice_the_highest_grade_counts(write: Write, tmp_path: Path) -> None:
    rows: Graded = [("b", [3, 9, 1, 3, 3], [1, 0.5, 0, 3, 2]), ("a", [42, 42], [0.5, 0.5])]

    assert by_user(read(**write(rows, tmp_path))) == {"b": {"3": 3.0, "9": 0.5, "1": 0.0}, "a": {"42": 0.5}}


@every_kind
def test_without_grades_each_item_has_grade_one(write: Write, tmp_path: Path) -> None:
    ((place, options),) = write([("b", [3, 9], [5, 0])], tmp_path).items()
    bare = {name: value for name, value in options.items() if name not in ("grades", "grade")}

    bare_source: dict[str, Any] = {place: bare}
    assert by_user(read(**bare_source)) == {"b": {"3": 1.0, "9": 1.0}}


def test_a_number_and_its_text_are_one_item(tmp_path: Path) -> None:
    assert by_user(read(**OF_LISTS["jsonl"]([("b", [3, "3", "x"], [1, 2, 1])], tmp_path))) == {"b": {"3": 2.0, "x": 1.0}}


@every_wide
def test_a_user_who_stands_in_two_rows_of_lists_is_refused_by_name(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^user 'b' of .* stands in two rows: give each user one list$"):
        read(**write([("b", [3], [1]), ("a", [3], [1]), ("c", [3], [1]), ("b", [4], [1])], tmp_path))


IN_PARQUET = (OF_LISTS["parquet"], OF_ITEMS["parquet"])
BAD_GRADES: list[tuple[float | None, Write]] = [*((grade, write) for grade in (-1, None) for write in KINDS.values())]
BAD_GRADES += [(float(text), write) for text in ("nan", "inf") for write in IN_PARQUET]


@pytest.mark.parametrize(("grade", "write"), BAD_GRADES)
def test_a_grade_that_is_no_finite_number_from_0_up_is_refused_with_its_user(write: Write, grade: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^user 'b' of .* has a grade that is no number from 0 up$"):
        read(**write([("a", [1, 2], [1.0, 1.0]), ("b", [3, 4], [1.0, grade])], tmp_path))


@every_wide
@pytest.mark.parametrize("grades", [[1], [1, 1, 1], None], ids=["fewer", "more", "null"])
def test_grades_that_are_not_as_many_as_items_are_refused(write: Write, grades: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^user 'b' of .*(another number of grades|as many numbers as grades)"):
        read(**write([("a", [1], [1]), ("b", [3, 4], grades)], tmp_path))


@every_wide
def test_an_item_that_is_no_id_is_refused_with_its_user(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^user 'b' of .* has (an item that is no id|no list of ids)"):
        read(**write([("a", [1], [1]), ("b", [3, None], [1, 1])], tmp_path))


def test_text_that_is_no_list_is_refused_with_its_user(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text('who,what\na,"[1]"\nb,"[2"\n', encoding="utf-8")
    with pytest.raises(SourceError, match=r"^user 'b' of .* has no list of ids"):
        read(file={"path": str(tmp_path / "wide.csv"), "user": "who", "items": "what"})


@every_wide
def test_a_row_without_a_user_counts_for_nobody_and_a_null_list_for_nothing(write: Write, tmp_path: Path) -> None:
    rows: Graded = [("a", [1], [1]), (None, [2], [-1]), ("b", [], []), ("c", None, None)]

    assert by_user(read(**write(rows, tmp_path))) == {"a": {"1": 1.0}, "b": {}, "c": {}}


def test_a_file_without_a_row_has_arrived(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("who,what,how\n", encoding="utf-8")

    assert by_user(read(file=LONG | {"path": str(tmp_path / "long.csv")})) == {}


def test_a_query_without_a_row_has_not_arrived(tmp_path: Path) -> None:
    options = on_its_day(OF_ITEMS["sqlite"]([("a", [1], [1])], tmp_path))

    assert by_user(read(**options)) == {"a": {"1": 1.0}}
    assert read(datetime(2024, 1, 9, tzinfo=UTC), **options) is None


@pytest.mark.parametrize(
    ("items", "grades", "told"),
    [
        (1, pa.array([1]), "expected lists: for one item a row give item and grade"),
        ([1], pa.array([["1"]]), "column .* holds .*: it must hold lists of numbers"),
        ([1], pa.array([1.0]), "column .* holds .*: it must hold lists of numbers"),
    ],
)
def test_a_column_that_cannot_hold_lists_is_refused_with_advice(
    items: Any, grades: pa.Array, told: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"who": ["a"], "what": [items], "how": grades}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=told):
        read(file=WIDE | {"path": str(tmp_path / "x.parquet")})


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    options = OF_LISTS["parquet"]([(f"u{n}", list(range(50)), [1.0] * 50) for n in range(2000)], tmp_path)["file"]
    with pytest.raises(SourceError, match="more than 1048576 bytes"):
        read(file=options | {"max_bytes": 2**20})


def test_both_forms_agree_on_any_grades(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows: Graded = [
        (f"u{n}", rng.integers(0, 20, size).tolist(), (rng.integers(0, 4, size) / 2).tolist())
        for n, size in enumerate(rng.integers(1, 30, 200))
    ]
    expected = {
        user: {str(item): max(g for i, g in zip(items or [], grades or [], strict=True) if i == item) for item in items or []}
        for user, items, grades in rows
    }
    for write in KINDS.values():
        assert by_user(read(**write(rows, tmp_path))) == expected
