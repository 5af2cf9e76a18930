"""The command `db`: what it prints for people and for machines, and its exit codes."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from monitor.cli.database import _print_pruned
from monitor.cli.main import app
from monitor.errors import SchemaError
from monitor.model import Pruned
from monitor.storage import open_store, schema
from storage.worked import run

DAY = timedelta(days=1)
CONFIG = """database: sqlite:///rankwatch.db
retention: {scores: 30d, evidence: 30d, max_size: 1GB}
comparisons:
  - name: home-feed
    every: 1d
    baseline: {file: {path: a.jsonl, user: user, items: items}}
    candidate: {file: {path: b.jsonl, user: user, items: items}}
    users: {all: true}
"""


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rankwatch.yaml").write_text(CONFIG, encoding="utf-8")
    return lambda *args: CliRunner().invoke(app, ["db", *args])


@pytest.fixture
def filled(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as store:
        for days in (60, 40, 2):
            run(store, now - days * DAY)


def test_current_and_check_speak_to_machines(db: Callable[..., Any]) -> None:
    assert json.loads(db("current", "--json").stdout) == {"schema": None, "wanted": schema.head()}
    db("upgrade")
    expected = {"schema": schema.head(), "wanted": schema.head(), "as_expected": True, "differences": []}
    assert json.loads(db("check", "--json").stdout) == expected
    db("downgrade", "0001")
    old = db("check", "--json")
    assert (type(old.exception), json.loads(old.stdout)["as_expected"]) == (SchemaError, False)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("revision", ["0007", "-2"])
def test_downgrade_tells_which_tables_go_with_what_is_in_them(db: Callable[..., Any], revision: str) -> None:
    db("prune")

    assert "drops" not in db("downgrade", "0009").stdout
    told = db("downgrade", "--", revision).stdout.splitlines()
    assert told == ["drops daily (6 rows)", "schema 0007"]


@pytest.mark.usefixtures("filled")
def test_downgrade_to_nothing_names_every_table_that_holds_anything(db: Callable[..., Any]) -> None:
    told = " ".join(db("downgrade", "base").stdout.split())
    assert "runs (3 rows)" in told
    assert "scores (18 rows)" in told
    assert "silences" not in told
    assert "known versions are" in str(db("downgrade", "nope").exception)


@pytest.mark.usefixtures("filled")
def test_size_tells_each_kind_what_it_costs_and_when_the_largest_size_is_reached(db: Callable[..., Any]) -> None:
    found = json.loads(db("size", "--json").stdout)
    kinds = {each["kind"]: each for each in found["kinds"]}
    assert (kinds["scores"]["rows"], kinds["evidence"]["rows"], kinds["runs"]["rows"] > 3) == (18, 6, True)
    assert found["max_bytes"] == 10**9
    assert found["days_to_max_size"] > 1000

    printed = db("size").stdout
    assert "scores" in printed
    assert "retention.max_size 1.0 GB: reached in" in printed


@pytest.mark.usefixtures("filled")
def test_prune_tells_first_and_then_deletes_what_it_told(db: Callable[..., Any]) -> None:
    foreseen = json.loads(db("prune", "--dry-run", "--json").stdout)
    assert foreseen["rows"] == {"scores": 12, "evidence": 4}
    assert "would be deleted" in db("prune", "--dry-run").stdout
    done = json.loads(db("prune", "--vacuum", "--json").stdout)
    assert (done["rows"], done["aged"], done["early"]) == (foreseen["rows"] | done["rows"], foreseen["aged"], {})
    assert "nothing deleted" in db("prune").stdout


def test_prune_deletes_nothing_and_says_so_where_no_run_bears_the_clock_out(db: Callable[..., Any], tmp_path: Path) -> None:
    long_ago = datetime(2024, 1, 8, tzinfo=UTC)
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as store:
        run(store, long_ago)

    told = db("prune").stdout
    machine = json.loads(db("prune", "--json").stdout)

    assert "bear out no more than 2024-01-11T00:00:00Z: ages are counted back from there" in " ".join(told.split())
    assert "nothing deleted" in told
    assert (machine["rows"], machine["reckoned_from"]) == ({}, "2024-01-11T00:00:00Z")
    assert json.loads(db("prune", "--dry-run", "--json").stdout)["reckoned_from"] == "2024-01-11T00:00:00Z"


def test_prune_tells_what_was_put_off_and_what_stays_whatever_the_size(capsys: pytest.CaptureFixture[str]) -> None:
    why = "scores_from_1 was not dropped: process 7 (psql, idle in transaction for 9 s) holds it: tried again the next time"
    found = Pruned(used_bytes=5000, excess_bytes=4000, lasting_bytes=3000, put_off=(why,))

    _print_pruned(found, 1000, is_dry_run=False)

    told = capsys.readouterr().out
    assert f"put off: {why}" in told
    assert "5.0 kB are used, 4.0 kB more than retention.max_size: what was put off is left to go" in told
    assert "3.0 kB stay whatever the size: scores in partitions in use, or with the newest ok run of a comparison" in told
