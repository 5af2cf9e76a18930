"""What cannot be read: every row is used exactly or counted with a reason, and too many such rows fail the source."""

import json
import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monitor
from monitor.errors import InputError, SourceError, UnreadableError
from monitor.model.memory import Memory
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.unreadable import Need, Unreadable, add_up, require_readable
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.run_measurement import Stopwatch, measure_slot
from monitor.reading.ids import canonical_id, user_key
from monitor.sources import (
    RelevanceOptions,
    SourceOptions,
    UsersOptions,
    open_relevance,
    open_users,
)
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from pipeline.canned import StillClock
from servers.lists import SLOT, as_lists, request, source_of
from servers.redis import emptied_redis, shared_redis
from sources.file.test_joined import PLAN, arms_of
from sources.tables import WRITERS, case, database, jsonl

Row = dict[str, Any]
AT = SLOT - timedelta(minutes=1)


def unreadable(**changes: Any) -> Unreadable:
    given: Row = {
        "where": "a.csv",
        "column": "user",
        "need": Need.IDS,
        "count": 1,
        "rows": 100,
        "found": "null",
    }
    return Unreadable(**given | changes)


def test_the_share_decides_and_the_limit_itself_is_allowed():
    require_readable([unreadable()], 0.01)
    require_readable([unreadable(count=0, rows=0)], 0)
    with pytest.raises(
        UnreadableError,
        match=r"^column 'user' of a\.csv: 2 of 100 rows cannot be read \(null\): ids must be",
    ):
        require_readable([unreadable(), unreadable(rows=0)], 0.01)


def test_parts_of_a_column_are_added_and_the_first_example_is_kept():
    parts = [
        unreadable(count=0, found=""),
        unreadable(count=2, example="'x'"),
        unreadable(column="items", rows=5),
    ]

    assert add_up(parts) == (
        unreadable(count=2, rows=200, example="'x'"),
        unreadable(column="items", rows=5),
    )


def test_an_example_is_shown_on_one_line_and_only_where_it_may_be():
    with pytest.raises(UnreadableError) as caught:
        require_readable([unreadable(count=9, example="'eve\n\x1b[31m'" + "x" * 99)], 0.01)

    assert "eve" not in str(caught.value)
    assert "such as 'eve  [31m'xxx" in caught.value.shown
    assert len(caught.value.shown.splitlines()) == 1


WIDE: Row = {"user": "who", "items": "what"}
LONG = {"user": "who", "item": "what", "rank": "place"}
every_form = pytest.mark.parametrize(
    "write", [case(form, write) for form, write in WRITERS.items() if form != "jsonl"] + [jsonl]
)


def source(given: Row, **more: Any) -> Any:
    return source_of(**{kind: options | more for kind, options in given.items()})


def counts(found: Any) -> Row:
    """Rows that cannot be read, by column."""
    return {each.column: each.count for each in found.unreadable if each.count}


@every_form
def test_rows_without_a_user_are_counted_and_fail_the_source_above_the_limit(write, tmp_path):
    rows: list[Row] = [{"who": f"u{n}", "what": [n]} for n in range(98)] + [
        {"who": "", "what": [1]}
    ] * 2

    with pytest.raises(UnreadableError, match=r"column 'who' of .*: 2 of 100 rows cannot be read"):
        source(write(rows, tmp_path, **WIDE)).pull(request("u1"))
    pull = source(write([*rows[1:], rows[1]], tmp_path, **WIDE), max_unreadable=0.02).pull(
        request("u2")
    )
    assert as_lists(pull) == {"u2": ["2"]}
    assert counts(pull) == {"who": 2}


SPOILED: dict[str, tuple[list[Any], str]] = {
    "parquet": ([1.0, None], "null"),
    "csv": ([1, 0.5], "a number that is not whole"),
    "jsonl": ([1, 2.0**60], "a number too large to be exact in its type"),
    "sqlite": ([1, None], "null"),
}


@pytest.mark.parametrize("form", SPOILED)
def test_an_item_that_is_no_id_is_counted_by_its_list_and_named(form, tmp_path):
    items, found = SPOILED[form]
    rows: list[Row] = [{"who": f"u{n}", "what": [type(items[0])(n)]} for n in range(49)] + [
        {"who": "odd", "what": items}
    ]
    given, asked = WRITERS[form](rows, tmp_path, **WIDE), request(*(row["who"] for row in rows))

    with pytest.raises(
        UnreadableError, match=rf"column 'what' of .*: 1 of 50 rows cannot be read \({found}"
    ):
        source(given).pull(asked)
    pull = source(given, max_unreadable=0.02).pull(asked)
    assert (len(pull.rankings), pull.failures) == (49, {"odd": CoverageReason.MALFORMED})


@every_form
def test_a_rank_that_is_no_number_is_counted(write, tmp_path):
    rows: list[Row] = [{"who": f"u{n // 2}", "what": n, "place": n % 2} for n in range(99)]
    rows.append({"who": "odd", "what": 1, "place": None})
    pull = source(write(rows, tmp_path, **LONG)).pull(request("odd", *(f"u{n}" for n in range(50))))

    assert pull.failures == {"odd": CoverageReason.MALFORMED}
    assert counts(pull) == {"place": 1}


@every_form
def test_times_are_read_in_the_unit_that_their_size_tells(write, tmp_path):
    moments = {"u": AT, "late": SLOT + timedelta(minutes=1)}
    rows: list[Row] = [
        {"who": f"{name}{unit}", "what": [1], "at": int(at.timestamp()) * 10**unit}
        for name, at in moments.items()
        for unit in (0, 3, 6, 9)
    ]
    given = write(rows, tmp_path, **WIDE)

    pull = source(given, served={"time": "at", "within": "1h"}).pull(
        request(*(row["who"] for row in rows))
    )

    assert as_lists(pull).keys() == {"u0", "u3", "u6", "u9"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "sqlite"])
def test_rows_whose_time_cannot_be_read_fail_the_source(form, tmp_path):
    odd = ["yesterday", "", "08/01/2024 12:00", None, "1e30"]
    rows: list[Row] = [{"who": f"u{n}", "what": [n], "at": AT.isoformat()} for n in range(95)]
    rows += [{"who": "odd", "what": [1], "at": at} for at in odd]
    given, served = WRITERS[form](rows, tmp_path, **WIDE), {"time": "at", "within": "1h"}

    with pytest.raises(
        UnreadableError,
        match=r"column 'at' of .*: 5 of 100 rows cannot be read .*: times must be ISO",
    ):
        source(given, served=served).pull(request("u1"))
    pull = source(given, served=served, max_unreadable=0.05).pull(request("u1", "odd"))
    assert as_lists(pull) == {"u1": ["1"]}
    assert counts(pull) == {"at": 5}


def test_a_log_that_holds_nothing_of_the_time_names_its_newest_row(tmp_path):
    given = jsonl([{"who": "u", "what": [1], "at": 20240108}], tmp_path, **WIDE)

    with pytest.raises(
        SourceError, match=r"the newest row is of 1970-08-23T06:15:08Z\): check `served`"
    ):
        source(given, served={"time": "at", "within": "1h"}).pull(request("u"))


@every_form
def test_users_and_segments_are_counted(write, tmp_path):
    rows: list[Row] = [{"who": f"u{n}", "land": "NO"} for n in range(98)]
    rows += [{"who": "", "land": "NO"}, {"who": "v", "land": "x" * 1001}]

    table = users_of(write(rows, tmp_path, user="who"), "land")

    assert len(table) == 99
    assert counts(table) == {"who": 1, "land": 1}


def users_of(given: Row, *segments: str) -> Any:
    lists = SourceOptions.model_validate({"http": {"url": "http://h/{user}"}})
    return open_users(UsersOptions.model_validate(given), lists).users(SLOT, segments)


@every_form
def test_relevance_without_a_user_is_counted(write, tmp_path):
    rows: list[Row] = [{"who": f"u{n}", "what": n} for n in range(99)] + [{"who": "", "what": 1}]

    def read() -> Any:
        given = write(rows, tmp_path, user="who", item="what")
        return open_relevance(RelevanceOptions.model_validate(given)).relevance(SLOT)

    assert counts(read()) == {"who": 1}
    rows += rows[-1:]
    with pytest.raises(UnreadableError, match="2 of 101 rows"):
        read()


@pytest.mark.parametrize(("is_private", "is_joined"), [(True, True), (False, False)])
def test_a_run_names_what_it_left_out_and_hides_examples_of_users_that_are_hidden(
    tmp_path, is_private, is_joined
):
    rows: list[Row] = [
        {"who": f"u{n}", "what": [n], "country": "NO", "tier": 1} for n in range(199)
    ]
    rows.append({"who": {"name": "anna"}, "what": [1], "country": "NO", "tier": 1})
    path = jsonl(rows, tmp_path)["file"]["path"]
    lists, users = FileSourceOptions(path=path, **WIDE), FileUsersOptions(path=path, user="who")
    arms = arms_of(lists, lists, users)
    arms = replace(arms, pseudonyms=Pseudonyms(b"key" * 11) if is_private else None)
    arms = arms if is_joined else replace(arms, joined=None)

    found = measure_slot(PLAN, arms, SLOT, Memory(), Stopwatch(StillClock()))

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


def expected(
    rows: list[tuple[Any, Any]],
) -> tuple[dict[str, list[str]], dict[str, CoverageReason], int]:
    """Lists, failures by user, and rows without a user."""
    listed, failures = dict[str, list[str]](), dict[str, CoverageReason]()
    times = Counter(user_key(user) for user, _ in rows)
    for user, items in rows:
        key = user_key(user)
        if key is None:
            continue
        ids = [canonical_id(item) for item in items or []]
        if times[key] > 1:
            failures[key] = CoverageReason.DUPLICATE_USER
        elif items is None:
            failures[key] = CoverageReason.MISSING
        elif None in ids:
            failures[key] = CoverageReason.MALFORMED
        else:
            listed[key] = list(map(str, ids))
    return listed, failures, times[None]


def check(pull: Pull, rows: list[tuple[Any, Any]]) -> None:
    listed, failures, nobody = expected(rows)
    assert as_lists(pull) == listed
    told = dict(pull.failures)
    # Of a user with several rows any of the reasons may be told.
    assert told.keys() == failures.keys()
    assert all(
        told[user] == reason
        for user, reason in failures.items()
        if reason is not CoverageReason.DUPLICATE_USER
    )
    assert sum(each.count for each in pull.unreadable if each.column == "who") == nobody
    malformed = sum(
        None in map(canonical_id, items or []) for user, items in rows if user_key(user) is not None
    )
    assert sum(each.count for each in pull.unreadable if each.column == "what") == malformed


def asked() -> list[str]:
    return [f"u{n}" for n in range(31)]


quickly = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("form", ["csv", "jsonl", "sqlite"])
@quickly
@given(rows=spoiled_rows)
def test_every_row_is_used_exactly_or_counted(form, tmp_path, rows):
    given = WRITERS[form](as_rows(rows), tmp_path, **WIDE)

    check(source(given, max_unreadable=1).pull(request(*asked())), rows)


def as_rows(rows: list[tuple[Any, Any]]) -> list[Row]:
    return [{"who": user, "what": items} for user, items in rows]


@quickly
@given(rows=spoiled_rows, is_text=st.booleans())
def test_every_row_of_parquet_is_used_exactly_or_counted(tmp_path, rows, is_text):
    def fits(item: Any) -> bool:
        return item is None or (
            isinstance(item, str if is_text else int | float) and not isinstance(item, bool)
        )

    of_type = [
        (user, items if items is None else [item for item in items if fits(item)])
        for user, items in rows
    ]
    kind = pa.list_(pa.string() if is_text else pa.float64())
    table = pa.table(
        {
            "who": pa.array([user for user, _ in of_type], pa.string()),
            "what": pa.array([i for _, i in of_type], kind),
        }
    )
    pq.write_table(table, tmp_path / "lists.parquet")
    given = {"file": {"path": str(tmp_path / "lists.parquet"), **WIDE}}

    check(source(given, max_unreadable=1).pull(request(*asked())), of_type)


@quickly
@given(rows=spoiled_rows)
def test_every_row_of_a_frame_is_used_exactly_or_refused_by_name(rows):
    frame = pd.DataFrame(
        {
            "user": pd.Series([user for user, _ in rows], dtype=object),
            "items": [items for _, items in rows],
        }
    )
    listed, failures, nobody = expected(rows)
    if failures or nobody:
        with pytest.raises(InputError, match=r"found|missing|twice"):
            monitor.compare_many(frame, frame, "overlap")
        return

    found = monitor.compare_many(frame, frame, "overlap")
    assert found.index.tolist() == list(listed)


@pytest.mark.integration
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=spoiled_rows)
def test_every_row_of_postgresql_is_used_exactly_or_counted(postgres_url, rows):
    given = database(as_rows(rows), postgres_url, **WIDE)

    check(source(given, max_unreadable=1).pull(request(*asked())), rows)


@pytest.mark.integration
@settings(max_examples=6, deadline=None)
@given(lists=st.dictionaries(users, st.one_of(good_items, odd_items), max_size=20))
def test_every_key_of_redis_is_used_exactly_or_counted(lists):
    with closing(emptied_redis()) as client:
        for user, items in lists.items():
            client.set(user, json.dumps(items))
        given = {
            "redis": {
                "url": f"redis://127.0.0.1:{shared_redis()}",
                "type": "string",
                "key": "{user}",
            }
        }
        pull = source(given, max_unreadable=1).pull(request(*lists))

    listed, failures, _ = expected(list(lists.items()))
    assert (as_lists(pull), pull.failures) == (listed, failures)
    assert sum(each.count for each in pull.unreadable) == len(failures)


@pytest.mark.integration
def test_members_of_redis_that_are_no_text_are_counted_and_named():
    with closing(emptied_redis()) as client:
        client.sadd("users", b"\xff", *(f"u{n}" for n in range(99)))
        client.rpush("u1", b"\xff")
        url = f"redis://127.0.0.1:{shared_redis()}"
        table = users_of({"redis": {"url": url, "key": "users"}})
        lists = source_of(redis={"url": url, "type": "list", "key": "{user}"})
        with pytest.raises(
            UnreadableError, match=re.escape("1 of 1 rows cannot be read (text that is not UTF-8)")
        ):
            lists.pull(request("u1"))

    assert len(table) == 99
    assert [(each.count, each.rows, each.found) for each in table.unreadable] == [
        (1, 100, "text that is not UTF-8")
    ]


ODD_FILES = {
    "csv": {
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
    },
    "jsonl": {
        b'[{"who": "a", "what": [1]}]\n': r"line 1 of .* has an array: write one object in each line, as jq",
        b'{"who": "a", "what": 1}\noops\n': r"line 2 of .* is not JSON at character 1: write one object in each line",
        b'{"who": "a", "who": "b", "what": 1}\n': r"line 1 of .* has an object with the same key twice: write each",
        b'{"who": "a", "what": 1}\n{"who": "b", "wh': r"the last line of .*, 2, is incomplete: the file is cut off",
        '{"who": "caf\u00e9", "what": 1}\n'.encode(
            "latin-1"
        ): r"line 1 of .* is not UTF-8 \(byte 0xe9\)",
    },
}


@pytest.mark.parametrize(
    ("suffix", "content"), [(suffix, each) for suffix, odd in ODD_FILES.items() for each in odd]
)
def test_a_fault_of_a_text_file_is_told_with_its_line(suffix, content, tmp_path):
    path = tmp_path / f"lists.{suffix}"
    path.write_bytes(content)

    with pytest.raises(SourceError, match=ODD_FILES[suffix][content]) as caught:
        source_of(file={"path": str(path), "user": "who", "item": "what", "in_order": True}).pull(
            request("a")
        )
    assert not re.search(r"damaged|\n", str(caught.value))
