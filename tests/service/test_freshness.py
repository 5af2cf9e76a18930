"""Runs whose arms really serve, the baseline behind a cache: what becomes of the noise floor, and what is told of it."""

from pathlib import Path

import pytest

from servers.recommender import running_recommender
from service.lists_world import command, objects

USERS = [f"u{number}" for number in range(40)]
CONFIG = """
comparisons:
  - name: feed
    every: 1d
    k: 5
    baseline: {{http: {{url: "{}"}}}}
    candidate: {{http: {{url: "{}"}}}}
    users: {{file: {{path: users.csv, user: user}}}}
    noise_floor: {{serve: true}}
    metrics: ["rbo(p=0.9)"]
    rules: [{{alert: Far, metric: "over_floor(rbo(p=0.9))", above: 0.9, min_users: 1}}]
"""


@pytest.mark.integration
@pytest.mark.parametrize("heeds_clients", [True, False])
def test_a_cache_spoils_the_floor_only_where_it_does_not_heed_the_second_request(
    tmp_path: Path, *, heeds_clients: bool
) -> None:
    (tmp_path / "users.csv").write_text("\n".join(["user", *USERS]))
    with running_recommender() as baseline, running_recommender() as candidate:
        baseline.otherwise = "cached" if heeds_clients else "cached_for_all"
        (tmp_path / "rankwatch.yaml").write_text(CONFIG.format(baseline.url, candidate.url))
        (run,) = objects(tmp_path, "run-once", "feed", "--textfile", str(tmp_path / "metrics.prom"))
    metrics = (tmp_path / "metrics.prom").read_text()
    for lists in ("candidate", "noise_floor"):
        for q in ("0.5", "0.99"):
            assert f'{{comparison="feed",lists="{lists}",q="{q}"}} {run["gap_seconds"][lists][q]}\n' in metrics
    assert f'rankwatch_noise_floor_untrusted{{comparison="feed"}} {0 if heeds_clients else 1}.0\n' in metrics
    assert baseline.attempts == dict.fromkeys(USERS, 2)
    if heeds_clients:
        assert run["reason"] is None
        assert run["summaries"]["floor(rbo(p=0.9))"]["all"]["mean"] < 1
    else:
        assert run["summaries"].keys() == {"rbo(p=0.9)"}
        assert run["reason"].startswith("noise_floor is untrusted: a cache gave one of both answers for ")
        assert run["reason"] in command(tmp_path, "show", "feed")
