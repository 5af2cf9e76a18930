"""Unreadable rows: every row is used or counted with a reason, and too many unreadable rows fail the source."""

import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from factories import MINUTE
from monitor.measures.reading.ids import user_key
from monitor.model.errors import SourceError, UnreadableError
from monitor.model.rankings import CoverageReason
from monitor.model.unreadable import ColumnKind, Unreadable, add_up, require_readable
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.sources import RelevanceOptions, open_relevance
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from servers.lists import SLOT, as_lists, pull_of, request
from servers.redis import emptied_redis, shared_redis
from sources.file.test_joined import arms_of, measure
from sources.tables import WRITERS, case, database, jsonl, source_with
from sources.test_users import users_of
from tables import parsed

AT = SLOT - MINUTE


unreadable = partial(
    Unreadable, where="a.csv", column="user", need=ColumnKind.IDS, count=1, rows=100, found="null"
)


def test_the_share_decides_and_the_limit_itself_is_allowed():
    require_readable([unreadable()], 0.01)
    require_readable([unreadable(count=0, rows=0)], 0)
    with pytest.raises(
        UnreadableError,
        match=r"^column 'user' of a\.csv: 2 of 100 rows cannot be read \(null\): ids must be",
    ):
        require_readable([unreadable(), unreadable(rows=0)], 0.01)


def test_parts_of_a_column_are_added_and_the_first_example_is_kept():
    items = unreadable(column="items", rows=5)
    parts = [unreadable(count=0, found=""), unreadable(count=2, example="'x'"), items]

    assert add_up(parts) == (unreadable(count=2, rows=200, example="'x'"), items)


def test_an_example_is_shown_on_one_line_and_only_where_it_may_be():
    with pytest.raises(UnreadableError) as caught:
        require_readable([unreadable(count=9, example="'eve\n\x1b[31m'" + "x" * 99)], 0.01)

    assert "eve" not in str(caught.value)
    assert "such as 'eve  [31m'xxx" in caught.value.shown


WIDE: Any = {"user": "who", "items": "what"}
LONG = {"user": "who", "item": "what", "rank": "place"}
every_form = pytest.mark.parametrize(
    "write", [case(form, write) for form, write in WRITERS.items() if form != "jsonl"] + [jsonl]
)


def counts(found):
    """Rows that cannot be read, by column."""
    return {each.column: each.count for each in found.unreadable if each.count}


SPOILED = parsed("""
    ["parquet", [1.0, null], "null"]
    ["csv", [1, 0.5], "a number that is not whole"]
    ["jsonl", [1, 1152921504606846976.0], "a number too large to be exact in its type"]
    ["sqlite", [1, null], "null"]
""")


@pytest.mark.parametrize("form, items, found", SPOILED)
def test_rows_without_a_user_and_items_that_are_no_ids_fail_the_source_above_the_limit(
    form, items, found, tmp_path
):
    rows: Any = [{"who": f"u{n}", "what": [type(items[0])(n)]} for n in range(49)]
    asked = request("odd", *(row["who"] for row in rows))

    for column, odd, no_id in (("who", "", "empty text|null"), ("what", "odd", found)):
        given = WRITERS[form]([*rows, {"who": odd, "what": items}], tmp_path, **WIDE)
        with pytest.raises(
            UnreadableError, match=rf"column '{column}' of .*: 1 of 50 rows cannot be .*\({no_id}"
        ):
            source_with(given).pull(asked)
    pull = source_with(given, max_unreadable=0.02).pull(asked)
    assert (len(pull.rankings), pull.failures) == (49, {"odd": CoverageReason.MALFORMED})


@every_form
def test_the_unit_of_a_time_follows_from_its_size(write, tmp_path):
    moments = {"u": AT, "late": SLOT + MINUTE}
    rows: Any = [
        {"who": f"{name}{unit}", "what": [1], "at": int(at.timestamp()) * 10**unit}
        for name, at in moments.items()
        for unit in (0, 3, 6, 9)
    ]
    given = write(rows, tmp_path, **WIDE)

    asked = request(*(row["who"] for row in rows))
    pull = source_with(given, served={"time": "at", "within": "1h"}).pull(asked)

    assert as_lists(pull).keys() == {"u0", "u3", "u6", "u9"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "sqlite"])
def test_rows_whose_time_cannot_be_read_fail_the_source(form, tmp_path):
    odd = ["yesterday", "", "08/01/2024 12:00", None, "1e30"]
    rows: Any = [{"who": f"u{n}", "what": [n], "at": AT.isoformat()} for n in range(95)]
    rows += [{"who": "odd", "what": [1], "at": at} for at in odd]
    given, served = WRITERS[form](rows, tmp_path, **WIDE), {"time": "at", "within": "1h"}

    with pytest.raises(
        UnreadableError,
        match=r"column 'at' of .*: 5 of 100 rows cannot be read .*: times must be ISO",
    ):
        source_with(given, served=served).pull(request("u1"))
    pull = source_with(given, served=served, max_unreadable=0.05).pull(request("u1", "odd"))
    assert as_lists(pull) == {"u1": ["1"]}
    assert counts(pull) == {"at": 5}


def test_a_log_that_holds_nothing_of_the_time_names_its_newest_row(tmp_path):
    given = jsonl([{"who": "u", "what": [1], "at": 20240108}], tmp_path, **WIDE)

    with pytest.raises(
        SourceError, match=r"its newest row has the time 1970-08-23T06:15:08Z\): check the column"
    ):
        source_with(given, served={"time": "at", "within": "1h"}).pull(request("u"))


@every_form
def test_users_and_segments_are_counted(write, tmp_path):
    rows: Any = [{"who": f"u{n}", "land": "NO"} for n in range(98)]
    rows += [{"who": "", "land": "NO"}, {"who": "v", "land": "x" * 1001}]

    table = users_of(write(rows, tmp_path, user="who"), "land")

    assert len(table) == 99
    assert counts(table) == {"who": 1, "land": 1}


@every_form
def test_relevance_without_a_user_is_counted(write, tmp_path):
    rows: Any = [{"who": f"u{n}", "what": n} for n in range(99)]

    def read(nobody):
        given = write(rows + [{"who": "", "what": 1}] * nobody, tmp_path, user="who", item="what")
        return open_relevance(RelevanceOptions.model_validate(given)).relevance(SLOT)

    assert counts(read(1)) == {"who": 1}
    with pytest.raises(UnreadableError, match="2 of 101 rows"):
        read(2)


@pytest.mark.parametrize("is_private", [True, False])
def test_a_run_names_what_it_left_out_and_hides_examples_of_users_that_are_hidden(
    tmp_path, is_private
):
    rows: Any = [
        {"who": f"u{n}", "what": [n], "country": "NO", "tier": 1, "vip": True} for n in range(199)
    ]
    rows.append(rows[0] | {"who": {"name": "anna"}})
    path = jsonl(rows, tmp_path)["file"]["path"]
    lists, users = FileSourceOptions(path=path, **WIDE), FileUsersOptions(path=path, user="who")
    arms = arms_of(lists, lists, users)
    if is_private:
        arms = replace(arms, pseudonyms=Pseudonyms(b"key" * 11))
    else:
        arms = replace(arms, joined=None)

    found = measure(arms, slot=SLOT)

    (told,) = found.left_out
    assert told.startswith(f"column 'who' of {path}: 1 of 200 rows cannot be read (an object")
    assert f"write `who.{'FIELD' if is_private else 'name'}` in place of `who`" in told
    assert ("anna" in told) is not is_private
    assert found.coverage.all.paired == 199


# Every row of a random table is used exactly or counted.

good_items = st.lists(st.integers(-5, 99) | st.text("abé", min_size=1, max_size=3), max_size=4)
odd_items = st.sampled_from(
    [[None], [""], [1, 0.5], [2.0**60], ["x" * 1001], [True], [[1]], [{"a": 1}]]
)
odd_users = st.sampled_from([None, "", "x" * 1001])
users = st.integers(0, 30).map("u{}".format)
spoiled_rows = st.lists(
    st.tuples(
        st.one_of(users, users, users, odd_users),
        st.one_of(good_items, good_items, st.none(), odd_items),
    ),
    min_size=1,
    max_size=25,
)


def check(given, rows):
    listed, failures, odd = dict[str, list[str]](), dict[str, CoverageReason](), Counter[str]()
    for user, items in rows:
        ids = list(map(user_key, items or []))
        if user_key(user) is None:
            odd["who"] += 1
            continue
        odd["what"] += None in ids
        if user in {**listed, **failures}:
            failures[user] = CoverageReason.DUPLICATE_USER
        elif items is None:
            failures[user] = CoverageReason.MISSING
        elif None in ids:
            failures[user] = CoverageReason.MALFORMED
        else:
            listed[user] = [item for item in ids if item is not None]

    pull = source_with(given, max_unreadable=1).pull(request(*(f"u{n}" for n in range(31))))

    assert as_lists(pull) == {user: listed[user] for user in listed.keys() - failures}
    # Of a user with several rows any of the reasons may be told.
    assert pull.failures.keys() == failures.keys()
    for user, reason in failures.items():
        assert reason in {CoverageReason.DUPLICATE_USER, pull.failures[user]}
    assert Counter(counts(pull)) == odd


quickly = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("form", ["csv", "jsonl", "sqlite"])
@quickly
@given(rows=spoiled_rows)
def test_every_row_is_used_exactly_or_counted(form, tmp_path, rows):
    table = [{"who": user, "what": items} for user, items in rows]
    check(WRITERS[form](table, tmp_path, **WIDE), rows)


@quickly
@given(rows=spoiled_rows, is_text=st.booleans())
def test_every_row_of_parquet_is_used_exactly_or_counted(tmp_path, rows, is_text):
    """A column has one type, so each table has the items of one type only."""
    kinds = (NoneType, str) if is_text else (NoneType, int, float)
    of_type = [
        (user, items and [item for item in items if type(item) in kinds]) for user, items in rows
    ]
    users, lists = zip(*of_type, strict=True)
    kind = pa.list_(pa.string() if is_text else pa.float64())
    table = pa.table({"who": pa.array(users, pa.string()), "what": pa.array(lists, kind)})
    path = f"{tmp_path}/lists.parquet"
    pq.write_table(table, path)
    check({"file": {"path": path, **WIDE}}, of_type)


@pytest.mark.integration
@quickly
@given(rows=spoiled_rows)
def test_every_row_of_postgresql_is_used_exactly_or_counted(postgres_url, rows):
    table = [{"who": user, "what": items} for user, items in rows]
    check(database(table, postgres_url, **WIDE), rows)


@pytest.mark.integration
def test_members_of_redis_that_are_no_text_are_counted_and_named():
    with closing(emptied_redis()) as client:
        client.sadd("users", b"\xff", *(f"u{n}" for n in range(99)))
        client.rpush("u1", b"\xff")
        client.rpush("u2", "a", b"\xff")
        client.rpush("u3", "a")
        url = f"redis://127.0.0.1:{shared_redis()}"
        table = users_of({"redis": {"url": url, "key": "users"}})
        with pytest.raises(
            UnreadableError, match=r"2 of 3 rows cannot be read \(text that is not UTF-8\)"
        ):
            pull_of("u1", "u2", "u3", redis={"url": url, "type": "list", "key": "{user}"})

    assert len(table) == 99
    assert counts(table) == {"users": 1}


CSV = {
    b"who,what\r\na,1\nb,2\n": r"line 2 of .* ends with LF, but the header ends with CR LF: write the same line",
    "who,what\na,1\ncaf\u00e9,2\n".encode(
        "latin-1"
    ): r"line 3 of .* is not UTF-8 \(byte 0xe9\), perhaps Latin-1",
    "who,what\na,1\n".encode("utf-16"): r"is written in UTF-16: write the file as UTF-8",
    b"who;what\na;1\n": r"the header of .* is one column with ';' in it: write ',' between values",
    b"who,what\na,1\n(1 row)\n": r"line 3 of .* has 1 value, but the header has 2 columns: leave out the footer",
    b"who,what\na,1,2\nb,2\n": r"line 2 of .* has 3 values, but the header has 2 columns: write one value",
    b'who,what\n"a \\" b",1\n': r'line 2 of .* has a quote .* write a quote in a value as "", not with a',
    b'who,what\n"a,1\nb,2\n': r"has a quote that ends too early or never",
}
JSONL = {
    b'[{"who": "a", "what": [1]}]\n': r"line 1 of .* has an array: write one object in each line, for example with jq",
    b'\xef\xbb\xbf{"who": "a", "what": 1}\n': r"begins with a byte order mark \(BOM\): write the file as",
    b'{"who": "a", "what": 1}\noops\n': r"line 2 of .* is not JSON at character 1: write one object in each line",
    b'{"who": "a", "who": "b", "what": 1}\n': r"line 1 of .* has an object with the same key twice: write each",
    b'{"who": "a", "what": 1}\n{"who": "b", "wh': r"the last line of .*, 2, is incomplete: the file is cut off",
    '{"who": "caf\u00e9", "what": 1}\n'.encode(
        "latin-1"
    ): r"line 1 of .* is not UTF-8 \(byte 0xe9\)",
}


@pytest.mark.parametrize("content", [*CSV, *JSONL])
def test_an_error_in_a_text_file_is_reported_with_its_line(content, tmp_path):
    path = tmp_path / ("lists.csv" if content in CSV else "lists.jsonl")
    path.write_bytes(content)

    with pytest.raises(SourceError, match=(CSV | JSONL)[content]) as caught:
        pull_of("a", file={"path": str(path), "user": "who", "item": "what", "in_order": True})
    assert not re.search(r"damaged|\n", str(caught.value))
