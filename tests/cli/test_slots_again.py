"""Slots that are run again: what live sources answered at their time stays."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from cli.test_commands import objects
from commands import rankwatch
from monitor.storage import open_store
from servers.recommender import Recommender, running_recommender

SLOT = "2024-01-08T00:00:00Z"
PERIOD = ("--from", "2024-01-08", "--to", "2024-01-08")
TABLES = ("runs", "coverage", "coverage_reasons", "summaries", "statistics", "evidence", "kept_lists", "scores", "explanations")
LISTS = {f"u{number}": [number % 3, 11, 12, 13, 14] for number in range(40)}


@pytest.fixture
def candidate() -> Iterator[Recommender]:
    with running_recommender() as server:
        yield server


@pytest.fixture
def world(tmp_path: Path, recommender: Recommender, candidate: Recommender) -> Path:
    """A folder whose configuration asks two services; the candidate lists other items than the baseline does."""
    (tmp_path / "users.csv").write_text("user\n" + "\n".join(LISTS))
    candidate.lists = dict(LISTS)
    return _configured(tmp_path, recommender, candidate)


def _configured(folder: Path, baseline: Recommender, candidate: Recommender) -> Path:
    (folder / "rankwatch.yaml").write_text(f"""
database: sqlite:///rankwatch.db
comparisons:
  - name: feed
    every: 1d
    k: 5
    baseline: {{http: {{url: "{baseline.url}", retries: 0}}}}
    candidate: {{http: {{url: "{candidate.url}", retries: 0}}}}
    users: {{file: {{path: users.csv, user: user}}}}
    keep_lists: all
""")
    return folder


def stored(world: Path, comparison: str = "feed") -> dict[str, list[Any]]:
    """All that the database holds of the comparison's runs, without what the claim of another attempt changes."""
    with closing(open_store(f"sqlite:///{world}/rankwatch.db", create=False)) as store, store.database.read() as connection:
        ids = "SELECT id FROM runs WHERE comparison = :name"
        named = {table: "id" if table == "runs" else "run_id" for table in TABLES}
        queries = {table: f"SELECT * FROM {table} WHERE {key} IN ({ids})" for table, key in named.items()}  # noqa: S608
        found = {
            table: [dict(row) for row in connection.execute(text(query), {"name": comparison}).mappings()]
            for table, query in queries.items()
        }
    for run in found["runs"]:
        del run["comparison"], run["owner"]
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def test_an_incident_that_is_replayed_during_a_later_outage_stays_as_it_is(world: Path, candidate: Recommender) -> None:
    (incident,) = objects(rankwatch("run-once", "--slot", SLOT, "--json", cwd=world))
    before = stored(world)
    assert all(before[table] for table in TABLES if table != "coverage_reasons")
    candidate.behaviour = dict.fromkeys(list(LISTS)[::3], "unavailable")
    asked = len(candidate.asked)

    for command, code in ((("replay", *PERIOD), 2), (("run-once", "--slot", SLOT), 0)):
        done = rankwatch(*command, cwd=world)

        assert done.stderr.strip() == (
            f"rankwatch: feed: the run of {SLOT} stored what live sources answered then, and asked again they would answer for "
            f"now. rankwatch show feed --slot {SLOT} shows it; --again asks anew, and keeps what is stored as feed@1"
        )
        assert (done.returncode, stored(world), len(candidate.asked)) == (code, before, asked)

    done = rankwatch("replay", *PERIOD, "--again", "--json", cwd=world)

    assert [each["paired"] for each in objects(done)] == [26]
    assert done.stderr.strip() == (
        f"rankwatch: feed: the run of {SLOT} asked anew; what was stored stays: rankwatch show feed@1 --slot {SLOT}"
    )
    assert stored(world, "feed@1") == before
    (earlier,) = objects(rankwatch("show", "feed@1", "--slot", SLOT, "--json", cwd=world))
    (shown,) = objects(rankwatch("show", "feed", "--json", cwd=world))
    assert (earlier["paired"], shown["earlier_attempts"]) == (incident["paired"], ["feed@1"])
    assert f"an earlier attempt is kept: rankwatch show feed@1 --slot {SLOT}" in rankwatch("show", "feed", cwd=world).stdout
    (newest,) = objects(rankwatch("runs", "feed", "--json", cwd=world))
    assert (newest["attempt"], newest["paired"]) == (2, 26)


def test_what_failed_is_tried_again_without_a_word_and_kept_beside_the_run(world: Path, candidate: Recommender) -> None:
    candidate.otherwise = "unavailable"
    assert rankwatch("run-once", "--slot", SLOT, cwd=world).returncode == 3
    failed = stored(world)
    candidate.otherwise = "ok"

    assert [each["status"] for each in objects(rankwatch("run-once", "--slot", SLOT, "--json", cwd=world))] == ["ok"]
    assert stored(world, "feed@1") == failed


def test_run_once_outside_of_only_between_asks_nobody_and_names_the_next_slot(tmp_path: Path, recommender: Recommender) -> None:
    (tmp_path / "users.csv").write_text("user\nu1\nu2\n")
    folder = _configured(tmp_path, recommender, recommender)
    opens = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
    hours = f"every: 1h\n    only_between: {opens:%H:%M}-{opens + timedelta(hours=1):%H:%M}"
    (folder / "rankwatch.yaml").write_text((folder / "rankwatch.yaml").read_text().replace("every: 1d", hours))

    done = rankwatch("run-once", cwd=folder)

    told = f"rankwatch: feed: no slot is due outside of only_between, the next one is {opens:%Y-%m-%dT%H:%M:%SZ}"
    assert (done.returncode, done.stderr.strip(), recommender.asked) == (0, told, [])
    assert rankwatch("run-once", "--slot", f"{opens - timedelta(days=1):%Y-%m-%dT%H:%MZ}", cwd=folder).returncode == 0
    assert recommender.asked
