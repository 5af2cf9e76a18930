"""A model that is deployed step by step behind a real server, over several days: what is stored of it, shown and told."""

from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from messages import message
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.pipeline.delivery import brief_message
from monitor.receivers.message.content import content_of
from monitor.storage import open_store
from servers.answering import answering
from service.lists_world import APART, SIMILAR, command, objects, write_lists

CONFIG = """
comparisons:
  - name: feed
    every: 1d
    k: {k}
    baseline: {{file: {{path: baseline.jsonl, user: user_id, items: items}}}}
    candidate:
      http: {{url: {url}, method: POST, body: {{users: "{{users}}"}}, batch: 20, answers: by, model_version: model.version}}
    users: {{file: {{path: baseline.jsonl, user: user_id}}}}
    rules: [{{alert: SimilarityLow, metric: extended_tau, below: 0.35, segments: all}}]
"""
CHANGED = "the candidate's model changed with this run, v1 → v2"


@pytest.mark.integration
def test_a_change_of_the_model_is_stored_shown_and_told_and_so_is_another_measurement(tmp_path: Path) -> None:
    write_lists(tmp_path / "baseline.jsonl", SIMILAR)
    served = {1: ["v1"] * 3, 2: ["v1", "v2", "v1"], 3: ["v2"] * 3, 4: ["v2"] * 3}
    waiting: list[str] = []

    def respond(_: str, body: Any) -> tuple[int, object]:
        version = waiting.pop()
        lists = dict.fromkeys(body["users"], SIMILAR if version == "v1" or day < 3 else APART)
        return 200, {"by": lists, "model": {"version": version}}

    with answering(respond) as url:
        for day, versions in served.items():
            waiting[:] = versions
            (tmp_path / "rankwatch.yaml").write_text(CONFIG.format(url=url, k=5 if day < 4 else 4))
            prom = str(tmp_path / "feed.prom")
            command(tmp_path, "run-once", "feed", "--slot", f"2024-01-0{day}", "--textfile", prom)

    runs = {run["slot"][8:10]: run for run in objects(tmp_path, "runs")}
    assert [run["models"]["candidate"]["users"] for run in runs.values()][::-1] == [
        {"v1": 60},
        {"v1": 40, "v2": 20},
        {"v2": 60},
        {"v2": 60},
    ]
    assert [run["reason"] for run in runs.values()][::-1] == [None, None, CHANGED, "measured differently from here: k 5 → 4"]
    hashes = [run["input_hash"] for run in runs.values()][::-1]
    assert (hashes[0] == hashes[1], len(set(hashes))) == (True, 3)
    shown = {day: command(tmp_path, "show", "feed", "--slot", f"2024-01-0{day}") for day in served}
    assert ["the same lists as in the run of" in shown[day] for day in served] == [False, True, False, False]
    assert f"{CHANGED}\nmodel of the candidate: v2, v1 until the run of 2024-01-03" in shown[3]
    assert 'rankwatch_model_version_info{arm="candidate",comparison="feed",model_version="v2"} 1' in (
        (tmp_path / "feed.prom").read_text()
    )

    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=False)) as store:
        start = next(each for each in store.alerts.transitions(comparison="feed", limit=None) if each.is_start)
        told = content_of(
            brief_message(message(start, comparison="feed"), store.outbox, NotificationPolicy()), "http://rankwatch.test"
        )
    assert (start.explanation or "").endswith(f" T{CHANGED[1:]}.")
    assert told.why[-1] == f"T{CHANGED[1:]}."
    command(tmp_path, "report", "feed", "-o", str(tmp_path / "report.html"))
    page = unescape((tmp_path / "report.html").read_text())
    assert page.count(f"<title>{CHANGED}</title>") == page.count("<title>measured differently from here: k 5 → 4</title>") == 1
