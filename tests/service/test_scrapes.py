"""What a real daemon shows after runs, restarts and reloads."""

from unittest.mock import Mock

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families as parse_text

from factories import DAY, HOUR, SLOT, HeldClock
from monitor.model.errors import DatabaseError
from monitor.model.runs import RunStatus
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon.latest_runs import LatestRuns
from servers.daemon import wait_for
from service.lists_world import APART, write_config, write_lists, write_world
from service.stepped_daemon import watching
from storage.worked import run

RELOADED_OK = "config_last_reload_successful"
RELOADED_AT = "config_last_reload_success_timestamp_seconds"


def scrape(watched):
    """What it shows but for sizes, which come when a job of their own has ended."""
    text = requests.get(f"{watched.daemon.url}/metrics", timeout=60).text
    families = [each for each in parse_text(text) if each.name != "rankwatch_database_size_bytes"]
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families
        for each in family.samples
    }


def value(page, name, **labels):
    return page.get((f"rankwatch_{name}", frozenset(labels.items())))


def of(page, comparison):
    return {
        series: value for series, value in page.items() if ("comparison", comparison) in series[1]
    }


def after_run_of(watched, comparison):
    """What is shown once its first run was counted and, which comes a little later, published."""

    def look():
        page = scrape(watched)
        is_counted_once = value(page, "runs_total", comparison=comparison, status="ok") == 1
        is_published = (
            value(page, "run_last_ok_timestamp_seconds", comparison=comparison) is not None
        )
        return page if is_counted_once and is_published else None

    return wait_for(look, f"the first run of {comparison}")


@pytest.mark.slow
def test_a_reload_removes_a_comparison_completely_and_ends_only_its_alert(tmp_path, url, collector):
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook"}}}}]\n'

    def write(*names):
        return write_config(tmp_path, url, names=names, receivers=hook, streak=1)

    write_world(tmp_path, url)
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(write("gone", "kept")) as watched:
        after_run_of(watched, "kept")
        before = after_run_of(watched, "gone")
        wait_for(lambda: ("gone", "firing") in messages_to(collector), "its alert")
        write("kept")
        assert watched.daemon.reload()
        after = scrape(watched)
        wait_for(lambda: ("gone", "resolved") in messages_to(collector), "the end of its alert")

    assert of(before, "gone")
    assert not of(after, "gone")
    assert of(before, "kept") == of(after, "kept")
    assert ("kept", "resolved") not in messages_to(collector)


def messages_to(collector):
    bodies = [request.json() for request in list(collector.requests)]
    return [(body["groupLabels"]["comparison"], body["status"]) for body in bodies]


def test_a_failed_reload_changes_one_value_and_the_next_good_reload_sets_its_time(
    tmp_path, url, monkeypatch
):
    def fail(_):
        raise TypeError

    config = write_world(tmp_path, url)
    right = config.read_text()
    with watching(config) as watched:
        before = after_run_of(watched, "feed")
        config.write_text("comparisons: [{nme: x}]\n")
        assert not watched.daemon.reload()
        with monkeypatch.context() as patched:
            patched.setattr(daemon_module, "load_settings", fail)
            assert not watched.daemon.reload()
        broken = scrape(watched)
        assert "rankwatch has a bug: TypeError" in watched.text_of("/")
        assert watched.status_of("/-/ready") == 200
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
def latest(store):
    """Of three comparisons, each with a run."""
    for name in NAMES:
        run(store, SLOT, comparison=name)
    publisher = Mock()
    made = LatestRuns(store, publisher, HeldClock(SLOT + DAY))
    assert made.all is None
    made.refresh(NAMES)
    return made


def failed(store, hours):
    run(store, SLOT + hours * HOUR, comparison="mail", status=RunStatus.FAILED)


def slot_of(latest):
    shown = latest.of("mail")
    return shown.slot if shown else None


def test_after_a_run_only_its_comparison_is_read(store, latest):
    before = latest.all
    failed(store, 1)
    latest.read("mail")
    after = latest.all
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert after[1].status is RunStatus.FAILED
    latest.read("mail")
    assert latest.of("mail") is after[1]  # what is equal stays the same object too


def test_a_refresh_reads_changes_that_a_failed_refresh_missed(store, latest, monkeypatch):
    failed(store, 1)
    with monkeypatch.context() as broken:
        broken.setattr(
            store.history, "latest", Mock(side_effect=DatabaseError("away", permanent=False))
        )
        with pytest.raises(DatabaseError):
            latest.refresh(NAMES)
    latest.refresh(NAMES)
    assert slot_of(latest) == SLOT + HOUR


def test_a_slow_read_does_not_replace_a_newer_run(store, latest, monkeypatch):
    read = store.history.latest

    def read_late(*names, **until):
        found = read(*names, **until)
        monkeypatch.undo()
        failed(store, 2)
        latest.read("mail")
        return found

    failed(store, 1)
    monkeypatch.setattr(store.history, "latest", read_late)
    latest.refresh(NAMES)
    assert slot_of(latest) == SLOT + 2 * HOUR
