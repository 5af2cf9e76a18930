"""The daemon as its own process, against real databases, a real Alertmanager and real signals."""

import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.model import State, Transition
from monitor.receivers import verify
from monitor.storage import open_store
from servers.alertmanager import AlertmanagerServer
from servers.daemon import serving, wait_for
from servers.webhook import Collector, Request, answer, hang
from service.lists_world import APART, SIMILAR, write_config, write_lists, write_world

pytestmark = pytest.mark.early

SECRET = "s3cret-of-the-hook"  # noqa: S105 - a test's


def receivers_yaml(hook: Collector, alertmanager: AlertmanagerServer) -> str:
    return f"""
receivers:
  - alertmanager: {{urls: ["{alertmanager.url}"], resend_every: 1s}}
  - webhook: {{url: "{hook.url}/hook", secret: {SECRET}, timeout: 2s}}
"""


def announced(url: str) -> list[Transition]:
    with closing(open_store(url, create=True)) as store:
        return [each for each in store.alerts.transitions(comparison=None, limit=None) if each.is_announced]


def keys(requests: list[Request]) -> list[str]:
    return [{name.lower(): value for name, value in request.headers.items()}["idempotency-key"] for request in requests]


def test_no_announcement_is_lost_when_the_daemon_is_killed_between_storing_and_sending_while_receivers_are_down(
    tmp_path: Path, database_url: str, collector: Collector, make_alertmanager: Callable[..., AlertmanagerServer]
) -> None:
    alertmanager = make_alertmanager()
    alertmanager.stop()
    collector.default = hang
    config = write_world(tmp_path, database_url, receivers=receivers_yaml(collector, alertmanager))
    write_lists(tmp_path / "candidate.jsonl", APART)

    with serving(config) as daemon:
        wait_for(lambda: announced(database_url), "a stored firing")
        collector.wait_for(1)
        daemon.kill()
    collector.default = answer(200)
    alertmanager.start()
    with serving(config) as daemon:
        wait_for(alertmanager.alerts, "the alert in Alertmanager")
        wait_for(lambda: len(collector.requests) > 1, "the alert at the webhook")
        write_lists(tmp_path / "candidate.jsonl", SIMILAR)
        wait_for(lambda: not alertmanager.alerts(), "the alert's end in Alertmanager")
        wait_for(lambda: len(set(keys(collector.requests))) > 1, "the alert's end at the webhook")
        assert daemon.terminate() == 0

    fired, ended = announced(database_url)
    assert (fired.to_state, ended.to_state) == (State.FIRING, State.QUIET)
    assert fired.dedup_key == ended.dedup_key
    assert len(set(keys(collector.requests))) == 2
    bodies = [json.loads(request.body) for request in collector.requests]
    assert [body["status"] for body in bodies if body["status"] == "resolved"] == ["resolved"]
    assert bodies[-1]["status"] == "resolved"
    for request in collector.requests:
        assert verify(SECRET, request.headers, request.body, now=datetime.now(UTC))


def test_removing_a_comparison_whose_alert_fires_ends_the_alert_and_tells_receivers(
    tmp_path: Path, collector: Collector
) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook", secret: {SECRET}}}}}]\n'
    config = write_world(tmp_path, url, receivers=hook, names=("old", "kept"))
    write_lists(tmp_path / "candidate.jsonl", APART)
    with serving(config) as daemon:
        collector.wait_for(2)
        write_config(tmp_path, url, every="1s", receivers=hook, names=("kept",))
        daemon.send(signal.SIGHUP)
        requests = collector.wait_for(3)
    last = json.loads(requests[-1].body)
    assert (last["status"], last["groupLabels"]["comparison"]) == ("resolved", "old")
    assert "removed from the configuration" in requests[-1].body.decode()


def test_sigterm_during_a_hung_pull_ends_in_time_and_gives_the_slot_back(tmp_path: Path, collector: Collector) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    collector.default = hang
    config = write_world(tmp_path, url, every="1h")
    source = f'candidate: {{http: {{url: "{collector.url}/{{user}}", timeout: 5m, retries: 0}}}}'
    config.write_text(
        config.read_text().replace("candidate: {file: {path: candidate.jsonl, user: user_id, items: items}}", source)
    )
    with serving(config) as daemon:
        collector.wait_for(1)
        start = time.monotonic()
        assert daemon.terminate() == 0
        assert time.monotonic() - start < 100
    with closing(open_store(url, create=False)) as store:
        assert store.history.runs(comparison=None, limit=1000) == ()
