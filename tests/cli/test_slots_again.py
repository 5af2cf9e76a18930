"""Slots that are run again: what live sources answered at their time stays."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from clocks import set_clock
from commands import objects, rankwatch, read_json
from monitor.texts.slots import write_already_run, write_run_again
from servers.recommender import running_recommender
from storage.worked import store_over

pytestmark = pytest.mark.integration
SLOT = "2024-01-08T00:00:00Z"
PERIOD = "--since 2024-01-08 --until 2024-01-08"
TABLES = ("runs", "coverage", "summaries", "evidence", "kept_lists", "scores", "explanations")
LISTS = {f"u{number}": [number % 3, 11, 12, 13, 14] for number in range(40)}


@pytest.fixture
def candidate():
    """Another service, which lists other items than the baseline does."""
    with running_recommender() as server:
        server.lists = dict(LISTS)
        yield server


@pytest.fixture
def asking(world, recommender, candidate):
    """The configuration asks two services."""
    (world / "users.csv").write_text("user\n" + "\n".join(LISTS))
    (world / "rankwatch.yaml").write_text(f"""
database: sqlite:///rankwatch.db
comparisons:
  - name: feed
    every: 1d
    k: 5
    baseline: {{http: {{url: "{recommender.url}", retries: 0}}}}
    candidate: {{http: {{url: "{candidate.url}", retries: 0}}}}
    users: {{file: {{path: users.csv, user: user}}}}
    keep_lists: all
""")
    return world


def stored(world, comparison="feed"):
    """All that the database holds of the comparison's runs, without what the claim of another attempt changes."""
    found = {}
    with (
        store_over(f"{world}/rankwatch.db") as store,
        store.database.read() as connection,
    ):
        for table in TABLES:
            key = "id" if table == "runs" else "run_id"
            query = (
                f"SELECT * FROM {table} WHERE {key} IN (SELECT id FROM runs WHERE comparison "
                "= :name)"
            )
            rows = connection.execute(text(query), {"name": comparison}).mappings()
            found[table] = sorted((dict(row) for row in rows), key=repr)
    for run in found["runs"]:
        del run["comparison"], run["owner"]
    return found


def test_an_incident_that_is_replayed_during_a_later_outage_stays_as_it_is(asking, candidate):
    (incident,) = read_json(f"run-once --slot {SLOT}")
    before = stored(asking)
    assert all(before[table] for table in TABLES)
    candidate.behaviour = dict.fromkeys(list(LISTS)[::3], "unavailable")
    asked = len(candidate.asked)

    for command, code in ((f"replay {PERIOD}", 2), (f"run-once --slot {SLOT}", 0)):
        done = rankwatch(command)

        assert done.stderr.strip() == (f"rankwatch: {write_already_run('feed', 1, SLOT, 'feed@1')}")
        assert (done.returncode, stored(asking), len(candidate.asked)) == (code, before, asked)

    done = rankwatch(f"replay {PERIOD} --again --json")

    assert [each["paired"] for each in objects(done)] == [26]
    assert done.stderr.strip() == (f"rankwatch: {write_run_again('feed', 1, SLOT, 'feed@1')}")
    assert stored(asking, "feed@1") == before
    (earlier,) = read_json(f"show feed@1 --slot {SLOT}")
    (shown,) = read_json("show feed")
    assert (earlier["paired"], shown["earlier_attempts"]) == (incident["paired"], ["feed@1"])
    assert (
        f"an earlier attempt is stored: rankwatch show feed@1 --slot {SLOT}"
        in rankwatch("show feed").stdout
    )
    assert [(run["attempt"], run["paired"]) for run in read_json("runs feed")] == [(2, 26)]


def test_a_failed_slot_is_run_again_without_a_notice_and_the_failed_attempt_is_kept(
    asking, candidate
):
    candidate.otherwise = "unavailable"
    assert rankwatch(f"run-once --slot {SLOT}").returncode == 3
    failed = stored(asking)
    candidate.otherwise = "ok"

    assert [each["status"] for each in read_json(f"run-once --slot {SLOT}")] == ["ok"]
    assert stored(asking, "feed@1") == failed


def test_run_once_outside_of_only_between_asks_nobody_and_names_the_next_slot(
    asking, recommender, monkeypatch
):
    config = asking / "rankwatch.yaml"
    config.write_text(
        config.read_text().replace("every: 1d", "every: 1h\n    only_between: 14:00-15:00")
    )
    set_clock(monkeypatch, datetime(2026, 3, 10, 12, 30, tzinfo=UTC))

    done = rankwatch("run-once")

    told = (
        "rankwatch: feed: no slot is due now, because of only_between. The next one is "
        "2026-03-10T14:00:00Z"
    )
    assert (done.returncode, done.stderr.strip(), recommender.asked) == (0, told, [])
    assert rankwatch("run-once --slot 2026-03-09T14:00Z").returncode == 0
    assert recommender.asked
