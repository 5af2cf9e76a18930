"""The command `db`: what it prints for people and for machines, and its exit codes."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clocks import set_clock
from factories import DAY, SLOT
from monitor.cli.db import _print_pruned
from monitor.cli.main import app
from monitor.errors import DatabaseError, SchemaError
from monitor.model.retention import Pruned
from monitor.model.runs import Lease
from monitor.storage import open_leases, open_store, parse_url, schema_version
from monitor.storage.sqlite_file import FileLock
from servers import require
from servers.disk import small_disk
from settings.minimal import MINIMAL
from storage.worked import run

CONFIG = f"database: sqlite:///rankwatch.db\nretention: {{scores: 30d, evidence: 30d}}\n{MINIMAL}"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rankwatch.yaml").write_text(CONFIG, encoding="utf-8")
    return lambda *args: CliRunner().invoke(app, ["db", *args])


@pytest.fixture
def empty(tmp_path: Path, sqlite_template: Path) -> None:
    shutil.copy(sqlite_template, tmp_path / "rankwatch.db")


@pytest.fixture
def filled(empty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it must be there
    set_clock(monkeypatch, SLOT)
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=False)) as store:
        for days in (60, 40, 2):
            run(store, SLOT - days * DAY)


def test_current_check_and_moves_speak_to_machines(db: Callable[..., Any]) -> None:
    head = schema_version.head()
    assert json.loads(db("current", "--json").stdout) == {"schema": None, "wanted": head}
    assert json.loads(db("upgrade", "--json").stdout) == {"before": None, "after": head}
    expected = {"schema": head, "wanted": head, "as_expected": True, "differences": []}
    assert json.loads(db("check", "--json").stdout) == expected | {"damage": []}
    assert json.loads(db("downgrade", "0001", "--json").stdout) == {"before": head, "after": "0001"}
    assert "known versions are" in str(db("downgrade", "nope").exception)
    old = db("check", "--json")
    assert (type(old.exception), json.loads(old.stdout)["as_expected"]) == (SchemaError, False)


def _overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(40 * 4096)
        opened.write(b"\xff" * 4096)


def _cut_off_behind_the_log(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE runs SET reason = 'seen'")
        connection.execute("CREATE TABLE one_more (id INTEGER)")
        connection.commit()
        copies = {end: Path(f"{file}{end}").read_bytes() for end in ("", "-wal")}
    for end, content in copies.items():
        Path(f"{file}{end}").write_bytes(content if end else content[: -4 * 4096])


def _desynchronize(file: Path) -> None:
    select = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE name = 'ix_runs_scheduled_for'"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        row = connection.execute(select).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", row[1:2])
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM runs WHERE id = 1")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("spoil", "says", "advice"),
    [
        (_overwrite, "pages do not hold what they should", "restore it from a backup"),
        (_cut_off_behind_the_log, "pages do not hold what they should", "restore it from a backup"),
        (_desynchronize, "wrong # of entries in index ix_runs_scheduled_for", "rankwatch.db REINDEX`"),
    ],
)
def test_check_finds_a_damaged_file_and_says_what_to_do(
    db: Callable[..., Any], tmp_path: Path, spoil: Callable[[Path], None], says: str, advice: str
) -> None:
    assert db("check").stdout == f"schema {schema_version.head()}: as expected\nfile: sound\n"
    spoil(tmp_path / "rankwatch.db")
    found = db("check", "--json")
    assert isinstance(found.exception, DatabaseError)
    assert says in str(found.exception)
    assert str(found.exception).endswith(advice)
    assert says in " ".join(json.loads(found.stdout)["damage"])
    assert not json.loads(found.stdout)["as_expected"]


@pytest.mark.usefixtures("filled")
def test_size_shows_what_each_kind_costs(db: Callable[..., Any]) -> None:
    found = json.loads(db("size", "--json").stdout)
    kinds = {each["kind"]: each for each in found["kinds"]}
    assert kinds["scores"]["bytes_per_run"] == kinds["scores"]["used_bytes"] / 3
    assert found["used_bytes"] == sum(each["used_bytes"] for each in found["kinds"])

    assert "scores" in db("size").stdout


@pytest.mark.usefixtures("filled")
def test_prune_deletes_what_is_old_and_tells_what_it_deleted(db: Callable[..., Any]) -> None:
    done = json.loads(db("prune", "--json").stdout)
    assert done["rows"] == {"scores": 6, "evidence": 4}
    assert done["by_kind"] == {"scores": 6, "evidence": 4}
    assert "nothing deleted" in db("prune").stdout


def test_prune_deletes_nothing_and_says_so_where_no_run_confirms_the_clock(db: Callable[..., Any], tmp_path: Path) -> None:
    long_ago = datetime(2024, 1, 8, tzinfo=UTC)
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as store:
        run(store, long_ago)

    shown = " ".join(db("prune").stdout.split())
    machine = json.loads(db("prune", "--json").stdout)

    assert "nothing deleted: this machine's clock says" in shown
    assert "no run is newer than 2024-01-08T00:00:00Z: correct the clock" in shown
    assert (machine["rows"], machine["refused"] is None) == ({}, False)


def test_prune_prints_what_was_put_off(capsys: pytest.CaptureFixture[str]) -> None:
    why = "scores_2026_01_31 was not dropped: PostgreSQL database d at h:5432 is locked by another transaction: try again"

    _print_pruned(Pruned(put_off=(why,)))

    assert f"put off: {why}" in capsys.readouterr().out


def version_in(place: Path, version: object) -> None:
    with closing(sqlite3.connect(place / "rankwatch.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM alembic_version")
        if version is not None:
            connection.execute("INSERT INTO alembic_version VALUES (?)", (version,))


def test_no_schema_is_taken_from_under_a_daemon_but_by_force_while_an_upgrade_only_warns(
    db: Callable[..., Any], tmp_path: Path
) -> None:
    db("upgrade", "0008")
    lock = FileLock(file=tmp_path / "rankwatch.db", holder="host:7")
    lock.take()

    refused = db("downgrade", "0007")
    assert isinstance(refused.exception, DatabaseError)
    assert "worked with, by host:7 since" in str(refused.exception)
    assert "stop it first, or give --force" in str(refused.exception)
    assert "beside host:7" in db("upgrade").stderr
    assert db("upgrade").stderr == ""
    assert json.loads(db("downgrade", "0007", "--force", "--json").stdout)["after"] == "0007"
    lock.release()
    assert db("downgrade", "0006").stdout == "schema 0006\n"
    assert db("upgrade").stderr == ""


def test_on_postgresql_a_lease_or_a_run_under_way_keeps_the_schema_until_it_ran_out(
    db: Callable[..., Any], tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "rankwatch.yaml").write_text(CONFIG.replace("sqlite:///rankwatch.db", postgres_url), encoding="utf-8")
    db("upgrade")
    with closing(open_leases(parse_url(postgres_url), holder="host:7", lasts=timedelta(minutes=5))) as leases:
        lease = leases.acquire()
        assert isinstance(lease, Lease)
        assert "worked with, by host:7 (leads, for " in str(db("downgrade", "--", "-1").exception)
        leases.release(lease)
    until_after_all = datetime(2100, 1, 1, tzinfo=UTC)
    with closing(open_store(postgres_url, create=False)) as store:
        for name, owner, until in (("old", "host:6", SLOT + DAY), ("feed", "host:8", until_after_all)):
            assert store.runs.claim(name, SLOT, owner=owner, now=SLOT, until=until, config_hash="x", rerun=False)
    assert "worked with, by host:8 (runs feed)" in str(db("downgrade", "--", "-1").exception)
    assert db("downgrade", "--force", "--", "-1").exit_code == 0
    assert "host:8 (runs feed)" in str(db("downgrade", "0001").exception)  # with tables of an older version


@pytest.mark.parametrize("command", ["upgrade", "downgrade"])
@pytest.mark.parametrize("revision", ["", " "])
def test_no_revision_is_wrong_usage(db: Callable[..., Any], command: str, revision: str) -> None:
    done = db(command, revision)
    assert done.exit_code == 2
    assert "a step such as -1" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.usefixtures("empty")
def test_of_a_newer_schema_the_newer_program_is_advised(db: Callable[..., Any], tmp_path: Path) -> None:
    version_in(tmp_path, "9999")
    for told in (str(db("check").exception), db("current").stdout):
        assert "install the newer rankwatch" in told
        assert "run `rankwatch db upgrade`" not in told


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("version", [None, b"\x00\xff", ""])
def test_tables_whose_version_cannot_be_told_are_one_clear_error(
    db: Callable[..., Any], tmp_path: Path, version: object
) -> None:
    version_in(tmp_path, version)
    for command in (("current",), ("check",), ("upgrade",), ("downgrade", "0007"), ("size",)):
        error = db(*command).exception
        assert isinstance(error, SchemaError)
        assert "is empty or damaged" in str(error)


def test_check_tells_of_a_file_that_is_not_there_and_makes_none(db: Callable[..., Any], tmp_path: Path) -> None:
    assert "rankwatch.db does not exist" in str(db("check").exception)
    assert not (tmp_path / "rankwatch.db").exists()
    (tmp_path / "rankwatch.db").touch()
    assert "the schema is empty" in str(db("check").exception)


def test_a_file_system_that_cannot_be_written_is_named(db: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "rankwatch.yaml").write_text(CONFIG.replace("rankwatch.db", "disk/rankwatch.db"), encoding="utf-8")
    with small_disk(tmp_path / "disk", "8m") as disk:
        db("upgrade")
        subprocess.run([require("mount"), "-o", "remount,ro", str(disk)], check=True)
        assert "lies on a file system that is read-only" in str(db("size").exception)
