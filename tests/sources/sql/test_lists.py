"""Lists from databases: SQLite always, PostgreSQL where there is one."""

import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from itertools import product

import pytest
import sqlalchemy as sa

from monitor.model.errors import ConfigError, SourceError
from monitor.sources import SourceOptions, UsersOptions, open_source, open_users
from servers.lists import SLOT, as_lists, fill_database, pull_of, request, source_of, sql_sources
from sources import tables
from sources.file.test_served import EARLIER, LOG, PERIOD, SERVED
from tables import parsed

COLUMNS = {"user": "who", "items": "what"}
WIDE = {"table": "wide", "max_unreadable": 1, **COLUMNS}
LONG = {"user": "who", "item": "what", "rank": "place", "max_unreadable": 1}
LISTS = {f"user's {number}": [number, "é", number + 1] for number in range(25)}
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS who, '[1]' AS what FROM n"


@pytest.fixture
def database(tmp_path):
    url = f"sqlite:///{tmp_path / 'lists.db'}"
    fill_database(url, {"u1": [3, 1, 2], "u2": [9]})
    return url


def execute(url, *statements):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def assert_lists_are_read(url):
    for options in sql_sources(url).values():
        pull = pull_of(*LISTS, "nobody", k=3, sql=options)

        assert as_lists(pull) == {user: [*map(str, items)] for user, items in LISTS.items()}
        assert pull.failures.keys() <= {"nobody"}


def test_lists_are_read_from_either_database(database_url):
    fill_database(database_url, LISTS)
    assert_lists_are_read(database_url)


def assert_newest_lists_count(url, *times):
    """A log of lists that were served gives the same lists as in files. Its times have these SQL types."""
    served = {"time": "at", "within": "1h", "request": "request"}
    for form, at in product((WIDE, LONG), times):
        rows = []
        for minutes, user, arm, items, number in LOG:
            time = f"{SLOT + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S.%f}"
            if getattr(at, "timezone", False):
                time += "+00"
            row = {"at": time, "who": user, "variant": arm, "request": number}
            for place, what in enumerate([items] if form is WIDE else items):
                rows.append(row | {"what": what, "place": place})
        table = tables.database(rows, url, {"at": at})["sql"]
        for period, expected in (({}, SERVED), (PERIOD, EARLIER)):
            for arm, lists in expected.items():
                of_arm = {"served": served | period | {"arm": {"variant": arm}}}
                baseline = SourceOptions.model_validate({"sql": form | table | of_arm})
                users = open_users(UsersOptions(all=True), baseline).users(SLOT, ()).users
                assert set(users) == {"u1", "u3", "u4"} | (set() if period else {"u2"})
                assert as_lists(open_source(baseline).pull(request(*users))) == lists


def test_the_newest_list_of_each_user_in_the_slot_counts_in_a_log_of_served_lists(database_url):
    times = [sa.TIMESTAMP(), sa.TIMESTAMP(timezone=True)]
    assert_newest_lists_count(database_url, *([sa.Text()] if "sqlite" in database_url else times))


def test_only_the_newest_lists_of_a_log_count_for_max_rows(tmp_path):
    rows = [
        {"who": "u1", "at": f"{SLOT - timedelta(minutes=age)}", "what": f"[{age}]"}
        for age in range(30)
    ]
    log = {"served": {"time": "at", "within": "1h"}, "max_rows": 1}
    options = WIDE | tables.sqlite(rows, tmp_path)["sql"] | log

    assert as_lists(pull_of("u1", "u2", sql=options)) == {"u1": ["0"]}


def test_users_are_bound_batch_by_batch_to_a_column_of_numbers(database_url):
    rows = (f"INSERT INTO recs VALUES ({user}, {user * 10}, 1)" for user in range(10))
    execute(database_url, "CREATE TABLE recs (who integer, what integer, place integer)", *rows)
    query = "SELECT who, what, place FROM recs WHERE who IN :users"

    users = map(str, range(12))
    pull = pull_of(*users, sql={"url": database_url, "query": query, "batch": 4} | LONG)

    assert as_lists(pull) == {str(user): [str(user * 10)] for user in range(10)}
    assert pull.rankings.items.dtype == "int64"


def test_arrays_json_uuids_and_numerics_of_postgresql_are_lists(postgres_url):
    key = "6f1d7b1e-0000-4000-8000-00000000000a"
    execute(
        postgres_url,
        "CREATE TABLE arrays (who uuid, what bigint[], how numeric[])",
        "CREATE TABLE documents (who bigint, what jsonb)",
        "CREATE TABLE numbers (who numeric, what numeric, place int)",
        f"INSERT INTO arrays VALUES ('{key}', ARRAY[3, 1], ARRAY[0.5, NULL])",
        "INSERT INTO documents VALUES (1, '[\"a\", 2]'), (2, '{}'), (3, NULL)",
        "INSERT INTO numbers VALUES (7, 40, 2), (7, 30.0, 1), (8, 1.5, 1)",
    )

    def pulled(*users, **options):
        return pull_of(*users, sql={"url": postgres_url, **options})

    arrays = pulled(key, **WIDE | {"table": "public.arrays", "scores": "how"})
    documents = pulled("1", "2", "3", **WIDE | {"table": "documents"})
    numbers = pulled("7", "8", table="numbers", **LONG)

    assert as_lists(arrays) == {key: ["3", "1"]}
    assert str(arrays.rankings.scores) == "[0.5 nan]"
    assert as_lists(documents) == {"1": ["a", "2"]}
    assert documents.failures == {"2": "malformed", "3": "missing"}
    assert as_lists(numbers) == {"7": ["30", "40"]}
    assert numbers.failures == {"8": "malformed"}


@pytest.mark.slow
def test_users_of_finished_statements_keep_their_lists_at_the_deadline(database):
    query = f"""
        SELECT who, what, place FROM tall WHERE who IN :users AND
        (who <> 'u2' OR (SELECT count(*) FROM ({ENDLESS} LIMIT 100000000)) > 0)"""

    pull = pull_of(
        "u1", "u2", "u3", timeout_s=0.5, sql={"url": database, "query": query, "batch": 1} | LONG
    )

    assert as_lists(pull) == {"u1": ["3", "1", "2"]}
    assert pull.failures == {"u2": "timeout", "u3": "timeout"}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM wide RETURNING who, what",
        "ATTACH '{new}' AS new",
        "VACUUM INTO '{new}'",
        "PRAGMA journal_mode = WAL",
        "SELECT who, what FROM wide; COMMIT; DELETE FROM wide",
        "SELECT who, what FROM wide; SET TRANSACTION READ WRITE; DELETE FROM wide",
        "SELECT who, what, set_config('transaction_read_only', 'off', true) FROM wide; DELETE FROM wide",
    ],
)
def test_a_source_never_writes(statement, database_url, tmp_path):
    fill_database(database_url, {"u1": [1]})
    before = sorted(tmp_path.iterdir())
    query = statement.format(new=tmp_path / "new.db")

    with pytest.raises(SourceError, match="cannot be read: "):
        pull_of("u1", sql=COLUMNS | {"url": database_url, "query": query})

    assert as_lists(pull_of("u1", sql={"url": database_url} | WIDE)) == {"u1": ["1"]}
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_text_table_of_sqlite_is_read(database):
    execute(
        database,
        "CREATE VIRTUAL TABLE texts USING fts5(who, what)",
        "INSERT INTO texts VALUES ('u1', '[1]')",
    )
    options = COLUMNS | {"url": database, "query": "SELECT * FROM texts('u1')"}
    assert as_lists(pull_of("u1", sql=options)) == {"u1": ["1"]}


def test_a_missing_file_is_reported_and_not_created(tmp_path):
    with pytest.raises(
        SourceError, match=r"database file .*none\.db does not exist: check url"
    ) as caught:
        pull_of("u", sql={"url": f"sqlite:///{tmp_path / 'none.db'}"} | WIDE)
    assert not caught.value.permanent
    assert not (tmp_path / "none.db").exists()


def test_a_locked_database_is_reported_and_may_be_free_later(database, monkeypatch):
    monkeypatch.setattr("monitor.sources.sql.database._LONGEST_CONNECT_S", 0.2)
    file = database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            SourceError, match=r"'.*lists\.db' cannot be read: it is locked by another process"
        ) as caught:
            pull_of("u", sql={"url": database} | WIDE)
    assert not caught.value.permanent


WRONG = parsed(r"""
    [{"table": "recs"}, "recs"]
    [{"table": "wide", "user": "Whom"}, "there is no such column"]
    [{"table": "wide", "user": "whom.id"}, "has no column 'whom.id' .*: it has who, what"]
    [{"query": "SELEC 1"}, "no valid SQL of this database"]
    [{"query": "SELECT * FROM wide", "user": "whom"}, "no column 'whom' \\(did you mean 'who'\\?\\): it has who, what"]
""")


def test_a_wrong_table_query_or_column_is_one_line(database_url):
    fill_database(database_url, {"u1": [1]})

    for options, reason in WRONG:
        with pytest.raises(SourceError) as caught:
            pull_of("u1", sql=COLUMNS | options | {"url": database_url})
        assert re.search(reason, caught.value.shown)
        assert "\n" not in str(caught.value)


def test_fields_of_objects_in_columns_of_json_are_read(database_url):
    recs = '[{"id": 7, "score": 0.5}, {"id": 8, "score": 0.25}]'
    execute(
        database_url,
        "CREATE TABLE nested (who JSON, recs JSON)",
        f"""INSERT INTO nested VALUES ('{{"$oid": "u1"}}', '{recs}')""",
    )

    options = {"url": database_url, "user": "who.$oid", "items": "recs.id", "scores": "recs.score"}
    for rows in ({"table": "nested"}, {"query": "SELECT who, recs FROM nested"}):
        pull = pull_of("u1", sql=options | rows)
        assert as_lists(pull) == {"u1": ["7", "8"]}
        assert str(pull.rankings.scores) == "[0.5  0.25]"


def test_an_unknown_database_is_a_mistake_in_the_configuration():
    with pytest.raises(ConfigError, match="unknown database driver 'oracel'"):
        source_of(sql={"url": "oracel://host/db"} | WIDE)
