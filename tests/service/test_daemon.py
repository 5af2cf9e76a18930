"""The daemon as its own process, against real databases, a real Alertmanager, a real Prometheus and real signals."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, make_url, text

from forking import rankwatch
from monitor.model import Run, RunStatus, State, Transition
from monitor.receivers import verify
from monitor.storage import SqlStore, open_store
from servers import require
from servers.alertmanager import AlertmanagerServer
from servers.daemon import ServeProcess, serving, wait_for
from servers.prometheus import running_prometheus
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


def stored(url: str) -> SqlStore:
    return open_store(url, create=True)


def runs_of(url: str) -> tuple[Run, ...]:
    store = stored(url)
    try:
        return store.history.runs(comparison=None, limit=1000)
    finally:
        store.close()


def announced(url: str) -> list[Transition]:
    store = stored(url)
    try:
        return [each for each in store.alerts.transitions(comparison=None, limit=None) if each.is_announced]
    finally:
        store.close()


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


def test_after_kill_and_restart_prometheus_sees_the_last_values_before_the_next_run(tmp_path: Path, database_url: str) -> None:
    config = write_world(tmp_path, database_url, every="1d")
    with serving(config) as daemon:
        wait_for(lambda: "rankwatch_similarity_mean{" in daemon.metrics(), "the first run's gauges")
        daemon.kill()
    with serving(config) as daemon, running_prometheus(daemon.url.removeprefix("http://")) as prometheus:
        seen = prometheus.await_query('rankwatch_similarity_mean{metric="rbo(p=0.9)",segment="all"}')
        assert [float(sample["value"][1]) for sample in seen] == [1.0]
        page = daemon.metrics()
    assert len(runs_of(database_url)) == 1
    checked = subprocess.run([require("promtool"), "check", "metrics"], input=page, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def sample(daemon: ServeProcess, series: str) -> float | None:
    lines = [line for line in daemon.metrics().splitlines() if line.startswith(series + " ")]
    return float(lines[0].split()[-1]) if lines else None


def test_reload_takes_up_and_drops_comparisons_and_a_broken_file_keeps_the_old_ones(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    config = write_world(tmp_path, url, names=("old", "kept"))
    ok = "rankwatch_config_last_reload_successful"
    with serving(config) as daemon:
        wait_for(lambda: 'comparison="old"' in daemon.metrics(), "the old comparison")
        config.write_text("comparisons: [{nme: x}]\n")
        daemon.send(signal.SIGHUP)
        wait_for(lambda: sample(daemon, ok) == 0.0, "the failed reload in the metrics")
        assert 'comparison="old"' in daemon.metrics()
        write_config(tmp_path, url, every="1s", names=("kept", "new"))
        daemon.send(signal.SIGHUP)
        wait_for(lambda: sample(daemon, ok) == 1.0, "the reload in the metrics")
        wait_for(lambda: 'rankwatch_similarity_mean{comparison="new"' in daemon.metrics(), "the new comparison's run")
        assert 'comparison="old"' not in daemon.metrics()
        assert 'comparison="kept"' in daemon.metrics()
        assert daemon.status_of("/-/healthy") == 200
        assert daemon.status_of("/-/ready") == 200
        assert daemon.terminate() == 0
    assert "nme" in daemon.log.read_text()


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


def test_a_comparison_whose_source_is_gone_fails_alone_and_shows_no_similarity(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rankwatch.db"
    config = write_world(tmp_path, url, names=("good", "bad"))
    config.write_text(
        config.read_text().replace("candidate.jsonl", "gone.jsonl", 2).replace("gone.jsonl", "candidate.jsonl", 1)
    )
    with serving(config) as daemon:
        wait_for(lambda: 'rankwatch_runs_total{comparison="bad",status="failed"} 2' in daemon.metrics(), "two failed runs")
        wait_for(lambda: 'rankwatch_similarity_mean{comparison="good"' in daemon.metrics(), "the good one's similarity")
        assert 'rankwatch_similarity_mean{comparison="bad"' not in daemon.metrics()
    reasons = {run.reason for run in runs_of(url) if run.comparison == "bad" and run.status is RunStatus.FAILED}
    assert len(reasons) == 1
    assert "gone.jsonl" in str(reasons)


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
    assert runs_of(url) == ()


def test_a_database_that_goes_away_is_told_by_ready_and_taken_up_again_by_itself(tmp_path: Path, postgres_url: str) -> None:
    config = write_world(tmp_path, postgres_url)
    admin = make_url(postgres_url)
    with serving(config) as daemon:
        wait_for(lambda: runs_of(postgres_url), "a run")
        with block_connections(admin):
            wait_for(lambda: daemon.status_of("/-/ready") == 503, "not ready")
            assert daemon.status_of("/-/healthy") == 200
            assert "rankwatch_build_info" in daemon.metrics()
        before = len(runs_of(postgres_url))
        wait_for(lambda: daemon.status_of("/-/ready") == 200, "ready again")
        wait_for(lambda: len(runs_of(postgres_url)) > before, "a run after the database came back")
        assert daemon.terminate() == 0
    assert len({run.slot for run in runs_of(postgres_url)}) == len(runs_of(postgres_url))


@contextmanager
def block_connections(url: URL) -> Iterator[None]:
    """Refuse new connections to the database and end those it has, as an outage does."""
    engine = create_engine(url.set(drivername="postgresql+psycopg", database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'alter database "{url.database}" with allow_connections false'))
        connection.execute(
            text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name"), {"name": url.database}
        )
        try:
            yield
        finally:
            connection.execute(text(f'alter database "{url.database}" with allow_connections true'))
    engine.dispose()


def test_serve_on_a_taken_port_ends_with_one_line_and_no_traceback(tmp_path: Path) -> None:
    config = write_world(tmp_path, f"sqlite:///{tmp_path}/rankwatch.db")
    with serving(config) as daemon:
        port = daemon.url.rpartition(":")[2]
        taken = config.read_text().replace("listen: 127.0.0.1:0", f"listen: 127.0.0.1:{port}").replace("/rankwatch.db", "/2.db")
        second = tmp_path / "second.yaml"
        second.write_text(taken)
        done = rankwatch("serve", "--config", str(second), cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert port in done.stderr
