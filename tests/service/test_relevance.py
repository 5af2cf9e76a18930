"""Relevance that arrives days after its run: the command and the daemon measure it."""

import json
import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from commands import of_all
from drift_lists import compare, lists_folder, write_config
from factories import DAY, HOUR, HeldClock
from monitor.cli.main import app
from monitor.service.daemon.daemon import Daemon
from monitor.storage import open_store
from servers.daemon import wait_for

K = 10
DAYS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
NDCG, RECALL = "ndcg(arm=candidate, gain=linear)@10", "recall(arm=baseline)@10"
MEASURED = """    users: {{all: true, segments: [country]}}
    metrics: [extended_tau, "ndcg(arm=candidate)@10", "recall(arm=baseline)@10"]
    arm_metrics: [catalogue_coverage, self_churn, novelty]
    relevance:
      within: {within}
      file: {{path: "{bought}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items, grades: grades}}
"""


@pytest.fixture
def bought(tmp_path: Path) -> Path:
    """The folder into which purchases arrive."""
    folder = tmp_path / "bought"
    folder.mkdir()
    return folder


def write(bought: Path, within: str) -> Path:
    measured = MEASURED.format(bought=bought, within=within)
    return write_config(bought.parent, compare("shop", measured, candidate="ok-seed"))


def arrive(bought: Path, day: datetime) -> None:
    shutil.copy(lists_folder() / "relevance" / f"{day:%Y-%m-%d}.parquet", bought)


def cli(*args: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(args), catch_exceptions=True)
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.mark.integration
def test_the_command_measures_what_has_arrived_and_tells_what_waits_since_when(bought):
    config = str(write(bought, within="9999d"))
    cli("replay", "--config", config, "--from", "2024-01-01", "--to", "2024-01-03")
    shown = cli("show", "shop", "--config", config)
    assert "relevance: waiting for labels until" in shown
    assert "by chance: two random lists of 10 from a catalogue of" in shown
    assert "self_churn" in shown

    for day in DAYS[:2]:
        arrive(bought, day)
    lines = cli("backfill", "shop", "--config", config, "--to", "2024-01-02", "--json").splitlines()
    filled: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [each["status"] for each in filled] == ["labelled", "labelled"]
    assert of_all(filled[0])[NDCG]["n"] == 36
    told = cli("backfill", "shop", "--config", config)
    assert "0 runs labelled now, 1 still waits, the oldest since 2024-01-03T00:00:00Z" in told
    assert "relevance: labelled" in cli("show", "shop", "--slot", "2024-01-02", "--config", config)
    found = json.loads(cli("show", "shop", "--slot", "2024-01-01", "--config", config, "--json"))
    assert {NDCG, RECALL} <= {each["metric"] for each in found["summaries"]}
    tau = next(each for each in found["summaries"] if each["metric"] == "extended_tau")
    assert tau["by_chance"] < -0.9
    assert {each["arm"] for each in found["arm_scores"]} == {"baseline", "candidate"}
    with closing(open_store(f"sqlite:///{bought.parent}/rankwatch.db", create=False)) as store:
        assert store.history.latest(["shop"])[0].unlabelled == 1

    (bought / "2024-01-03.parquet").write_bytes(b"no parquet")
    assert "failed" in cli("backfill", "shop", "--config", config, code=3)


def test_a_comparison_without_relevance_or_name_is_refused_in_words(bought):
    config = write(bought, within="7d")
    done = CliRunner().invoke(app, ["backfill", "shop2", "--config", str(config)])
    assert "no comparison named 'shop2'" in str(done.exception)
    text = config.read_text()
    config.write_text(
        text[: text.index("    relevance:")].replace(
            ', "ndcg(arm=candidate)@10", "recall(arm=baseline)@10"', ""
        )
    )
    done = CliRunner().invoke(app, ["backfill", "shop", "--config", str(config)])
    assert "has no `relevance:` in the configuration" in str(done.exception)
    assert (
        CliRunner()
        .invoke(app, ["backfill", "shop", "--from", "2024-01-02", "--to", "2024-01-01"])
        .exit_code
        == 2
    )


@pytest.mark.integration
def test_the_daemon_measures_what_has_arrived_after_its_run(bought):
    config = write(bought, within="7d")
    with Daemon(config, clock=HeldClock(DAYS[0] + HOUR)) as daemon:
        daemon.start()
        wait_for(
            lambda: daemon.store.runs.awaiting_relevance("shop", since=DAYS[0]), "the first run"
        )
    arrive(bought, DAYS[0])
    with Daemon(config, clock=HeldClock(DAYS[0] + DAY + HOUR)) as daemon:
        daemon.start()
        store = daemon.store
        wait_for(
            lambda: any(run.labelled_at for run in store.history.runs(comparison="shop", limit=9)),
            "the labels",
        )
        assert [run.slot for run in store.runs.awaiting_relevance("shop", since=DAYS[0])] == [
            DAYS[1]
        ]
