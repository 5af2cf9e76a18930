"""What a real daemon shows: after a run its comparison alone is read and published; after restarts and reloads, all."""

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families as parse_text

import published
from factories import HeldClock
from monitor.errors import DatabaseError
from monitor.export.series import SERIES, Kind
from monitor.model.runs import LatestRun, RunStatus, Watermark
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon.jobs import ROUNDS, LatestRuns
from servers.daemon import wait_for
from servers.webhook import Collector, answer
from service.lists_world import APART, write_config, write_lists, write_world
from service.stepped_daemon import Watched, watching

Labels = frozenset[tuple[str, str]]
Page = Mapping[tuple[str, Labels], float]
"""Values by series."""
COUNTED = {one.name for one in SERIES.values() if one.kind in (Kind.COUNTER, Kind.HISTOGRAM)}
RELOADED_OK, RELOADED_AT = "config_last_reload_successful", "config_last_reload_success_timestamp_seconds"


def scrape(watched: Watched) -> Page:
    """What it shows but for sizes, which come when a job of their own has ended."""
    text = requests.get(f"{watched.daemon.url}/metrics", timeout=60).text
    families = [each for each in parse_text(text) if each.name != "rankwatch_database_size_bytes"]
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(page: Page, name: str, **labels: str) -> float | None:
    return page.get((f"rankwatch_{name}", frozenset(labels.items())))


def of(page: Page, comparison: str) -> Page:
    return {series: value for series, value in page.items() if ("comparison", comparison) in series[1]}


def is_counted(series: tuple[str, Labels]) -> bool:
    name = series[0]
    return any(name == stem or name in {f"{stem}_{part}" for part in ("bucket", "sum", "count")} for stem in COUNTED)


def after_run_of(watched: Watched, comparison: str) -> Page:
    """What is shown once its first run was counted and, which comes a little later, published."""

    def look() -> Page | None:
        page = scrape(watched)
        is_counted_once = value(page, "runs_total", comparison=comparison, status="ok") == 1
        is_published = value(page, "run_last_ok_timestamp_seconds", comparison=comparison) is not None
        return page if is_counted_once and is_published else None

    page = wait_for(look, f"the first run of {comparison}")
    assert page is not None
    return page


@pytest.mark.integration
def test_after_a_restart_counters_begin_at_0_and_the_newest_run_is_back_before_the_next_one(tmp_path: Path, url: str) -> None:
    config = write_world(tmp_path, url, every="1d")
    with watching(config) as watched:
        before, again = after_run_of(watched, "feed"), scrape(watched)
    assert before.keys() == again.keys()

    with watching(config) as watched:
        first, after = scrape(watched), scrape(watched)
    assert first.keys() == after.keys()
    assert {series: each for series, each in of(before, "feed").items() if not is_counted(series)} == {
        series: each for series, each in of(first, "feed").items() if not is_counted(series)
    }
    assert value(first, "similarity_mean", comparison="feed", metric="extended_tau", segment="all") == 1.0
    assert {each for series, each in of(first, "feed").items() if is_counted(series)} == {0.0}
    known_once_run = {series for series in before if series[0].startswith("rankwatch_stage_duration_seconds")}
    assert before.keys() - first.keys() == known_once_run


@pytest.fixture
def gate(collector: Collector) -> threading.Event:
    """Sources at the collector answer, with an error, once it is set; messages are taken at once."""
    opened = threading.Event()

    def wait(told: Collector, sock: socket.socket) -> None:
        opened.wait(60)
        answer(404)(told, sock)

    collector.respond = lambda request: answer(200) if request.path == "/hook" else wait
    return opened


def make_slow(config: Path, source: str) -> None:
    """Let the candidate of the last comparison wait for the gate."""
    before, _, after = config.read_text().rpartition("candidate: {file: {path: candidate.jsonl, user: user_id, items: items}}")
    config.write_text(f'{before}candidate: {{http: {{url: "{source}/{{user}}", timeout: 1m, retries: 0}}}}{after}')


def test_a_reload_brings_a_comparison_at_0_and_takes_one_away_whole_even_while_it_runs_or_an_alert_of_it_fires(
    tmp_path: Path, url: str, collector: Collector, gate: threading.Event
) -> None:
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
    assert {each for (name, _), each in of(during, "slow").items() if name == "rankwatch_run_status"} == {0.0}
    assert {each for series, each in of(during, "slow").items() if is_counted(series)} == {0.0}
    assert value(during, "runs_total", comparison="slow", status="ok") == 0.0
    assert value(during, "schedule_interval_seconds", comparison="slow") == 86400.0
    assert of(after, "slow") == of(last, "slow") == {}
    assert of(before, "kept") == of(during, "kept") == of(after, "kept") == of(last, "kept")
    assert after.keys() == last.keys()
    assert ("kept", "resolved") not in messages_to(collector)


def messages_to(collector: Collector) -> list[tuple[str, str]]:
    bodies = [json.loads(request.body) for request in list(collector.requests) if request.path == "/hook"]
    return [(body["groupLabels"]["comparison"], body["status"]) for body in bodies]


def test_a_reload_that_fails_whatever_the_reason_changes_one_value_and_a_mended_one_moves_its_time(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


AWAY = DatabaseError("away", permanent=False)
NAMES = tuple(f"c{number:02}" for number in range(40))


@dataclass
class Stored:
    """A store that notes what is read of it, and a publisher that notes what is shown."""

    runs: dict[str, LatestRun] = field(default_factory=lambda: {name: published.named(name) for name in NAMES})
    read: list[str] = field(default_factory=list)
    shown: tuple[LatestRun, ...] = ()
    before_reading: Any = None

    @property
    def history(self) -> "Stored":
        return self

    def changes(self, comparisons: Sequence[str], seen: Watermark, *, until: datetime) -> tuple[frozenset[str], Watermark]:
        marks = {name: self.runs[name].run.mark for name in comparisons if name in self.runs}
        changed = frozenset(name for name, mark in marks.items() if mark != seen.runs.get(name))
        return changed, Watermark(runs=marks, transition=1)

    def latest(self, comparisons: Sequence[str], *, until: datetime) -> tuple[LatestRun, ...]:
        found = tuple(self.runs[name] for name in comparisons if name in self.runs)
        if self.before_reading is not None:
            act, self.before_reading = self.before_reading, None
            act()
        self.read += comparisons
        return found

    def publish(self, latest: Sequence[LatestRun]) -> None:
        self.shown = tuple(latest)


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def latest(stored: Stored) -> LatestRuns:
    both: Any = stored
    made = LatestRuns(both, both, HeldClock())
    assert made.all is None
    made.refresh(NAMES)
    assert sorted(stored.read) == list(NAMES)
    stored.read.clear()
    return made


def status(stored: Stored, name: str) -> RunStatus:
    return next(one.run.status for one in stored.shown if one.run.comparison == name)


def test_after_a_run_one_comparison_is_read_and_the_others_stay_the_same_objects(stored: Stored, latest: LatestRuns) -> None:
    before = {one.run.comparison: one for one in stored.shown}
    stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
    latest.read("c07")
    assert stored.read == ["c07"]
    assert [one.run.comparison for one in stored.shown] == list(NAMES)
    assert {one.run.comparison for one in stored.shown if one is not before[one.run.comparison]} == {"c07"}
    assert latest.all == stored.shown
    latest.refresh(NAMES)
    assert stored.read.count("c07") == 1
    failed = latest.of("c07")
    stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
    latest.read("c07")
    assert latest.of("c07") is failed  # what is equal stays the same object too


def test_a_refresh_reads_what_changed_and_in_twenty_everything_once(stored: Stored, latest: LatestRuns) -> None:
    stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED
    assert len(stored.read) <= 1 + len(NAMES) // ROUNDS
    for _ in range(ROUNDS - 1):
        latest.refresh(NAMES)
    assert set(stored.read) == set(NAMES)
    assert len(stored.read) <= len(NAMES) + 1


def test_a_read_that_began_before_another_one_ended_puts_nothing_older_in_its_place(stored: Stored, latest: LatestRuns) -> None:
    def run_meanwhile() -> None:
        stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
        latest.read("c07")

    stored.runs["c07"], stored.before_reading = published.named("c07", RunStatus.INSUFFICIENT), run_meanwhile
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED


def test_a_comparison_that_was_removed_is_not_brought_back_and_one_that_was_added_is_read(
    stored: Stored, latest: LatestRuns
) -> None:
    stored.runs["new"] = published.named("new")
    latest.refresh((*NAMES[1:], "new"))
    latest.read("c00")
    assert [one.run.comparison for one in stored.shown] == [*NAMES[1:], "new"]


def test_what_could_not_be_read_is_read_by_the_next_refresh(stored: Stored, latest: LatestRuns) -> None:
    def fail() -> None:
        raise AWAY

    stored.runs["c07"], stored.before_reading = published.named("c07", RunStatus.FAILED), fail
    with pytest.raises(DatabaseError):
        latest.refresh(NAMES)
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED
