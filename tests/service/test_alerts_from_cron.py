"""Alertmanager keeps an alert of `run-once` until the next run is due, as nobody sends it again before."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from factories import SLOT
from monitor.service.commands.one_shot import open_one_shot

USERS = [f"u{number}" for number in range(40)]


def lists_of(path: Path, items: list[str]) -> dict[str, object]:
    path.write_text("".join(json.dumps({"user": user, "items": items}) + "\n" for user in USERS))
    return {"file": {"path": str(path), "user": "user", "items": "items"}}


@pytest.mark.parametrize(
    ("every", "resend", "hours"), [("1h", "1m", 4), ("1d", "1m", 96), ("1h", "2h", 8)]
)
def test_an_alert_ends_four_intervals_of_its_comparison_ahead(
    every, resend, hours, collector, tmp_path
):
    comparison = {
        "name": "shop",
        "every": every,
        "k": 2,
        "baseline": lists_of(tmp_path / "a.jsonl", ["a", "b"]),
        "candidate": lists_of(tmp_path / "b.jsonl", ["c", "d"]),
        "users": {"all": True},
        "metrics": ["overlap"],
        "rules": [{"alert": "Low", "metric": "overlap", "below": 0.5, "for": 1}],
    }
    receiver = {"alertmanager": {"urls": [collector.url], "resend_every": resend}}
    config = tmp_path / "rankwatch.yaml"
    config.write_text(
        json.dumps(
            {"database": "sqlite:///a.db", "comparisons": [comparison], "receivers": [receiver]}
        )
    )

    with open_one_shot(config, reconciles=True) as service:
        list(service.run_once("shop", SLOT))
        before = service.clock.now()
        service.deliver()

    (alert, *_) = json.loads(collector.requests[0].body)
    ends_in = datetime.fromisoformat(alert["endsAt"]) - before
    assert (
        timedelta(hours=hours) - timedelta(seconds=1) <= ends_in < timedelta(hours=hours, minutes=5)
    )
