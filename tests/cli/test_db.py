"""The command `db`: what it prints for people and for machines, and its exit codes."""

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clocks import set_clock
from commands import assert_refused, one_line, rankwatch, read_json
from factories import DAY, MINUTE, SLOT
from json_keys import read_listed
from monitor.model.errors import DatabaseError
from monitor.model.runs import Lease
from monitor.storage import parse_url, schema_version
from monitor.storage.leases import open_leases
from monitor.storage.sqlite_file import FileLock
from settings.minimal import MINIMAL
from storage.worked import claimed, run, store_at, store_over

CONFIG = f"database: sqlite:///rankwatch.db\nretention: {{scores: 30d, evidence: 30d}}\n{MINIMAL}"
FILE = Path("rankwatch.db")


def db(command):
    return rankwatch(f"db {command}")


def db_json(command):
    (found,) = read_json(f"db {command}")
    return found


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """The configuration in the current folder; there is no database."""
    set_clock(monkeypatch, SLOT)
    file = tmp_path / "rankwatch.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def empty(sqlite_template):
    shutil.copy(sqlite_template, FILE)


@pytest.fixture
def filled(empty):  # noqa: ARG001 - it must be there
    with store_over(FILE) as store:
        for days in (60, 40, 2):
            run(store, SLOT - days * DAY)


def test_current_check_and_moves_speak_to_machines():
    head = schema_version.newest_version()
    assert db_json("current") == {"schema": None, "wanted": head}
    assert db_json("upgrade") == {"before": None, "after": head}
    found = db_json("check")
    assert (found["schema"], found["is_as_expected"], found["damage"]) == (head, True, [])
    assert db_json("downgrade base") == {"before": head, "after": None}
    assert_refused("""
        db downgrade nope | 4 | use base or one of
        db downgrade '' | 2 | a step such as -1
        db upgrade ' ' | 2 | a step such as -1
    """)
    old = db("check --json")
    assert (old.returncode, json.loads(old.stdout)["is_as_expected"]) == (4, False)


def test_check_also_writes(empty, monkeypatch):  # noqa: ARG001 - it must be there
    def refuse(_):
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(schema_version, "rewrite_value", refuse)
    assert_refused("db check | 4 | the disk is full")


def edited():
    """The file as SQLite itself opens it."""
    return closing(sqlite3.connect(FILE, isolation_level=None))


def _overwrite():
    with FILE.open("r+b") as opened:
        opened.seek(30 * 4096)
        opened.write(b"\xff" * 4096)


def _desynchronize():
    with edited() as connection:
        row = connection.execute(
            "SELECT * FROM sqlite_master WHERE name = 'ix_runs_slot'"
        ).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", row[1:2])
    with edited() as connection:
        connection.execute("DELETE FROM runs WHERE id = 1")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "spoil, says, advice",
    [
        (_overwrite, "the content of pages is damaged", "restore it from a backup"),
        (_desynchronize, "wrong # of entries in index ix_runs_slot", "rankwatch.db REINDEX`"),
    ],
)
def test_check_finds_a_damaged_file_and_says_what_to_do(spoil, says, advice):
    head = schema_version.newest_version()
    assert db("check").stdout == f"schema {head}: as expected\nfile: undamaged\n"
    spoil()
    done = db("check --json")
    assert done.returncode == 4
    assert says in done.stderr
    assert done.stderr.endswith(f"{advice}\n")
    found = read_listed(done.stdout)
    assert (says in " ".join(found["damage"]), found["is_as_expected"]) == (True, False)


@pytest.mark.usefixtures("filled")
def test_size_shows_what_each_kind_costs_and_prune_deletes_what_is_old():
    found = db_json("size")
    (scores,) = (each for each in found["kinds"] if each["kind"] == "scores")
    assert scores["bytes_per_run"] == scores["used_bytes"] / 3 > 0
    assert "scores" in db("size").stdout

    done = db_json("prune")
    assert done["deleted_rows"] == done["deleted_by_kind"] == {"scores": 6, "evidence": 4}
    assert "nothing deleted" in db("prune").stdout


def test_no_schema_is_taken_from_under_a_daemon_but_by_force_while_an_upgrade_only_warns():
    lock = FileLock(file=FILE, holder="host:7")
    lock.take()

    assert "if it is an older version of rankwatch, replace it now" in db("upgrade").stderr
    assert db("upgrade").stderr == ""
    refused = one_line(db("downgrade base"))
    assert "host:7 since" in refused
    assert "stop it first, or use --force" in refused
    assert db_json("downgrade base --force")["after"] is None
    lock.release()
    assert db("downgrade base").stdout == "schema none\n"
    assert db("upgrade").stderr == ""


def test_on_postgresql_a_lease_or_a_run_under_way_keeps_the_schema_until_it_ran_out(
    config, postgres_url
):
    config.write_text(CONFIG.replace("sqlite:///rankwatch.db", postgres_url))
    db("upgrade")
    with closing(open_leases(parse_url(postgres_url), holder="host:7", lasts=5 * MINUTE)) as leases:
        lease = leases.acquire()
        assert isinstance(lease, Lease)
        assert_refused("db downgrade -- -1 | 4 | host:7 (leads; its lease ends in ")
        leases.release(lease)
    until_after_all = datetime(2100, 1, 1, tzinfo=UTC)
    with store_at(postgres_url) as store:
        claimed(store, comparison="old", owner="host:6", until=SLOT + DAY)
        claimed(store, comparison="feed", owner="host:8", until=until_after_all)
    assert_refused("db downgrade -- -1 | 4 | host:8 (runs feed) is using")
    assert db("downgrade --force -- -1").returncode == 0


def write_version(version):
    with edited() as connection:
        connection.execute("DELETE FROM alembic_version")
        if version is not None:
            connection.execute("INSERT INTO alembic_version VALUES (?)", (version,))


@pytest.mark.usefixtures("empty")
def test_of_a_newer_schema_the_newer_program_is_advised():
    write_version("9999")
    for told in (db("check").stderr, db("current").stdout):
        assert "install the newer version of rankwatch" in told
        assert "run `rankwatch db upgrade`" not in told


@pytest.mark.usefixtures("empty")
def test_tables_without_a_readable_version_are_one_clear_error():
    for version in [None, b"\x00\xff", ""]:
        write_version(version)
        for command in ("current", "check", "upgrade", "downgrade base", "size"):
            assert_refused(f"db {command} | 4 | is empty or damaged")


def test_check_reports_a_missing_file_and_does_not_create_it():
    assert_refused("db check | 4 | rankwatch.db does not exist")
    assert not FILE.exists()
    FILE.touch()
    assert "rankwatch.db: the schema is empty" in db("check").stderr
