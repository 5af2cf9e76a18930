"""Alertmanager keeps an alert of `run-once` until the next run is due, as nobody sends it again before."""

import json
from datetime import datetime, timedelta

import pytest

from factories import SLOT
from monitor.service.commands.one_shot import open_one_shot

CONFIG = """
database: {database}
comparisons:
  - name: shop
    every: {every}
    k: 2
    baseline: {{file: {{path: a.jsonl, user: user, items: items}}}}
    candidate: {{file: {{path: b.jsonl, user: user, items: items}}}}
    users: {{all: true}}
    metrics: [overlap]
    rules: [{{alert: Low, metric: overlap, below: 0.5, for: 1}}]
receivers: [alertmanager: {{urls: ["{url}"], resend_every: {resend}}}]
"""


@pytest.mark.parametrize(("every", "resend", "hours"), [("1d", "1m", 96), ("1h", "2h", 8)])
def test_an_alert_ends_four_intervals_of_its_comparison_ahead(
    every, resend, hours, collector, url, tmp_path
):
    for name, items in (("a", "ab"), ("b", "cd")):
        rows = (json.dumps({"user": f"u{number}", "items": list(items)}) for number in range(40))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    config = tmp_path / "rankwatch.yaml"
    config.write_text(CONFIG.format(database=url, every=every, resend=resend, url=collector.url))

    with open_one_shot(config, reconciles=True) as service:
        list(service.run_once("shop", SLOT))
        before = service.clock.now()
        service.deliver()

    (alert, *_) = json.loads(collector.requests[0].body)
    ends_in = datetime.fromisoformat(alert["endsAt"]) - before
    assert (
        timedelta(hours=hours) - timedelta(seconds=1) <= ends_in < timedelta(hours=hours, minutes=5)
    )
