"""What a real daemon shows: after a run its comparison alone is read and published.

After restarts and reloads, all.
"""

import json
import socket
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families as parse_text

from factories import DAY, HOUR, SLOT, HeldClock
from monitor.errors import DatabaseError
from monitor.export.series import SERIES, Kind
from monitor.model.runs import LatestRun, RunStatus
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon.jobs import LatestRuns
from monitor.storage import SqlStore
from servers.daemon import wait_for
from servers.webhook import Collector, answer
from service.lists_world import APART, write_config, write_lists, write_world
from service.stepped_daemon import Watched, watching
from storage.worked import run

Labels = frozenset[tuple[str, str]]
Page = Mapping[tuple[str, Labels], float]
"""Values by series."""
COUNTED = {one.name for one in SERIES.values() if one.kind in (Kind.COUNTER, Kind.HISTOGRAM)}
RELOADED_OK, RELOADED_AT = (
    "config_last_reload_successful",
    "config_last_reload_success_timestamp_seconds",
)


def scrape(watched: Watched) -> Page:
    """What it shows but for sizes, which come when a job of their own has ended."""
    text = requests.get(f"{watched.daemon.url}/metrics", timeout=60).text
    families = [each for each in parse_text(text) if each.name != "rankwatch_database_size_bytes"]
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families
        for each in family.samples
    }


def value(page: Page, name: str, **labels: str) -> float | None:
    return page.get((f"rankwatch_{name}", frozenset(labels.items())))


def of(page: Page, comparison: str) -> Page:
    return {
        series: value for series, value in page.items() if ("comparison", comparison) in series[1]
    }


def is_counted(series: tuple[str, Labels]) -> bool:
    name = series[0]
    return any(
        name == stem or name in {f"{stem}_{part}" for part in ("bucket", "sum", "count")}
        for stem in COUNTED
    )


def after_run_of(watched: Watched, comparison: str) -> Page:
    """What is shown once its first run was counted and, which comes a little later, published."""

    def look() -> Page | None:
        page = scrape(watched)
        is_counted_once = value(page, "runs_total", comparison=comparison, status="ok") == 1
        is_published = (
            value(page, "run_last_ok_timestamp_seconds", comparison=comparison) is not None
        )
        return page if is_counted_once and is_published else None

    page = wait_for(look, f"the first run of {comparison}")
    assert page is not None
    return page


@pytest.mark.integration
def test_after_a_restart_counters_begin_at_0_and_the_newest_run_is_back_before_the_next_one(
    tmp_path, url
):
    config = write_world(tmp_path, url, every="1d")
    with watching(config) as watched:
        before, again = after_run_of(watched, "feed"), scrape(watched)
    assert before.keys() == again.keys()

    with watching(config) as watched:
        first, after = scrape(watched), scrape(watched)
    assert first.keys() == after.keys()
    assert {
        series: each for series, each in of(before, "feed").items() if not is_counted(series)
    } == {series: each for series, each in of(first, "feed").items() if not is_counted(series)}
    assert (
        value(first, "similarity_mean", comparison="feed", metric="extended_tau", segment="all")
        == 1.0
    )
    assert {each for series, each in of(first, "feed").items() if is_counted(series)} == {0.0}
    known_once_run = {
        series for series in before if series[0].startswith("rankwatch_stage_duration_seconds")
    }
    assert before.keys() - first.keys() == known_once_run


@pytest.fixture
def gate(collector: Collector) -> threading.Event:
    """Sources at the collector answer, with an error, once it is set.

    Messages are taken at once.
    """
    opened = threading.Event()

    def wait(told: Collector, sock: socket.socket) -> None:
        opened.wait(60)
        answer(404)(told, sock)

    collector.respond = lambda request: answer(200) if request.path == "/hook" else wait
    return opened


def make_slow(config: Path, source: str) -> None:
    """Let the candidate of the last comparison wait for the gate."""
    before, _, after = config.read_text().rpartition(
        "candidate: {file: {path: candidate.jsonl, user: user_id, items: items}}"
    )
    config.write_text(
        f'{before}candidate: {{http: {{url: "{source}/{{user}}", timeout: 1m, retries: 0}}}}{after}'
    )


def test_a_reload_brings_a_comparison_at_0_and_takes_one_away_whole_even_while_it_runs_or_an_alert_of_it_fires(
    tmp_path, url, collector, gate
):
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook"}}}}]\n'

    def write(*names: str) -> Path:
        config = write_config(tmp_path, url, every="1d", names=names, receivers=hook)
        config.write_text(config.read_text().replace("for: 2", "for: 1"))
        return config

    write_world(tmp_path, url)
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(write("gone", "kept")) as watched:
        after_run_of(watched, "kept")
        before = after_run_of(watched, "gone")
        make_slow(write("kept", "slow"), collector.url)
        assert watched.daemon.reload()
        during = scrape(watched)
        wait_for(lambda: any(request.path != "/hook" for request in collector.requests), "a pull")
        write("kept")
        assert watched.daemon.reload()
        after = scrape(watched)
        gate.set()
        wait_for(lambda: not watched.daemon._runner.claims, "the end of the run of what is gone")
        last = scrape(watched)
        wait_for(lambda: ("gone", "resolved") in messages_to(collector), "the end of its alert")

    assert any(is_counted(series) for series in of(before, "gone"))
    assert of(during, "gone") == {}
    assert {
        each for (name, _), each in of(during, "slow").items() if name == "rankwatch_run_status"
    } == {0.0}
    assert {each for series, each in of(during, "slow").items() if is_counted(series)} == {0.0}
    assert value(during, "runs_total", comparison="slow", status="ok") == 0.0
    assert value(during, "schedule_interval_seconds", comparison="slow") == 86400.0
    assert of(after, "slow") == of(last, "slow") == {}
    assert of(before, "kept") == of(during, "kept") == of(after, "kept") == of(last, "kept")
    assert after.keys() == last.keys()
    assert ("kept", "resolved") not in messages_to(collector)


def messages_to(collector: Collector) -> list[tuple[str, str]]:
    bodies = [
        json.loads(request.body) for request in list(collector.requests) if request.path == "/hook"
    ]
    return [(body["groupLabels"]["comparison"], body["status"]) for body in bodies]


def test_a_reload_that_fails_whatever_the_reason_changes_one_value_and_a_mended_one_moves_its_time(
    tmp_path, url, monkeypatch
):
    def fail(_: object) -> None:
        raise TypeError

    config = write_world(tmp_path, url, every="1d")
    right = config.read_text()
    with watching(config) as watched:
        before = after_run_of(watched, "feed")
        config.write_text("comparisons: [{nme: x}]\n")
        assert not watched.daemon.reload()
        with monkeypatch.context() as patched:
            patched.setattr(daemon_module, "load_settings", fail)
            assert not watched.daemon.reload()
        broken = scrape(watched)
        assert [watched.status_of(path) for path in ("/-/healthy", "/-/ready")] == [200, 200]
        config.write_text(right)
        assert watched.daemon.reload()
        mended = scrape(watched)

    assert [value(page, RELOADED_OK) for page in (before, broken, mended)] == [1, 0, 1]
    assert before.keys() == broken.keys() == mended.keys()
    assert of(before, "feed") == of(broken, "feed") == of(mended, "feed")
    at, still_at, then_at = (value(page, RELOADED_AT) or 0.0 for page in (before, broken, mended))
    assert at == still_at < then_at


NAMES = ("feed", "mail", "search")


@pytest.fixture
def latest(store: SqlStore) -> LatestRuns:
    """Of three comparisons, each with a run."""
    for name in NAMES:
        run(store, SLOT, comparison=name)
    publisher: Any = Mock()
    made = LatestRuns(store, publisher, HeldClock(SLOT + DAY))
    assert made.all is None
    made.refresh(NAMES)
    return made


def failed(store: SqlStore, hours: int) -> None:
    run(store, SLOT + hours * HOUR, comparison="mail", status=RunStatus.FAILED)


def slot_of(latest: LatestRuns) -> datetime | None:
    shown = latest.of("mail")
    return shown.run.slot if shown else None


def test_after_a_run_one_comparison_is_read_and_the_others_stay_the_same_objects(store, latest):
    before = latest.all
    failed(store, 1)
    latest.read("mail")
    after = latest.all
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert after[1].run.status is RunStatus.FAILED
    latest.read("mail")
    assert latest.of("mail") is after[1]  # what is equal stays the same object too


def test_a_refresh_reads_what_changed_also_when_the_one_before_could_not(
    store, latest, monkeypatch
):
    failed(store, 1)
    with monkeypatch.context() as broken:
        broken.setattr(
            store.history, "latest", Mock(side_effect=DatabaseError("away", permanent=False))
        )
        with pytest.raises(DatabaseError):
            latest.refresh(NAMES)
    latest.refresh(NAMES)
    assert slot_of(latest) == SLOT + HOUR


def test_a_read_that_began_before_another_one_ended_puts_nothing_older_in_its_place(
    store, latest, monkeypatch
):
    read = store.history.latest

    def read_late(*names: Any, **until: Any) -> tuple[LatestRun, ...]:
        found = read(*names, **until)
        monkeypatch.undo()
        failed(store, 2)
        latest.read("mail")
        return found

    failed(store, 1)
    monkeypatch.setattr(store.history, "latest", read_late)
    latest.refresh(NAMES)
    assert slot_of(latest) == SLOT + 2 * HOUR
