"""Users and segments from files, databases and HTTP, or all users of the baseline."""

import re
from contextlib import closing

import pytest
import yaml

from monitor.model.errors import ConfigError, SourceError
from monitor.service.composition import open_wiring
from monitor.settings.configuration import Settings
from monitor.sources import SourceOptions, UsersOptions, open_users
from monitor.sources.file import FileUsersOptions
from monitor.sources.file.source import FileUsers
from monitor.sources.lookup_tables import build_user_table
from servers.answering import answering
from servers.lists import SLOT, fill_database
from sources.tables import writers
from tables import parsed

HTTP = SourceOptions.model_validate({"http": {"url": "http://host/{user}"}})


def users_of(options, *dimensions, baseline=HTTP):
    """The users of a small table, of which one row is a large share."""
    given = {
        kind: {"max_unreadable": 0.5} | each if isinstance(each, dict) else each
        for kind, each in options.items()
    }
    return open_users(UsersOptions.model_validate(given), baseline).users(SLOT, dimensions)


def segments(table):
    """Segment values as plain lists, None for no value."""
    return {
        name: [value if isinstance(value, str) else None for value in column]
        for name, column in table.segments.items()
    }


NAMES = ("id", "country", "paid", "age", "more")
ROWS = parsed("""
    [3, "UK", true, 30.0, [1]]
    [1, null, false, null, []]
    [3, "FR", false, 31.0, []]
    [null, "DE", true, 4.0, []]
    [2, "", null, 5.0, []]
""")
KINDS = writers(NAMES, user="id")


def sqlite(rows, folder):
    """Booleans are texts there, and lists are bytes."""
    told = {None: None, True: "true", False: "false"}
    return KINDS["sqlite"]([(*row[:2], told[row[2]], row[3], b"x") for row in rows], folder)


every_kind = pytest.mark.parametrize("write", [KINDS["parquet"], KINDS["jsonl"], sqlite])


@every_kind
def test_each_user_counts_once_with_the_first_row_of_a_table_and_the_least_values_of_files(
    write, tmp_path
):
    options = write(ROWS, tmp_path)
    table = users_of(options, "id", "country", "paid", "age")

    listed_twice = ["3", "UK", "true", "30"] if "sql" in options else ["3", "FR", "false", "30"]
    assert table.users.dtype == "str"
    assert sorted(zip(table.users, *segments(table).values(), strict=True)) == [
        ("1", "1", None, "false", None),
        ("2", "2", None, None, "5"),
        ("3", *listed_twice),
    ]


@every_kind
def test_a_segment_that_is_no_column_or_holds_lists_or_bytes_is_refused(write, tmp_path):
    options = write(ROWS, tmp_path)
    for segment, reason in (
        (
            "county",
            r"no column 'county' \(did you mean 'country'\?\): it has id, country, paid|no such column \(county\)",
        ),
        ("more", r"column 'more' of .* must hold text, numbers or booleans"),
    ):
        with pytest.raises(SourceError) as caught:
            users_of(options, segment)
        assert re.search(reason, caught.value.shown)


OVER_HTTP = parsed("""
    [["u1", 2, null, "u1"], ["u1", "2"], {}]
    [[{"id": 3, "country": "UK"}, {"id": "b"}, {"country": "DE"}], ["3", "b"], {"country": ["UK", null]}]
""")


@pytest.mark.parametrize("answer, users, found", OVER_HTTP)
def test_users_are_an_array_of_keys_or_of_objects_in_one_answer_over_http(answer, users, found):
    with answering(lambda *_: (200, {"data": answer})) as server:
        options = {"url": f"{server.url}/users/{{slot:%Y-%m-%d}}", "users": "data", "user": "id"}
        table = users_of({"http": options | {"token": "t", "timeout": "60s"}}, *found)
    assert (table.users.tolist(), segments(table)) == (users, found)
    (asked,) = server.requests
    assert (asked.path, asked.headers["authorization"]) == ("/users/2024-01-08", "Bearer t")


NO_USERS = parsed(r"""
    [404, [], {}, "answered 404 Not Found"]
    [200, {"users": ["a"]}, {}, "has no array at the path that `users` gives \\(@\\), in an object of users"]
    [200, ["a"], {"users": "length(@.b)"}, "answered no JSON to which users \\(length\\(@.b\\)\\) can be applied"]
    [200, ["a longer answer than a kilobyte"], {"max_bytes": 1024}, "answered with more than max_bytes, 1024"]
    [200, [{"id": 1, "country": "UK"}], {"user": "key"}, "has no column 'key': it has id, country"]
    [200, [], {}, "has no user"]
""")


@pytest.mark.parametrize("status, answer, options, told", NO_USERS)
def test_an_answer_without_users_is_reported(status, answer, options, told):
    answer = answer * 100 if "max_bytes" in options else answer
    with answering(lambda *_: (status, answer)) as server, pytest.raises(SourceError) as caught:
        users_of({"http": {"url": server.url, "timeout": "60s", **options}})
    assert re.search(told, caught.value.shown)


def test_files_of_users_are_read_again_after_they_changed(tmp_path):
    file = tmp_path / "users.csv"
    file.write_text("id,country\n007,NA\n8,\n")
    source = FileUsers(FileUsersOptions(path=str(file), user="id"))

    first, second = source.users(SLOT, ()), source.users(SLOT, ())
    assert second is first
    assert first.users.tolist() == ["007", "8"]
    assert segments(source.users(SLOT, ("country",))) == {"country": ["NA", None]}

    file.write_text("id\n1\n")
    assert source.users(SLOT, ()).users.tolist() == ["1"]


def test_files_that_are_replaced_while_they_are_read_are_read_again(tmp_path, monkeypatch):
    """Once. Then it is an error, see "grows meanwhile" in faults.yaml."""
    file, new = tmp_path / "users.csv", tmp_path / "new"
    file.write_text("id\n1\n")
    new.write_text("id\n7\n")

    def replaced_meanwhile(*rows):
        if new.exists():
            new.replace(file)
        return build_user_table(*rows)

    monkeypatch.setattr("monitor.sources.file.source.build_user_table", replaced_meanwhile)
    assert users_of({"file": {"path": str(file), "user": "id"}}).users.tolist() == ["7"]


BINDING = yaml.safe_load(
    "{sql: {url: 'sqlite:///x.db', query: SELECT u FROM t WHERE u IN :users, user: u, items: u}}"
)


def test_all_needs_a_baseline_that_can_list_its_users():
    with pytest.raises(
        ConfigError, match=r"http cannot list its users: give users.http or users.file or users.sql"
    ):
        users_of({"all": True})
    with pytest.raises(ConfigError, match=r"^needs a table, or a query without :users"):
        users_of({"all": True}, baseline=SourceOptions.model_validate(BINDING))


def test_a_comparison_whose_query_binds_users_is_wired():
    feed = {"name": "feed", "every": "1h", "baseline": BINDING, "candidate": BINDING}
    feed["users"] = {"file": {"path": "users.csv", "user": "u"}}

    with closing(open_wiring(Settings.model_validate({"comparisons": [feed]}))) as wiring:
        assert list(wiring.watched) == ["feed"]


def test_a_query_of_users_may_use_the_slot_and_has_a_time_limit(database_url):
    fill_database(database_url, {})
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS who FROM n WHERE x < 0"

    sql = {"url": database_url, "user": "who"}
    table = users_of({"sql": sql | {"query": "SELECT 'a' AS who WHERE :slot > '2024-01-01'"}})

    assert table.users.tolist() == ["a"]
    with pytest.raises(SourceError, match="did not send all rows within 300ms"):
        users_of({"sql": sql | {"query": endless, "timeout": "300ms"}})
