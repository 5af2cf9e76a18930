"""What users found relevant: files that come a day later, tables, both forms, and every odd part of them."""

import pytest

from factories import DAY
from monitor.model.errors import SourceError
from monitor.sources import RelevanceOptions, open_relevance
from servers.lists import SLOT
from sources.tables import case, writers
from tables import parsed

NAMES = ("who", "what", "how")
WIDE = {"user": "who", "items": "what", "grades": "how"}
LONG = {"user": "who", "item": "what", "grade": "how"}


def read(slot=SLOT, **options):
    """Of a small table, of which one row is a large share."""
    given = {kind: each | {"max_unreadable": 1} for kind, each in options.items()}
    return open_relevance(RelevanceOptions.model_validate(given)).relevance(slot)


def by_user(table):
    columns = table.offsets, table.grades, table.users
    assert [str(column.dtype) for column in columns] == ["int64", "float64", "str"]
    found = {}
    for user, start, end in zip(table.users, table.offsets, table.offsets[1:], strict=False):
        items = list(map(str, table.items[start:end]))
        assert len(items) == len(set(items)), "each item counts once"
        found[user] = dict(zip(items, table.grades[start:end].tolist(), strict=True))
    return found


def long(write):
    """One item a row, users mixed."""

    def written(rows, folder):
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
    rows = parsed("""
        ["b", [3, 9, 1, 3, 3], [1, 0.5, 0, 3, 2]]
        ["c", [9, 1], [2, 0.5]]
        ["a", [42, 42], [0.5, 0.5]]
    """)
    (expected,) = parsed("""
        {"b": {"3": 3.0, "9": 0.5, "1": 0.0}, "c": {"9": 2.0, "1": 0.5}, "a": {"42": 0.5}}
    """)

    assert by_user(read(**write(rows, tmp_path))) == expected


@either_form
def test_without_grades_each_item_has_grade_one(write, tmp_path):
    options = write([("b", [3, 9], [5, 0])], tmp_path)["file"]
    ungraded = {name: options[name] for name in options if "grade" not in name}

    assert by_user(read(file=ungraded)) == {"b": {"3": 1.0, "9": 1.0}}


def test_a_number_and_its_text_are_one_item(tmp_path):
    found = read(**OF_LISTS["jsonl"]([("b", [3, "3", "x"], [1, 2, 1])], tmp_path))

    assert by_user(found) == {"b": {"3": 2.0, "x": 1.0}}


REFUSED = parsed("""
    [["b", [3, 4], [1, -1]], "has a grade that is not a number of at least 0$"]
    [["b", [3, 4], [1, null]], "has a grade that is not a number of at least 0$"]
    [["b", [3], [NaN]], "has a grade that is not a number of at least 0$"]
    [["b", [3], [Infinity]], "has a grade that is not a number of at least 0$"]
    [["a", [3], [1]], "is in two rows: give each user one list$"]
    [["b", [3, 4], [1]], "(has more or fewer grades|needs a list of ids, and one numeric grade)"]
    [["b", [3, 4], [1, 1, 1]], "(has more or fewer grades|needs a list of ids, and one numeric grade)"]
    [["b", [3, 4], null], "(has more or fewer grades|needs a list of ids, and one numeric grade)"]
    [["b", [3, null], [1, 1]], "(has an item that is no id|needs a list of ids)"]
""")
GRADES = REFUSED[:4]
CASES = [(kept, OF_LISTS[kept], odd) for kept in ("parquet", "jsonl", "sqlite") for odd in REFUSED]
CASES += [(kept, OF_ITEMS[kept], odd) for kept in ("parquet", "csv") for odd in GRADES]


@pytest.mark.parametrize(
    "write, row, reason", [case(kept, write, *odd) for kept, write, odd in CASES]
)
def test_an_odd_row_is_refused_with_its_user(write, row, reason, tmp_path):
    with pytest.raises(SourceError, match=f"^user '{row[0]}' of .* {reason}"):
        read(**write([("a", [1], [1]), ("c", [1], [1]), row], tmp_path))


@pytest.mark.parametrize("write", OF_LISTS.values(), ids=OF_LISTS)
def test_a_row_without_a_user_or_with_a_null_list_is_ignored(write, tmp_path):
    rows = [("a", [1], [1]), (None, [2], [-1]), ("b", [], []), ("c", None, None)]

    assert by_user(read(**write(rows, tmp_path))) == {"a": {"1": 1.0}, "b": {}, "c": {}}


def test_a_file_without_a_row_has_arrived_and_text_that_is_no_list_is_refused_with_its_user(
    tmp_path,
):
    path = tmp_path / "lists.csv"
    path.write_text("who,what,how\n")
    assert not by_user(read(file=LONG | {"path": str(path)}))

    path.write_text('who,what\na,"[1]"\nb,"[2"\n')
    with pytest.raises(SourceError, match=r"^user 'b' of .* needs a list of ids"):
        read(file={"path": str(path), "user": "who", "items": "what"})


def test_a_query_without_a_row_has_not_arrived(tmp_path):
    url = OF_ITEMS["sqlite"]([("a", [1], [1])], tmp_path)["sql"]["url"]
    query = "SELECT who, what, how FROM filled WHERE date(:slot) = '2024-01-08'"
    of_a_day = {"sql": LONG | {"url": url, "query": query}}

    assert by_user(read(**of_a_day)) == {"a": {"1": 1.0}}
    assert read(SLOT + DAY, **of_a_day) is None


@pytest.mark.parametrize(
    "items, grades, reason",
    parsed("""
        [1, 1, "and no lists: if each row has one item, give item and grade"]
        [[1], ["1"], "column .* holds .*: it must hold lists of numbers"]
    """),
)
def test_a_column_that_cannot_hold_lists_is_refused_with_advice(items, grades, reason, tmp_path):
    with pytest.raises(SourceError, match=reason):
        read(**OF_LISTS["parquet"]([("a", items, grades)], tmp_path))
