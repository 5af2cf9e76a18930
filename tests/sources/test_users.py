"""Who may be asked: users and segments from files and databases, or everybody the baseline has."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from monitor.errors import ConfigError, SourceError
from monitor.model.rankings import UserTable
from monitor.sources import SourceOptions, UsersOptions, open_users
from monitor.sources.lookup_tables import user_table
from servers.answering import answering
from servers.lists import SLOT, fill_database
from servers.recommender import Asked
from sources.tables import FORMATS, Write, jsonl, parquet, writers

HTTP = SourceOptions.model_validate({"http": {"url": "http://host/{user}"}})


def users_of(options: dict[str, Any], *dimensions: str, baseline: SourceOptions = HTTP) -> UserTable:
    """The users of a small table, of which one row is a large share."""
    given = {kind: each | {"max_unreadable": 1} if isinstance(each, dict) else each for kind, each in options.items()}
    return open_users(UsersOptions.model_validate(given), baseline).users(SLOT, dimensions)


def segments(table: UserTable) -> dict[str, list[Any]]:
    """Segment values as plain lists, None for no value."""
    return {name: [value if isinstance(value, str) else None for value in column] for name, column in table.segments.items()}


ROWS: list[dict[str, Any]] = [
    {"id": 3, "country": "UK", "paid": True, "age": 30.0, "more": [1]},
    {"id": 1, "country": None, "paid": False, "age": None, "more": []},
    {"id": 3, "country": "FR", "paid": False, "age": 31.0, "more": []},
    {"id": None, "country": "DE", "paid": True, "age": 4.0, "more": []},
    {"id": 2, "country": "", "paid": None, "age": 5.0, "more": []},
]


def sqlite(folder: Path) -> dict[str, Any]:
    url = f"sqlite:///{folder / 'users.db'}"
    engine = sa.create_engine(url)
    rows = [row | {"paid": None if row["paid"] is None else str(row["paid"]).lower(), "more": b"x"} for row in ROWS]
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE users (id integer, country text, paid text, age real, more blob)"))
        connection.execute(sa.text("INSERT INTO users VALUES (:id, :country, :paid, :age, :more)"), rows)
    engine.dispose()
    return {"sql": {"url": url, "table": "users", "user": "id"}}


every_kind = pytest.mark.parametrize(
    "write", [partial(parquet, ROWS, user="id"), partial(jsonl, ROWS, user="id"), sqlite], ids=["parquet", "jsonl", "sqlite"]
)


@every_kind
def test_each_user_counts_once_with_the_first_row_of_a_table_and_the_least_values_of_files(write: Any, tmp_path: Path) -> None:
    options = write(tmp_path)
    table = users_of(options, "country", "paid", "age")

    found = {user: values for user, *values in zip(table.users, *segments(table).values(), strict=True)}
    assert table.users.dtype == "str"
    assert len(table.users) == 3
    listed_twice = ["UK", "true", "30"] if "sql" in options else ["FR", "false", "30"]
    assert found == {"3": listed_twice, "1": [None, "false", None], "2": [None, None, "5"]}


@every_kind
def test_a_segment_that_is_no_column_is_told_with_those_that_are(write: Any, tmp_path: Path) -> None:
    options = write(tmp_path)
    if "sql" in options:
        options = {"sql": {"url": options["sql"]["url"], "query": "SELECT * FROM users", "user": "id"}}

    with pytest.raises(SourceError, match="no column 'county': check the name in the options") as caught:
        users_of(options, "county")
    assert "no column 'county' (did you mean 'country'?): it has id, country, paid" in caught.value.shown


@every_kind
def test_a_segment_of_lists_or_bytes_is_refused(write: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"segment column 'more' of .* must hold text, numbers or booleans"):
        users_of(write(tmp_path), "more")


@pytest.mark.parametrize(
    ("users", "found"),
    [
        (["u1", 2, None, "u1"], (["u1", "2"], {})),
        ([{"id": 3, "country": "UK"}, {"id": "b"}, {"country": "DE"}], (["3", "b"], {"country": ["UK", None]})),
    ],
)
def test_users_are_an_array_of_keys_or_of_objects_in_one_answer_over_http(users: list[Any], found: Any) -> None:
    seen = list[Asked]()
    with answering(lambda *_: (200, {"data": users}), seen) as url:
        options = {"url": f"{url}/users/{{slot:%Y-%m-%d}}", "users": "data", "user": "id", "token": "t", "timeout": "60s"}
        table = users_of({"http": options}, *found[1])
    assert (table.users.tolist(), segments(table)) == found
    (asked,) = seen
    assert (asked.target, asked.headers["authorization"]) == ("/users/2024-01-08", "Bearer t")


@pytest.mark.parametrize(
    ("status", "answer", "options", "told"),
    [
        (404, [], {}, "answered 404 Not Found"),
        (200, {"users": ["a"]}, {}, r"has no array where users says \(@\), in an object of users"),
        (200, ["a"], {"users": "length(@.b)"}, r"answered no JSON to which users \(length\(@.b\)\) can be applied"),
        (200, ["x" * 2000], {"max_bytes": 1024}, "answered with more than max_bytes, 1024"),
        (200, [{"id": 1, "country": "UK"}], {"user": "key"}, "has no column 'key': it has id, country"),
        (200, [], {}, "holds no user"),
    ],
)
def test_an_answer_that_holds_no_users_is_told(status: int, answer: Any, options: dict[str, Any], told: str) -> None:
    with answering(lambda *_: (status, answer)) as url, pytest.raises(SourceError) as caught:
        users_of({"http": {"url": url, "timeout": "60s", **options}})
    assert re.search(told, caught.value.shown)


def test_a_csv_of_users_keeps_its_spelling(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,country\n007,NA\n8,\n", encoding="utf-8")

    table = users_of({"file": {"path": str(tmp_path / "users.csv"), "user": "id"}}, "country")

    assert table.users.tolist() == ["007", "8"]
    assert segments(table) == {"country": ["NA", None]}


def test_files_of_users_are_read_anew_once_they_changed(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text("id\n1\n", encoding="utf-8")
    source = open_users(UsersOptions.model_validate({"file": {"path": str(file), "user": "id"}}), HTTP)

    first, second = source.users(SLOT, ()), source.users(SLOT, ())
    with_segments = source.users(SLOT, ("id",))
    file.write_text("id\n1\n2\n", encoding="utf-8")

    assert second is first
    assert segments(with_segments) == {"id": ["1"]}
    assert source.users(SLOT, ()).users.tolist() == ["1", "2"]


@pytest.mark.parametrize("times", [1, 3])
def test_files_that_are_replaced_while_they_are_read_are_read_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, left = tmp_path / "users.csv", [times]
    file.write_text("id\n1\n", encoding="utf-8")

    def replaced_meanwhile(*rows: Any) -> UserTable:
        if left[0]:
            left[0] -= 1
            (tmp_path / "new").write_text(f"id\n{left[0] + 7}\n", encoding="utf-8")
            (tmp_path / "new").replace(file)
        return user_table(*rows)

    monkeypatch.setattr("monitor.sources.file.source.user_table", replaced_meanwhile)
    options = {"file": {"path": str(file), "user": "id"}}
    if times == 1:
        assert users_of(options).users.tolist() == ["7"]
    else:
        with pytest.raises(SourceError, match="was written anew while it was read"):
            users_of(options)


def test_the_user_column_may_be_a_segment_too(tmp_path: Path) -> None:
    table = users_of(parquet(ROWS, tmp_path, user="id"), "id")

    assert segments(table) == {"id": table.users.tolist()}
    assert sorted(table.users) == ["1", "2", "3"]


@pytest.mark.parametrize("write", writers(("id", "paid"), user="id"), ids=FORMATS)
def test_not_one_user_is_an_error(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no user"):
        users_of(write([(None, 1), ("", 2)], tmp_path))


def test_all_is_every_user_of_the_baselines_file_in_either_form(tmp_path: Path) -> None:
    columns = {"id": ["b", "a", "b"], "item": [1, 2, 3], "rank": [1, 1, 2], "country": ["UK", "FR", "UK"]}
    pq.write_table(pa.table(columns), tmp_path / "2024-01-08.parquet")
    path = str(tmp_path / "{slot:%Y-%m-%d}.parquet")
    baseline = SourceOptions.model_validate({"file": {"path": path, "user": "id", "item": "item", "rank": "rank"}})

    table = users_of({"all": True, "segments": ["country"]}, "country", baseline=baseline)

    assert dict(zip(table.users, segments(table)["country"], strict=True)) == {"a": "FR", "b": "UK"}


def test_all_needs_a_baseline_that_can_list_its_users() -> None:
    query = {"url": "sqlite:///x.db", "query": "SELECT * FROM t WHERE u IN :users", "user": "u", "items": "i"}

    with pytest.raises(ConfigError, match=r"http cannot list its users: give users.http or users.file or users.sql"):
        users_of({"all": True})
    with pytest.raises(ConfigError, match="all: true needs a table, or a query without :users"):
        users_of({"all": True}, baseline=SourceOptions.model_validate({"sql": query}))


def test_a_query_of_users_may_use_the_slot_and_has_a_time_limit(database_url: str) -> None:
    fill_database(database_url, {})
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS who FROM n WHERE x < 0"

    table = users_of({"sql": {"url": database_url, "query": "SELECT 'a' AS who WHERE :slot > '2024-01-01'", "user": "who"}})

    assert table.users.tolist() == ["a"]
    with pytest.raises(SourceError, match="did not give all rows within 300ms"):
        users_of({"sql": {"url": database_url, "query": endless, "user": "who", "timeout": "300ms"}})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"all": False}, "True"),
        ({"all": True, "sample": 0}, "greater than or equal to 1"),
        ({"all": True, "sample": {}}, "fixed or rotating"),
        ({"all": True, "segments": ["a", "a"]}, "twice"),
        ({"all": True, "segments": ["a=b"]}, "no ="),
    ],
)
def test_bad_users_are_told(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        UsersOptions.model_validate(options)
