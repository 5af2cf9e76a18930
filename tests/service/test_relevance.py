"""Relevance that arrives days after its run: the command and the daemon measure it."""

import shutil
from datetime import UTC, datetime

import pytest

from commands import of_all, rankwatch, read_json
from drift_lists import arm_folder, compare, write_config
from factories import DAY, HOUR, HeldClock
from monitor.service.daemon.daemon import Daemon
from servers.daemon import wait_for

DAYS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
NDCG = "ndcg(arm=candidate, gain=linear)@10"
RECALL = "recall(arm=baseline)@10"
MEASURED = """    users: {{all: true, segments: [country]}}
    metrics: [extended_tau, "ndcg(arm=candidate)@10", "recall(arm=baseline)@10"]
    arm_metrics: [catalogue_coverage, self_churn, novelty]
    relevance:
      within: {within}
      file: {{path: "{bought}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items, grades: grades}}
"""


@pytest.fixture
def bought(tmp_path, monkeypatch):
    """The folder into which purchases arrive, in the current one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bought"
    folder.mkdir()
    return folder


def write(bought, within):
    measured = MEASURED.format(bought=bought, within=within)
    return write_config(bought.parent, compare("shop", measured, candidate="ok-seed"))


def arrive(bought, day):
    shutil.copy(arm_folder("relevance") / f"{day:%Y-%m-%d}.parquet", bought)


@pytest.mark.slow
def test_backfill_measures_arrived_relevance_and_reports_waiting_runs(bought):
    write(bought, within="9999d")
    rankwatch("replay --since 2024-01-01 --until 2024-01-03")
    shown = rankwatch("show shop").stdout
    assert "relevance: the run waits for labels until" in shown
    assert "by chance: two random lists of 10 out of" in shown
    assert "self_churn" in shown

    for day in DAYS[:2]:
        arrive(bought, day)
    filled = read_json("backfill shop --until 2024-01-02")
    assert [each["status"] for each in filled] == ["labelled", "labelled"]
    assert of_all(filled[0])[NDCG]["n"] == 36
    told = rankwatch("backfill shop").stdout
    assert "0 runs labelled now, 1 still waits, the oldest since 2024-01-03T00:00:00Z" in told
    assert "relevance: labelled" in rankwatch("show shop --slot 2024-01-02").stdout
    (found,) = read_json("show shop --slot 2024-01-01")
    assert {NDCG, RECALL} <= {each["metric"] for each in found["summaries"]}

    (bought / "2024-01-03.parquet").write_bytes(b"no parquet")
    failed = rankwatch("backfill shop")
    assert failed.returncode == 3
    assert "failed" in failed.stdout


@pytest.mark.slow
def test_the_daemon_measures_relevance_that_arrives_after_its_run(bought):
    config = write(bought, within="7d")
    rankwatch("replay --since 2024-01-01 --until 2024-01-01")
    arrive(bought, DAYS[0])
    with Daemon(config, clock=HeldClock(DAYS[0] + DAY + HOUR)) as daemon:
        daemon.start()
        store = daemon.store
        wait_for(
            lambda: any(run.labelled_at for run in store.history.runs(comparison="shop", limit=9)),
            "the labels",
        )

        def awaiting():
            return [run.slot for run in store.runs.awaiting_relevance("shop", since=DAYS[0])]

        wait_for(lambda: awaiting() == [DAYS[1]], "the run of the second day")
