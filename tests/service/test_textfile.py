"""The textfile of `run-once` at a real node_exporter and a real Pushgateway: what Prometheus would read there after a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner, Result

from monitor.cli.main import app
from monitor.errors import ConfigError
from servers.pushing import running_node_exporter, running_pushgateway
from service.lists_world import write_world

Samples = dict[tuple[str, str], float]
"""Values by name and comparison, "" where there is none; of several segments or metrics the last."""


@pytest.fixture(scope="module")
def textfiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("textfiles")


@pytest.fixture(scope="module")
def node_exporter(textfiles: Path) -> Iterator[str]:
    with running_node_exporter(textfiles) as url:
        yield url


@pytest.fixture(scope="module")
def pushgateway() -> Iterator[str]:
    with running_pushgateway() as url:
        yield url


@pytest.fixture
def config(tmp_path: Path) -> Path:
    hook = 'receivers: [{webhook: {url: "http://127.0.0.1:9/"}}]\n'
    return write_world(tmp_path, f"sqlite:///{tmp_path}/rankwatch.db", every="1d", names=("feed", "search"), receivers=hook)


def run_once(config: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["run-once", "--config", str(config), *options], catch_exceptions=False)


def seen_at(url: str) -> Samples:
    page = requests.get(f"{url}/metrics", timeout=60).text
    return {
        (sample.name, sample.labels.get("comparison", "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith(("rankwatch_", "node_textfile_scrape_error")) and sample.labels.get("status") in (None, "ok")
    }


def break_candidate(config: Path) -> None:
    (config.parent / "candidate.jsonl").unlink()


def test_node_exporter_shows_what_run_once_wrote_and_after_a_failed_run_since_when_none_was_ok(
    config: Path, textfiles: Path, node_exporter: str
) -> None:
    file = textfiles / "all.prom"
    assert run_once(config, "--slot", "2024-01-08", "--textfile", str(file)).exit_code == 0
    before = seen_at(node_exporter)
    break_candidate(config)
    failed = run_once(config, "--slot", "2024-01-09", "--textfile", str(file))
    after = seen_at(node_exporter)
    file.unlink()

    assert failed.exit_code == 3
    assert before["node_textfile_scrape_error", ""] == after["node_textfile_scrape_error", ""] == 0
    assert before["rankwatch_similarity_mean", "feed"] == 1.0
    assert before["rankwatch_similarity_distribution_count", "search"] == 60
    assert ("rankwatch_similarity_mean", "feed") not in after
    assert (before["rankwatch_run_status", "feed"], after["rankwatch_run_status", "feed"]) == (1, 0)
    last_ok = ("rankwatch_run_last_ok_timestamp_seconds", "feed")
    assert before[last_ok] == after[last_ok] < after["rankwatch_run_last_finished_timestamp_seconds", "feed"]
    assert after["rankwatch_schedule_interval_seconds", "feed"] == 86400


def test_two_comparisons_may_write_a_file_each(config: Path, textfiles: Path, node_exporter: str) -> None:
    files = [textfiles / f"{name}.prom" for name in ("feed", "search")]
    for file in files:
        assert run_once(config, file.stem, "--slot", "2024-01-08", "--textfile", str(file)).exit_code == 0
    seen = seen_at(node_exporter)
    for file in files:
        file.unlink()

    assert seen["node_textfile_scrape_error", ""] == 0
    assert {name for _, name in seen if name} == {"feed", "search"}
    assert ("rankwatch_build_info", "") not in seen


def test_a_pushgateway_takes_the_file_as_the_whole_of_a_group(config: Path, tmp_path: Path, pushgateway: str) -> None:
    file = tmp_path / "feed.prom"
    group = f"{pushgateway}/metrics/job/rankwatch/comparison/feed"
    assert run_once(config, "feed", "--slot", "2024-01-08", "--textfile", str(file)).exit_code == 0
    requests.put(group, data=file.read_bytes(), timeout=10).raise_for_status()
    before = seen_at(pushgateway)
    break_candidate(config)
    assert run_once(config, "feed", "--slot", "2024-01-09", "--textfile", str(file)).exit_code == 3
    requests.put(group, data=file.read_bytes(), timeout=10).raise_for_status()
    after = seen_at(pushgateway)

    assert before["rankwatch_similarity_mean", "feed"] == 1.0
    assert ("rankwatch_similarity_mean", "feed") not in after
    assert after["rankwatch_run_last_ok_timestamp_seconds", "feed"] == before["rankwatch_run_last_ok_timestamp_seconds", "feed"]


def test_a_file_that_cannot_be_written_after_the_run_leaves_the_run_stored(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.export.require_textfile", lambda path: path)
    done = CliRunner().invoke(
        app, ["run-once", "--config", str(config), "--textfile", str(tmp_path / "gone" / "x.prom"), "--json"]
    )
    assert isinstance(done.exception, FileNotFoundError)  # the command's end tells of it, with exit code 74
    assert len(done.stdout.splitlines()) == 2


def test_a_name_that_node_exporter_passes_over_is_refused_before_anything_runs(config: Path) -> None:
    done = CliRunner().invoke(app, ["run-once", "--config", str(config), "--textfile", "rankwatch.txt"])
    assert isinstance(done.exception, ConfigError)
    assert "names end in .prom" in str(done.exception)
    assert not (config.parent / "rankwatch.db").exists()
