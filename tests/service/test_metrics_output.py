"""`run-once` beside a real node_exporter and a real Pushgateway: what Prometheus would read there after each run."""

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from commands import rankwatch
from monitor.service.commands.metrics_output import gateway_at
from servers.pushing import running_node_exporter, running_pushgateway
from servers.webhook import answer
from service.lists_world import write_world
from tables import rows

"""Values by name and comparison, "" where there is none.

Of several segments or metrics the last.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, url, monkeypatch):
    """The current folder, with a configuration."""
    hook = 'receivers: [{webhook: {url: "http://127.0.0.1:9/"}}]\n'
    write_world(tmp_path, url, names=("feed", "search"), receivers=hook)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_once(options):
    """The exit code."""
    return rankwatch(f"run-once {options}").returncode


def seen_at(url):
    page = requests.get(f"{url}/metrics", timeout=60).text
    return {
        (sample.name, sample.labels.get("comparison", "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith(("rankwatch_", "node_textfile_scrape_error"))
        and sample.labels.get("status") in (None, "ok")
    }


@pytest.mark.integration
def test_node_exporter_shows_the_runs_and_the_last_ok_run_after_a_failure(folder):
    (folder / "textfiles").mkdir()
    with running_node_exporter(folder / "textfiles") as url:
        assert run_once("--slot 2024-01-08 --textfile textfiles/all.prom") == 0
        before = seen_at(url)
        (folder / "candidate.jsonl").unlink()
        assert run_once("--slot 2024-01-09 --textfile textfiles/all.prom") == 3
        after = seen_at(url)

    assert before["node_textfile_scrape_error", ""] == after["node_textfile_scrape_error", ""] == 0
    assert before["rankwatch_similarity_mean", "feed"] == 1.0
    assert before["rankwatch_similarity_distribution_count", "search"] == 60
    assert ("rankwatch_similarity_mean", "feed") not in after
    last_ok = ("rankwatch_run_last_ok_timestamp_seconds", "feed")
    assert before[last_ok] == after[last_ok]


@pytest.mark.integration
def test_a_pushgateway_has_a_group_for_each_comparison_and_instance_and_drops_old_series(folder):
    with running_pushgateway() as url:
        for name in ("feed", "search"):
            assert run_once(f"{name} --slot 2024-01-08 --push {url}") == 0
        before = seen_at(url)
        (folder / "candidate.jsonl").unlink()
        assert run_once(f"feed --slot 2024-01-09 --push {url}") == 3
        after = seen_at(url)
        assert run_once(f"search --slot 2024-01-08 --push {url} --push-instance eu") == 0
        page = requests.get(f"{url}/metrics", timeout=60).text

    assert before["rankwatch_similarity_mean", "feed"] == 1.0
    assert ("rankwatch_similarity_mean", "feed") not in after
    assert after["rankwatch_similarity_mean", "search"] == 1.0
    last_ok = ("rankwatch_run_last_ok_timestamp_seconds", "feed")
    assert before[last_ok] == after[last_ok]
    assert ("rankwatch_outbox_pending", "") in after
    for instance in ("", "eu"):
        assert (
            f'rankwatch_run_last_ok_timestamp_seconds{{comparison="search",instance="{instance}",job="rankwatch"}}'
            in page
        )


def test_a_rejected_push_ends_with_5_without_the_password_and_the_run_is_stored(folder, collector):
    collector.default = answer(400, body=b"bot:h@ll/")
    secret = collector.url.replace("//", "//bot:h%40ll%2F@")
    done = rankwatch("run-once --textfile all.prom", env={"RANKWATCH_PUSH": secret})
    assert done.returncode == 5
    assert done.stderr.endswith(
        f"Pushgateway at {collector.url} did not accept the metrics: it answered with status 400\n"
    )
    assert "h@ll" not in done.stderr
    (pushed,) = collector.requests
    assert pushed.method == "PUT"
    assert pushed.path == "/metrics/job/rankwatch/comparison/feed"
    assert "Basic Ym90OmhAbGwv" in pushed.headers.values()  # bot:h@ll/
    text = (folder / "all.prom").read_text()
    assert 'rankwatch_run_status{comparison="feed",status="ok"} 1.0' in text
    by_option = rankwatch(f"run-once --push {secret}").stderr
    assert "shows the password in --push: put the URL into RANKWATCH_PUSH" in by_option


def test_the_push_happens_even_if_the_textfile_cannot_be_written(monkeypatch, collector):
    monkeypatch.setattr("monitor.export.exposition.require_textfile", lambda path: path)
    assert run_once(f"--textfile gone/x.prom --push {collector.url}") == 74
    assert len(collector.requests) == 3


NO_URL = "--push (or RANKWATCH_PUSH) must be a URL such as http://pushgateway.internal:9091"
REFUSED = f"""
--textfile rankwatch.txt | names end in .prom
--textfile gone/rankwatch.prom | gone/rankwatch.prom cannot be written: No such file or directory
--push pushgateway:9091 | {NO_URL}
--push http://a..b:9091 | {NO_URL}
--push http://bot:s3cret@{"a" * 64}.internal | {NO_URL}
--push https://bot:1234/x@host | write special characters of user and password as %XX, / as %2F
--push http://bot:s3cret@host?x=1 | must end with the path
"""


def test_invalid_outputs_of_metrics_are_rejected_before_the_run(folder):
    for option, told in rows(REFUSED):
        done = rankwatch(f"run-once {option}")
        assert done.returncode == 2
        assert told in done.stderr
        assert not [secret for secret in ("1234", "s3cret") if secret in done.stderr]
    assert not (folder / "rankwatch.db.lock").exists()  # nothing was opened


def test_a_gateway_may_have_a_path_and_its_repr_has_no_credentials():
    gateway = gateway_at("https://bot:s3cret@metrics.internal/push/")
    assert gateway.url == "https://metrics.internal/push"
    assert "s3cret" not in repr(gateway)
